"""Rows of unit norm; a row without a direction stays zero."""

import torch
import torch.nn.functional as F
from torch import Tensor

# A shorter row counts as zero and gets no gradient: its gradient would be larger than the inverse of this.
SMALLEST_NORM = 1e-12


def unit_rows(rows: Tensor) -> Tensor:
    """Divide each row by its norm; a zero row stays zero, and gets a gradient of zero.

    Args:
        rows: `[rows, dim]`, float32 or float64.

    Returns:
        `[rows, dim]`, each row of norm 1 or 0.

    Examples:
        >>> import torch
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    # In float64: the squares of long rows would leave the range of float32.
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
    # The inverse of infinity, and not a choice between two results: behind a choice the gradient of 1/0 is NaN.
    return rows * F.threshold(norm, SMALLEST_NORM, torch.inf).reciprocal().to(rows.dtype)
