"""Unit rows, non-negative or not, and the descent among them: Barzilai-Borwein steps that are projected."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from orthoframe._rows import feature_tensor, unit_rows
from orthoframe.errors import Coded
from orthoframe.ufm._objective import FreeObjective

Listener = Callable[[float], None]

# A step must end below the highest of the last few values, by this part of the decrease that its length promises.
_MEMORY, _DECREASE = 8, 1e-4
# Rows are stationary if the largest of the last step sizes would move no entry by more than _STILL, or if none of the
# last _PATIENCE steps has lowered the value by more than rounding, or halved the slope.
_STILL, _PATIENCE = 1e-9, 60


class Reason(Coded):
    """Why the solver stopped."""

    FLOOR = "floor", "The loss is at its floor"
    STATIONARY = "stationary", "The features have come to rest"
    STEPS = "steps", "The features are still moving"


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The end of a descent, and the way there."""

    features: Tensor
    loss: float
    losses: tuple[float, ...]  # at the start and after each step
    evaluations: int
    reason: Reason


def descend(
    objective: FreeObjective,
    rows: Tensor,
    nonnegative: bool,
    max_steps: int,
    tolerance: float,
    on_step: Listener | None,
) -> Descent:
    """Unit rows with the lowest value, and among those that rounding cannot tell apart, with the smallest slope.

    Each step follows the tangential gradient and is projected back. Its size is that of Barzilai and Borwein, whose two
    forms alternate: the inverse of the curvature along the last step. It is shortened until the value is below the
    highest of the last few.
    """
    rounding = objective.rounding
    value, gradient = objective(rows)
    slope = tangent(gradient, rows)
    size = 1.0 / max(float(torch.linalg.vector_norm(slope, dim=1).max()), 1e-300)
    losses, evaluations, sizes = [value], 1, [size]
    loss, best_rows, gained = value, rows, 0
    best, flattest = value, float(projected_slope(slope, rows, nonnegative).norm())
    reason = Reason.STEPS
    while True:
        gap = value - objective.floor
        # Without the constraint the minimum is flat: at its floor, features may still be far away.
        if nonnegative and (gap <= rounding or objective.angle(gap) <= tolerance):
            reason = Reason.FLOOR
            break
        longest = max(sizes[-_MEMORY:])
        moves = float((project(rows - longest * slope, nonnegative) - rows).abs().max()) > _STILL
        if not moves or len(losses) - gained > _PATIENCE:
            reason = Reason.STATIONARY
            break
        if len(losses) > max_steps:
            break
        highest = max(losses[-_MEMORY:]) + rounding
        while True:
            moved = project(rows - size * slope, nonnegative)
            step = moved - rows
            length = float(step.square().sum())
            moved_value, moved_gradient = objective(moved)
            evaluations += 1
            if moved_value <= highest - _DECREASE * length / (2 * size) or length == 0:
                break
            size /= 4
        moved_slope = tangent(moved_gradient, moved)
        change = moved_slope - slope
        along, bent = float((step * change).sum()), float(change.square().sum())
        rows, value, slope = moved, moved_value, moved_slope
        losses.append(value)
        if on_step is not None:
            on_step(value)
        steepness = float(projected_slope(slope, rows, nonnegative).norm())
        if value < best - rounding or steepness < flattest / 2:
            gained = len(losses)
        if value <= best + rounding and (value < best - rounding or steepness <= flattest):
            loss, best_rows = value, rows
        best, flattest = min(best, value), min(flattest, steepness)
        inverse_curvature = (length / along if len(losses) % 2 else along / bent) if along > 0 else 10 * size
        size = min(max(inverse_curvature, 1e-6 * size), 1e6 * size)
        sizes.append(size)
    return Descent(features=best_rows, loss=loss, losses=tuple(losses), evaluations=evaluations, reason=reason)


def project(rows: Tensor, nonnegative: bool) -> Tensor:
    """Nearest unit rows; with `nonnegative`, the nearest without negative entries.

    Entries below 0 become exactly 0. A row without a positive entry becomes the axis of its largest entry.
    """
    if nonnegative:
        clipped = rows.clamp(min=0.0)
        empty = ~(clipped > 0).any(1)
        if bool(empty.any()):
            clipped[empty] = torch.nn.functional.one_hot(rows[empty].argmax(1), rows.shape[1]).to(rows)
        rows = clipped
    # By the largest entry first, because squares of small entries are out of range.
    rows = rows / torch.linalg.vector_norm(rows, ord=torch.inf, dim=1, keepdim=True)
    return torch.nn.functional.normalize(rows, dim=1)


def tangent(gradient: Tensor, rows: Tensor) -> Tensor:
    """The gradient without its part along the rows, which have unit norm."""
    return torch.addcmul(gradient, torch.linalg.vecdot(gradient, rows)[:, None], rows, value=-1)


def projected_slope(slope: Tensor, rows: Tensor, nonnegative: bool) -> Tensor:
    """The slope without the part that only pushes against the constraint."""
    return slope.masked_fill((rows == 0) & (slope > 0), 0.0) if nonnegative else slope


def random_rows(count: int, dim: int, nonnegative: bool, *seeds: int) -> Tensor:
    """Directions drawn uniformly from the sphere, or from its non-negative part; `[count, dim]`, float64."""
    seed = int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> np.uint64(1))
    rows = torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return project(rows.abs() if nonnegative else rows, nonnegative)


def checked_rows(start: Tensor, count: int, nonnegative: bool) -> Tensor:
    """The initial features of a user as unit rows in float64."""
    rows = feature_tensor(start, "start").detach().to("cpu", torch.float64, copy=True)
    if rows.ndim != 2 or len(rows) != count:
        raise ValueError(f"start must have shape [{count}, dim], one row per sample, not {list(rows.shape)}")
    if not bool(rows.isfinite().all()) or bool((unit_rows(rows)[1] == 0).any()):
        raise ValueError("start must be finite, without rows of zeros: rows that are not longer than 1e-12")
    if nonnegative and bool((rows < 0).any()):
        raise ValueError("start must not be negative; use start.relu(), or nonnegative=False")
    return project(rows, nonnegative)
