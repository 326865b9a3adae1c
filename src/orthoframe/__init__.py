"""Supervised contrastive learning with a known destination: the orthogonal frame.

Names are loaded when they are first used: importing the package loads little more than torch.
"""

from typing import TYPE_CHECKING

from orthoframe.lazy import lazy_names

__version__ = "0.2.0"

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
    from orthoframe.recipe import FrameRecipe as FrameRecipe
    from orthoframe.ufm import gradient_flow as gradient_flow
    from orthoframe.ufm import predict_gram as predict_gram
    from orthoframe.ufm import solve_ufm as solve_ufm
else:
    _NAMES = {
        "batches": "BatchPlan PlanSampler PlanLoader certify repair coverage epochs_to_certify",
        "encoders": "FrameHead",
        "losses": "supcon_loss SupConLoss make_frame frame_loss FrameLoss frame_floor frame_collapsed loss_floor "
        "collapsed_loss angle_bound decay_rate fastest_temperature",
        "geometry": "measure ClassStatistics GeometryMetric NearestCentre explain",
        "recipe": "FrameRecipe",
        "ufm": "solve_ufm predict_gram gradient_flow",
    }
    __all__, __getattr__, __dir__ = lazy_names(__name__, _NAMES)
    __all__ += ["__version__"]
