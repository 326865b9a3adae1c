"""Supervised contrastive learning with a known destination: the orthogonal frame.

Names are loaded when they are first used: importing the package loads little more than torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orthoframe._version import __version__

if TYPE_CHECKING:
    from orthoframe.batches import BatchPlan as BatchPlan
    from orthoframe.batches import PlanLoader as PlanLoader
    from orthoframe.batches import PlanSampler as PlanSampler
    from orthoframe.batches import certify as certify
    from orthoframe.batches import coverage as coverage
    from orthoframe.batches import epochs_to_certify as epochs_to_certify
    from orthoframe.batches import repair as repair
    from orthoframe.encoders import FrameHead as FrameHead
    from orthoframe.geometry import ClassStatistics as ClassStatistics
    from orthoframe.geometry import GeometryMetric as GeometryMetric
    from orthoframe.geometry import NearestCentre as NearestCentre
    from orthoframe.geometry import explain as explain
    from orthoframe.geometry import measure as measure
    from orthoframe.losses import FrameLoss as FrameLoss
    from orthoframe.losses import SupConLoss as SupConLoss
    from orthoframe.losses import angle_bound as angle_bound
    from orthoframe.losses import collapsed_loss as collapsed_loss
    from orthoframe.losses import decay_rate as decay_rate
    from orthoframe.losses import fastest_temperature as fastest_temperature
    from orthoframe.losses import frame_collapsed as frame_collapsed
    from orthoframe.losses import frame_floor as frame_floor
    from orthoframe.losses import frame_loss as frame_loss
    from orthoframe.losses import loss_floor as loss_floor
    from orthoframe.losses import make_frame as make_frame
    from orthoframe.losses import supcon_loss as supcon_loss
    from orthoframe.ufm import gradient_flow as gradient_flow
    from orthoframe.ufm import predict_gram as predict_gram
    from orthoframe.ufm import solve_ufm as solve_ufm

_ROOMS = {
    "BatchPlan": "batches",
    "PlanSampler": "batches",
    "PlanLoader": "batches",
    "certify": "batches",
    "repair": "batches",
    "coverage": "batches",
    "epochs_to_certify": "batches",
    "FrameHead": "encoders",
    "supcon_loss": "losses",
    "SupConLoss": "losses",
    "make_frame": "losses",
    "frame_loss": "losses",
    "FrameLoss": "losses",
    "frame_floor": "losses",
    "frame_collapsed": "losses",
    "loss_floor": "losses",
    "collapsed_loss": "losses",
    "angle_bound": "losses",
    "decay_rate": "losses",
    "fastest_temperature": "losses",
    "measure": "geometry",
    "ClassStatistics": "geometry",
    "GeometryMetric": "geometry",
    "NearestCentre": "geometry",
    "explain": "geometry",
    "solve_ufm": "ufm",
    "predict_gram": "ufm",
    "gradient_flow": "ufm",
}

__all__ = ["__version__", *_ROOMS]


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'orthoframe' has no attribute {name!r}")
    value = getattr(import_module(f"orthoframe.{_ROOMS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
