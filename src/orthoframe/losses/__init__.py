"""The supervised contrastive loss, its floor and the gap above it, its form across processes."""

from orthoframe.losses._floor import angle_bound, collapsed_loss, decay_rate, fastest_temperature, loss_floor
from orthoframe.losses._gap import Gap, GapMeter
from orthoframe.losses._supcon import SupConLoss, supcon_loss

__all__ = [
    "supcon_loss",
    "SupConLoss",
    "loss_floor",
    "collapsed_loss",
    "angle_bound",
    "decay_rate",
    "fastest_temperature",
    "Gap",
    "GapMeter",
]
