"""Where free features live: unit rows, non-negative or not."""

import numpy as np
import torch
from torch import Tensor


def project(rows: Tensor, nonnegative: bool) -> Tensor:
    """Nearest unit rows; with `nonnegative`, nearest among those without a negative entry.

    Entries below 0 become exactly 0. A row without a positive entry goes to the axis of its largest.

    Examples:
        >>> project(torch.tensor([[3.0, -1.0, 4.0], [-2.0, -1.0, -3.0]]), nonnegative=True)
        tensor([[0.6000, 0.0000, 0.8000],
                [0.0000, 1.0000, 0.0000]])
    """
    if nonnegative:
        clipped = rows.clamp(min=0.0)
        empty = ~(clipped > 0).any(1)
        if bool(empty.any()):
            clipped[empty] = torch.nn.functional.one_hot(rows[empty].argmax(1), rows.shape[1]).to(rows)
        rows = clipped
    # By the largest entry first, for squares of small ones are out of range.
    rows = rows / torch.linalg.vector_norm(rows, ord=torch.inf, dim=1, keepdim=True)
    return torch.nn.functional.normalize(rows, dim=1)


def tangent(gradient: Tensor, rows: Tensor) -> Tensor:
    """The part of a gradient that turns unit rows, without the part along them."""
    return torch.addcmul(gradient, torch.linalg.vecdot(gradient, rows)[:, None], rows, value=-1)


def pull_without_walls(rows: Tensor, slope: Tensor, nonnegative: bool) -> Tensor:
    """The slope, without what only pushes against the constraint."""
    return slope.masked_fill((rows == 0) & (slope > 0), 0.0) if nonnegative else slope


def random_rows(count: int, dim: int, nonnegative: bool, *seeds: int) -> Tensor:
    """Directions drawn evenly from the sphere, or from its non-negative part; float64 `[count, dim]`."""
    seed = int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> np.uint64(1))
    rows = torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return project(rows.abs() if nonnegative else rows, nonnegative)


def checked_rows(start: Tensor, count: int, nonnegative: bool) -> Tensor:
    """Features that a user gave to begin with, as unit rows in float64.

    Raises:
        ValueError: For a wrong shape, or rows that are not allowed.
    """
    rows = torch.as_tensor(start, dtype=torch.float64, device="cpu").detach().clone()
    if rows.ndim != 2 or len(rows) != count:
        raise ValueError(f"start must have shape [{count}, dim], a row a sample, not {list(rows.shape)}")
    if not bool(rows.isfinite().all()) or bool((rows == 0).all(1).any()):
        raise ValueError("start must be finite, and no row of it zero")
    if nonnegative and bool((rows < 0).any()):
        raise ValueError("start must not be negative; use start.relu(), or nonnegative=False")
    return project(rows, nonnegative)
