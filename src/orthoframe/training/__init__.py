"""The loop, checkpoints, evaluation: from settings to a run folder.

Names are loaded when they are first used: the help of the command needs the settings only.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orthoframe.training._errors import Stopped as Stopped
    from orthoframe.training._export import Trained as Trained
    from orthoframe.training._export import load_encoder as load_encoder
    from orthoframe.training._folder import NAN_FILE as NAN_FILE
    from orthoframe.training._onnx import export_onnx as export_onnx
    from orthoframe.training._onnx import images_of_run as images_of_run
    from orthoframe.training._records import COLUMNS as COLUMNS
    from orthoframe.training._records import Cause as Cause
    from orthoframe.training._records import CauseRecord as CauseRecord
    from orthoframe.training._records import CertificateRecord as CertificateRecord
    from orthoframe.training._records import ClassMeasurement as ClassMeasurement
    from orthoframe.training._records import Ending as Ending
    from orthoframe.training._records import EpochRecord as EpochRecord
    from orthoframe.training._records import GeometryMeasurement as GeometryMeasurement
    from orthoframe.training._records import Measurement as Measurement
    from orthoframe.training._records import OwnershipMeasurement as OwnershipMeasurement
    from orthoframe.training._records import RunEnvironment as RunEnvironment
    from orthoframe.training._records import Signature as Signature
    from orthoframe.training._records import VerdictRecord as VerdictRecord
    from orthoframe.training._settings import RECIPES as RECIPES
    from orthoframe.training._settings import Settings as Settings
    from orthoframe.training._train import Interrupted as Interrupted
    from orthoframe.training._train import Outcome as Outcome
    from orthoframe.training._train import Watcher as Watcher
    from orthoframe.training._train import train as train

_MODULES = {
    "train": "_train",
    "COLUMNS": "_records",
    "NAN_FILE": "_folder",
    "EpochRecord": "_records",
    "Measurement": "_records",
    "GeometryMeasurement": "_records",
    "ClassMeasurement": "_records",
    "OwnershipMeasurement": "_records",
    "CertificateRecord": "_records",
    "RunEnvironment": "_records",
    "VerdictRecord": "_records",
    "CauseRecord": "_records",
    "Signature": "_records",
    "Ending": "_records",
    "Cause": "_records",
    "Settings": "_settings",
    "RECIPES": "_settings",
    "Outcome": "_train",
    "Watcher": "_train",
    "Interrupted": "_train",
    "Stopped": "_errors",
    "load_encoder": "_export",
    "Trained": "_export",
    "export_onnx": "_onnx",
    "images_of_run": "_onnx",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'orthoframe.training' has no attribute {name!r}")
    return getattr(import_module(f"orthoframe.training.{_MODULES[name]}"), name)
