"""The files of a run: their records, the folder, checkpoints, the encoder file; they are written and read here alone.

Names are loaded when they are first used: records need no safetensors.
"""
# ruff: noqa: F403  # type checkers follow the stars; at run time the table below decides

from typing import TYPE_CHECKING

from orthoframe.lazy import lazy_names

if TYPE_CHECKING:
    from orthoframe.runs._checkpoint import *
    from orthoframe.runs._encoder_file import *
    from orthoframe.runs._folder import *
    from orthoframe.runs._read import *
    from orthoframe.runs._records import *
else:
    _NAMES = {
        "_records": "COLUMNS EpochRecord Measurement GeometryMeasurement ClassMeasurement OwnershipMeasurement "
        "CertificateRecord RunEnvironment NonFiniteBatch VerdictRecord TestRecord CauseRecord Question Signature "
        "Ending Cause END power_law summed_rates",
        "_folder": "RunFolder metrics_table CONFIG CHECKPOINT PREVIOUS VERDICT",
        "_checkpoint": "Checkpoint Progress State DataFingerprint",
        "_encoder_file": "Architecture TrainedEncoder describe_encoder encoder_in load_encoder save_encoder",
        "_read": "Run read_run read_epochs",
    }
    __all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES, "train")
