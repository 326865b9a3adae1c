"""Why a prediction: how the energy of a feature is shared between the blocks of dimensions that classes own."""

from dataclasses import dataclass

import torch
from torch import Tensor

from orthoframe.geometry._centres import NearestCentre
from orthoframe.geometry._measure import prepared
from orthoframe.geometry._ownership import block_members, ownership


@dataclass(frozen=True)
class Explanation:
    """What speaks for each class in each row.

    Attributes:
        winners: `[rows]`, the class of the nearest centre.
        shares: `[rows, k]`, the part of the energy of a row in the block of each class.
        unowned: `[rows]`, the part in dimensions that no class owns; 1 for a row of zeros.
    """

    winners: Tensor
    shares: Tensor
    unowned: Tensor

    @property
    def outside(self) -> Tensor:
        """`[rows]`, the part outside the block of the winner: the larger, the less the row is like any class.

        Of an image of a class that was not trained it is larger as a rule, so it serves as an out-of-class score.
        """
        return 1.0 - self.shares.gather(1, self.winners[:, None])[:, 0]


def explain(features: Tensor, centres: Tensor) -> Explanation:
    """Share the energy of each row out between the classes.

    The dimensions in which the mean of class c has the most energy are its block B_c, and

        share_c(h) = sum over j in B_c of h_j^2 / ||h||^2

    Shares and what lies in dead dimensions add up to 1. At an orthogonal frame a row that has collapsed to its class
    has a share of 1 there. As the blocks are then disjoint and hold the means, a share is never below the squared
    cosine to the mean: it counts all that a row has in the dimensions of a class, in whatever proportions.

    Away from a frame a dimension still goes to the class with the most energy in it, as in `Ownership`. Shares then
    say which dimensions a row uses, and the nearest centre, which decides, may be that of a class with a small share.
    They depend on the axes: where features are not non-negative, nothing ties a class to single dimensions.

    Args:
        features: `[rows, d]`, of any length; they are divided by their norms.
        centres: `[k, d]`, the class means; a row of NaN is a class that is never predicted and owns nothing.

    Returns:
        Winners and shares, in float64.

    Raises:
        ValueError: For shapes that do not fit, or a feature that is not finite.
        TypeError: For features that are not floating point.

    Examples:
        >>> centres = torch.tensor([[0.6, 0.8, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
        >>> found = explain(torch.tensor([[0.8, 0.6, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]]), centres)
        >>> found.winners.tolist(), found.shares.tolist(), found.unowned.tolist()
        ([0, 0], [[1.0, 0.0], [0.5, 0.25]], [0.0, 0.25])
        >>> found.outside.tolist()
        [0.0, 0.5]
    """
    if features.ndim != 2 or centres.ndim != 2 or features.shape[1] != centres.shape[1]:
        raise ValueError(
            "features and centres must have shapes [rows, d] and [k, d] with the same d, not "
            f"{list(features.shape)} and {list(centres.shape)}"
        )
    rows = prepared(features, normalize=True).double()
    if not bool(rows.isfinite().all()):
        raise ValueError("there is a feature that is not finite; leave its row out")
    means = centres.to(rows.device, torch.float64)
    owners = ownership(means.nan_to_num()).owners
    energy = rows.square()
    total = energy.sum(1, keepdim=True)
    # A second time, in float64: shares of float32 rows would add up to 1 in seven digits only.
    energy = energy / torch.where(total == 0, 1.0, total)
    shares = energy @ block_members(owners, len(means))
    unowned = energy[:, owners < 0].sum(1) + (total[:, 0] == 0)
    return Explanation(NearestCentre(means).predict(rows), shares, unowned)
