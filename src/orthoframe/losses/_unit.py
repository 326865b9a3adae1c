"""Rows of unit norm, and the gradient that comes back through them."""

import torch
import torch.nn.functional as F
from torch import Tensor

# A shorter row counts as zero and gets no gradient: its gradient would be larger than the inverse of this.
SMALLEST_NORM = 1e-12


def unit_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Divide each row by its norm; a zero row stays zero.

    Args:
        rows: `[rows, dim]`, floating point.

    Returns:
        The unit rows `[rows, dim]`, and the inverse norms `[rows, 1]` (0 for a zero row).

    Examples:
        >>> import torch
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))[0]
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    # In float64: the squares of long rows would leave the range of float32.
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
    inverse = F.threshold(norm, SMALLEST_NORM, torch.inf, inplace=True).reciprocal_().to(rows.dtype)
    return rows * inverse, inverse


def through_unit_rows(gradient: Tensor, unit: Tensor, inverse: Tensor) -> Tensor:
    """Turn a gradient with respect to unit rows into one with respect to the rows they came from, in place.

    The part along the row is lost, and a zero row gets zero.
    """
    radial = torch.linalg.vecdot(unit, gradient)[:, None]
    return gradient.addcmul_(unit, radial, value=-1).mul_(inverse)
