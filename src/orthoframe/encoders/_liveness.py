"""Rows that have no direction, and dimensions that are in use."""

from torch import Tensor

# Of a unit row: far below the rounding of float32, far above the smallest numbers that it can hold.
_TINY = 1e-12


def dead_rows(features: Tensor) -> int:
    """Count the rows that are zero: after a ReLU they have no direction, and no gradient to find one.

    Args:
        features: `[rows, dim]`, what a `FrameHead` returns.

    Examples:
        >>> import torch
        >>> dead_rows(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
        1
    """
    return int((features.abs() <= _TINY).all(1).sum())


def live_dimensions(features: Tensor) -> int:
    """Count the dimensions that are non-zero in at least one row.

    An orthogonal frame of k classes needs at least k of them.

    Args:
        features: `[rows, dim]`, what a `FrameHead` returns.

    Examples:
        >>> import torch
        >>> live_dimensions(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
        1
    """
    return features.shape[1] - int((features.abs() <= _TINY).all(0).sum())
