"""The measures of THEORY in a few lines each, from class means and scatter."""

import math

import torch
from torch import Tensor


def distance_to_gram(gram: Tensor, target: Tensor) -> float:
    """|| G/|G| - T/|T| ||, Frobenius norms: 0 if G is a positive multiple of T.

    Args:
        gram: `[k, k]`, products of class means.
        target: `[k, k]`.

    Returns:
        The distance, between 0 and 2; NaN if one of them is zero.

    Examples:
        >>> distance_to_gram(3 * torch.eye(4), torch.eye(4))
        0.0
    """
    return float(torch.linalg.norm(gram / torch.linalg.norm(gram) - target / torch.linalg.norm(target)))


def frame_gram(k: int) -> Tensor:
    """Gram matrix of an orthogonal frame of k classes."""
    return torch.eye(k, dtype=torch.float64)


def etf_gram(k: int) -> Tensor:
    """Gram matrix of a simplex equiangular tight frame of k classes."""
    return torch.eye(k, dtype=torch.float64) - 1.0 / k


def collapse_trace(means: Tensor, within: Tensor, rows: float) -> float:
    """tr(Sigma_W Sigma_B^+): spread within classes relative to that between them; 0 at neural collapse.

    Args:
        means: `[k, d]`, class means.
        within: `[d, d]`, sum of (h - mean)(h - mean)' over all rows.
        rows: How many rows.

    Returns:
        The trace; divided by k it is beta_NC. NaN if all means coincide.
    """
    directions, scale = between_directions(means)
    if not len(scale):
        return math.nan  # all means coincide: there is nothing to compare with
    return float(((within @ directions) * directions / scale).sum() / rows)


def between_directions(means: Tensor) -> tuple[Tensor, Tensor]:
    """Directions `[d, r]` in which class means differ, and the variances `[r]` of means along them."""
    centred = means - means.mean(0)
    _, singular, right = torch.linalg.svd(centred, full_matrices=False)
    tolerance = singular.max() * max(centred.shape) * torch.finfo(torch.float64).eps if len(singular) else 0.0
    # Centred means span at most k - 1 dimensions.
    keep = (singular > tolerance) & (torch.arange(len(singular), device=means.device) < len(means) - 1)
    return right[keep].T, singular[keep].square() / len(means)
