"""The supervised contrastive loss and the frame term, their floors and gaps, their form across processes."""

from orthoframe.losses._floors import collapsed_loss, frame_collapsed, frame_floor, loss_floor
from orthoframe.losses._frame import FrameLoss, frame_loss, make_frame
from orthoframe.losses._gap import Gap, GapMeter, LossOptions
from orthoframe.losses._rates import angle_bound, decay_rate, fastest_temperature
from orthoframe.losses._supcon import SupConLoss, supcon_loss

__all__ = [
    "supcon_loss",
    "SupConLoss",
    "make_frame",
    "frame_loss",
    "FrameLoss",
    "frame_floor",
    "frame_collapsed",
    "loss_floor",
    "collapsed_loss",
    "angle_bound",
    "decay_rate",
    "fastest_temperature",
    "Gap",
    "GapMeter",
    "LossOptions",
]
