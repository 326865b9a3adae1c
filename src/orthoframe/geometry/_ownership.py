"""Which class owns each dimension."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# A dimension is called owned from this purity on: a word for a reader, nothing more.
OWNED = 0.9
# A dimension that holds less than this part of the largest one's energy is dead.
_DEAD = 1e-12


@dataclass(frozen=True)
class Ownership:
    """Which class owns each dimension: the one whose mean has the most energy (square) there.

    The dimensions of a class are its block. At an orthogonal frame of non-negative features no two classes share a
    dimension: every purity is 1, and the mean of a class lies inside its block.
    """

    owners: Tensor  # [d], position of a class among those that were measured; -1 where the dimension is dead
    purity: Tensor  # [d], the owner's part of the energy; NaN where the dimension is dead
    owned: int  # dimensions with a purity of 0.9 or more
    shared: int  # other live dimensions
    dead: int
    dimensions: Tensor  # [k], how many each class owns
    inside: Tensor  # [k], the part of the energy of a class mean that lies in its own block; NaN for a zero mean

    def table(self, names: Sequence[int | str]) -> str:
        """A line for each class: its dimensions, their mean purity, and how much of its mean lies inside them."""
        widest = max(len("class"), *(len(str(name)) for name in names))
        lines = [f"{'class':<{widest}}  dimensions  purity  inside"]
        for c, name in enumerate(names):
            purity = self.purity[self.owners == c].mean()
            lines.append(f"{name!s:<{widest}}  {int(self.dimensions[c]):>10}  {_cell(purity)}  {_cell(self.inside[c])}")
        return "\n".join(lines)


def ownership(means: Tensor) -> Ownership:
    """Find the owner of each dimension.

    Args:
        means: `[k, d]`, the class means.

    Returns:
        The owners, and what each class has of its own.

    Examples:
        >>> found = ownership(torch.tensor([[0.6, 0.8, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]))
        >>> found.owners.tolist(), found.dead
        ([0, 0, 1, -1], 1)
        >>> print(found.table(["cat", "dog"]))
        class  dimensions  purity  inside
        cat             2  1.0000  1.0000
        dog             1  1.0000  1.0000
    """
    energy = means.square()
    total = energy.sum(0)
    dead = total <= _DEAD * total.max()
    largest, owners = energy.max(0)
    owners = owners.masked_fill(dead, -1)
    purity = (largest / total).masked_fill(dead, math.nan)
    owned = int((purity >= OWNED).sum())
    number = int(dead.sum())
    blocks = block_members(owners, len(means))
    inside = (energy * blocks.T).sum(1) / energy.sum(1)
    return Ownership(owners, purity, owned, len(total) - number - owned, number, blocks.sum(0).long(), inside)


def block_members(owners: Tensor, k: int) -> Tensor:
    """`[d, k]`, in float64: 1 where a class owns a dimension."""
    return (owners[:, None] == torch.arange(k, device=owners.device)).double()


def _cell(value: Tensor) -> str:
    return f"{'-' if value.isnan() else f'{float(value):.4f}':>6}"
