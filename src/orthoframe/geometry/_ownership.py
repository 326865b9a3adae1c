"""Which class owns each dimension, and what that says about a prediction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from orthoframe._rows import SMALLEST_NORM, Rows, feature_tensor, unit_rows
from orthoframe.geometry._classifiers import NearestCentre
from orthoframe.geometry._statistics import not_finite, prepared

_OWNED = 0.9  # a dimension is called owned from this purity on; nothing else depends on it
_DEAD = 1e-12  # a dimension with at most this fraction of the largest dimension's energy is dead


@dataclass(frozen=True)
class Ownership:
    """Which class owns each dimension: the one whose mean has the most energy (square) there.

    The dimensions of a class are its block. At an orthogonal frame of non-negative features no two classes share a
    dimension: every purity is 1, and the mean of a class lies inside its block.
    """

    owners: Tensor  # [d], index into the classes that were measured; -1 where the dimension is dead
    purity: Tensor  # [d], the owner's fraction of the energy; NaN where the dimension is dead
    owned: int  # dimensions with a purity of 0.9 or more
    shared: int  # other live dimensions
    dead: int
    dimensions: Tensor  # [k], how many each class owns
    inside: Tensor  # [k], the fraction of a class mean's energy in its own block; NaN for a zero mean

    def table(self, names: Sequence[int | str]) -> str:
        """One line per class: its dimensions, their mean purity, and how much of its mean lies inside them."""
        widest = max(len("class"), *(len(str(name)) for name in names))
        lines = [f"{'class':<{widest}}  dimensions  purity  inside"]
        for c, name in enumerate(names):
            values = (self.purity[self.owners == c].mean(), self.inside[c])
            purity, inside = ("-" if value.isnan() else f"{float(value):.4f}" for value in values)
            lines.append(f"{name!s:<{widest}}  {int(self.dimensions[c]):>10}  {purity:>6}  {inside:>6}")
        return "\n".join(lines)


def ownership(means: Tensor) -> Ownership:
    """The owner of each dimension, from the class means `[k, d]`; a mean that counts as zero owns nothing."""
    means = means.masked_fill(unit_rows(means)[1] == 0, 0.0)
    # Only ratios of energies matter, and squares of large or small entries would be out of range.
    largest = means.abs().max() if means.numel() else 1.0
    energy = (means / torch.as_tensor(largest).clamp(min=SMALLEST_NORM)).square()
    total = energy.sum(0)
    dead = total <= _DEAD * total.max()
    largest, owners = energy.max(0)
    owners = owners.masked_fill(dead, -1)
    purity = (largest / total).masked_fill(dead, math.nan)
    blocks = _block_members(owners, len(means))
    return Ownership(
        owners=owners,
        purity=purity,
        owned=int((purity >= _OWNED).sum()),
        shared=int((purity < _OWNED).sum()),
        dead=int(dead.sum()),
        dimensions=blocks.sum(0).long(),
        inside=(energy * blocks.T).sum(1) / energy.sum(1),
    )


@dataclass(frozen=True)
class Explanation:
    """How much of each row lies in the block of each class.

    Attributes:
        winners: `[rows]`, the class of the nearest centre.
        shares: `[rows, k]`, the fraction of a row's energy in the block of each class.
        unowned: `[rows]`, the fraction in dimensions that no class owns; 1 for a row of zeros.
    """

    winners: Tensor
    shares: Tensor
    unowned: Tensor

    @property
    def outside(self) -> Tensor:
        """`[rows]`, the fraction outside the block of the winner: the larger, the less the row resembles any class.

        It is usually larger for images of a class that was not trained, so it serves as an out-of-class score.
        """
        return 1.0 - self.shares.gather(1, self.winners[:, None])[:, 0]


def explain(features: Rows, centres: Rows) -> Explanation:
    """Divide the energy of each row among the classes.

    The dimensions in which the mean of class c has the most energy are its block B_c, and

        share_c(h) = sum over j in B_c of h_j^2 / ||h||^2

    Shares and what lies in dead dimensions add up to 1. At an orthogonal frame a row that has collapsed to its class
    has a share of 1 there, and a share is never below the squared cosine to the mean. Away from a frame shares say
    which dimensions a row uses, and the nearest centre, which decides, may be that of a class with a small share. They
    depend on the axes: unless features are non-negative, nothing ties a class to single dimensions.

    Args:
        features: `[rows, d]`, a tensor or an array of any length; they are divided by their norms.
        centres: `[k, d]`, the class means; a row of NaN is a class that is never predicted and owns nothing.

    Returns:
        Winners and shares, in float64.

    Raises:
        ValueError: For shapes that do not fit, or a feature that is not finite.
        TypeError: For features that are not floating point.

    Examples:
        >>> centres = torch.tensor([[0.6, 0.8, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
        >>> features = torch.tensor([[0.8, 0.6, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
        >>> evidence = explain(features, centres)
        >>> evidence.winners.tolist(), evidence.shares.tolist(), evidence.unowned.tolist()
        ([0, 0], [[1.0, 0.0], [0.5, 0.25]], [0.0, 0.25])
        >>> evidence.outside.tolist()
        [0.0, 0.5]
    """
    inputs, means = feature_tensor(features), feature_tensor(centres, "centres")
    if inputs.ndim != 2 or means.ndim != 2 or inputs.shape[1] != means.shape[1]:
        raise ValueError(
            "features and centres must have shapes [rows, d] and [k, d] with the same d, not "
            f"{list(inputs.shape)} and {list(means.shape)}"
        )
    rows = prepared(inputs).double()
    if error := not_finite(inputs):
        raise error
    means = means.to(rows.device, torch.float64)
    owners = ownership(means.nan_to_num()).owners
    energy = rows.square()
    total = energy.sum(1, keepdim=True)
    # Normalised again in float64: shares of float32 rows would add up to 1 only in seven digits.
    energy = energy / torch.where(total == 0, 1.0, total)
    shares = energy @ _block_members(owners, len(means))
    unowned = energy[:, owners < 0].sum(1) + (total[:, 0] == 0)
    return Explanation(NearestCentre(means).predict(rows), shares, unowned)


def _block_members(owners: Tensor, k: int) -> Tensor:
    """`[d, k]`, in float64: 1 where a class owns a dimension."""
    return (owners[:, None] == torch.arange(k, device=owners.device)).double()
