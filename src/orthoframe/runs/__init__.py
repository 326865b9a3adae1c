"""The files of a run: their records, the folder, checkpoints, the encoder file; they are written and read here alone.

Names are loaded when they are first used: records need no safetensors.
"""
# ruff: noqa: F403  # type checkers follow the stars; at run time the table below decides

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoframe.errors import needs_extra

if TYPE_CHECKING:
    from orthoframe.runs._checkpoint import *
    from orthoframe.runs._encoder_file import *
    from orthoframe.runs._folder import *
    from orthoframe.runs._read import *
    from orthoframe.runs._records import *
    from orthoframe.runs._trend import *

_NAMES = {
    "_records": "COLUMNS EpochRecord Measurement GeometryMeasurement ClassMeasurement OwnershipMeasurement "
    "CertificateRecord RunEnvironment NonFiniteBatch VerdictRecord TestRecord CauseRecord Signature Ending Cause",
    "_folder": "RunFolder CONFIG CHECKPOINT PREVIOUS VERDICT",
    "_checkpoint": "Checkpoint Progress State DataFingerprint",
    "_encoder_file": "Architecture TrainedEncoder load_encoder save_encoder",
    "_read": "Run read_run",
    "_trend": "END power_law summed_rates",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'orthoframe.runs' has no attribute {name!r}")
    with needs_extra("orthoframe.runs", "train"):
        return getattr(import_module(f"orthoframe.runs.{_MODULES[name]}"), name)
