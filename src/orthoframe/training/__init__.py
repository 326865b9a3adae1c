"""Settings, the loop, the run from settings to report, checkpoints, evaluation, diagnosis.

Names are loaded when they are first used: the help of the command needs the settings only.
"""
# ruff: noqa: F403  # type checkers follow the stars; at run time the table below decides

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoframe.errors import needs_extra

if TYPE_CHECKING:
    from orthoframe.training._causes import *
    from orthoframe.training._diagnosis import *
    from orthoframe.training._encoder_file import *
    from orthoframe.training._evaluation import *
    from orthoframe.training._loop import *
    from orthoframe.training._objective import *
    from orthoframe.training._onnx import *
    from orthoframe.training._processes import *
    from orthoframe.training._recipes import *
    from orthoframe.training._records import *
    from orthoframe.training._run import *
    from orthoframe.training._schedules import *
    from orthoframe.training._settings import *
    from orthoframe.training._task import *

_NAMES = {
    "_run": "train resume RunResult RunListener Interrupted",
    "_settings": "Settings",
    "_schedules": "TemperatureSchedule Ramp",
    "_recipes": "RECIPES make_settings",
    "_task": "Task make_task",
    "_evaluation": "Evaluation encode",
    "_objective": "TaskObjective Outputs",
    "_loop": "Loop Stopped NonFiniteLoss",
    "_processes": "is_first_process",
    "_causes": "LikelyCause",
    "_diagnosis": "diagnose Diagnosis",
    "_encoder_file": "load_encoder TrainedEncoder Architecture",
    "_onnx": "export_onnx images_of_run",
    "_records": "COLUMNS NON_FINITE_FILE EpochRecord Measurement GeometryMeasurement ClassMeasurement "
    "OwnershipMeasurement CertificateRecord RunEnvironment NonFiniteBatch VerdictRecord TestRecord CauseRecord "
    "Signature Ending Cause unfinished",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'orthoframe.training' has no attribute {name!r}")
    with needs_extra("orthoframe.training", "train"):
        return getattr(import_module(f"orthoframe.training.{_MODULES[name]}"), name)
