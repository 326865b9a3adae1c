"""The supervised contrastive loss, its floor, its form across processes."""

from orthoframe.losses._bounds import angle_bound, decay_rate, fastest_temperature
from orthoframe.losses._checks import check_options
from orthoframe.losses._floor import collapsed_loss, loss_floor
from orthoframe.losses._gap import Gap, GapMeter
from orthoframe.losses._module import SupConLoss
from orthoframe.losses._options import Denominator, Reduction, Singletons
from orthoframe.losses._supcon import supcon_loss

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
    "check_options",
    "Denominator",
    "Reduction",
    "Singletons",
]
