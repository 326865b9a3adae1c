"""Settings, the loop, the run from settings to report, checkpoints, evaluation, diagnosis.

Names are loaded when they are first used: the help of the command needs the settings only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orthoframe.training._diagnosis import Diagnosis, LikelyCause, diagnose
    from orthoframe.training._export import TrainedEncoder, export_onnx, images_of_run, load_encoder
    from orthoframe.training._loop import Loop, NonFiniteLoss, Stopped
    from orthoframe.training._processes import is_first_process
    from orthoframe.training._records import (
        COLUMNS,
        NON_FINITE_FILE,
        Cause,
        CauseRecord,
        CertificateRecord,
        ClassMeasurement,
        Ending,
        EpochRecord,
        GeometryMeasurement,
        Measurement,
        NonFiniteBatch,
        OwnershipMeasurement,
        RunEnvironment,
        Signature,
        VerdictRecord,
        unfinished,
    )
    from orthoframe.training._run import Interrupted, RunListener, RunResult, resume, train
    from orthoframe.training._settings import RECIPES, Settings, TemperatureSchedule
    from orthoframe.training._task import Evaluation, Task, make_task

__all__ = [
    "train",
    "resume",
    "Settings",
    "TemperatureSchedule",
    "RECIPES",
    "RunResult",
    "RunListener",
    "Interrupted",
    "Stopped",
    "NonFiniteLoss",
    "is_first_process",
    "Task",
    "make_task",
    "Loop",
    "Evaluation",
    "diagnose",
    "Diagnosis",
    "LikelyCause",
    "load_encoder",
    "TrainedEncoder",
    "export_onnx",
    "images_of_run",
    "COLUMNS",
    "NON_FINITE_FILE",
    "EpochRecord",
    "Measurement",
    "GeometryMeasurement",
    "ClassMeasurement",
    "OwnershipMeasurement",
    "CertificateRecord",
    "RunEnvironment",
    "NonFiniteBatch",
    "VerdictRecord",
    "CauseRecord",
    "Signature",
    "Ending",
    "Cause",
    "unfinished",
]

_MODULES = {
    "_settings": ("Settings", "TemperatureSchedule", "RECIPES"),
    "_run": ("train", "resume", "RunResult", "RunListener", "Interrupted"),
    "_loop": ("Loop", "Stopped", "NonFiniteLoss"),
    "_processes": ("is_first_process",),
    "_task": ("Task", "make_task", "Evaluation"),
    "_diagnosis": ("diagnose", "Diagnosis", "LikelyCause"),
    "_export": ("load_encoder", "TrainedEncoder", "export_onnx", "images_of_run"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'orthoframe.training' has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), "_records")
    return getattr(import_module(f"orthoframe.training.{module}"), name)
