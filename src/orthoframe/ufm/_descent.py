"""Projected Barzilai-Borwein steps with a non-monotone line search."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from orthoframe.ufm._feasible import project, pull_without_walls, tangent

Reason = Literal["floor", "stationary", "steps"]
"""Why a descent stopped: at its floor, where nothing pulls any more, or after all steps that were allowed."""

Function = Callable[[Tensor], tuple[float, Tensor]]

# A step must end below the highest of the last few values, by this part of what its length promises.
_MEMORY, _DECREASE = 8, 1e-4
# Nothing pulls any more if the longest of the last step sizes would move no row by more than this,
# or if none of the last so many steps has lowered the value by more than rounding, or halved the pull.
_STILL, _PATIENCE = 1e-9, 60


@dataclass(frozen=True)
class Descent:
    """Where a descent ended, and how it got there."""

    features: Tensor
    loss: float
    losses: tuple[float, ...]  # at the start and after each step
    evaluations: int
    reason: Reason


def descend(
    function: Function,
    start: Tensor,
    *,
    nonnegative: bool,
    max_steps: int,
    rounding: float,
    at_floor: Callable[[float], bool],
    on_step: Callable[[float], None] | None = None,
) -> Descent:
    """Minimise a function of unit rows.

    Each step follows the tangential gradient and is projected back. Its size is that of Barzilai and Borwein, their two
    forms in turn: the inverse of the curvature along the last step. It is shortened until the value is below the
    highest of the last few.

    Args:
        function: Gives the value and the gradient.
        start: `[rows, dim]`, unit rows.
        nonnegative: Whether entries must not be negative.
        max_steps: Steps that are allowed.
        rounding: Values that differ by less are equal.
        at_floor: Whether a value is low enough to stop.
        on_step: Called with the value after each step.

    Returns:
        The rows with the lowest value that was met, and the least pull among those that rounding cannot tell apart.
    """
    rows = start
    value, gradient = function(rows)
    slope = tangent(gradient, rows)
    size = 1.0 / max(float(torch.linalg.vector_norm(slope, dim=1).max()), 1e-300)
    losses, evaluations, sizes = [value], 1, [size]
    loss, best_rows, gained = value, rows, 0
    best, flattest = value, float(pull_without_walls(rows, slope, nonnegative).norm())
    reason: Reason = "steps"
    while True:
        if at_floor(value):
            reason = "floor"
            break
        longest = max(sizes[-_MEMORY:])
        if float((project(rows - longest * slope, nonnegative) - rows).abs().max()) <= _STILL:
            reason = "stationary"
            break
        if len(losses) - gained > _PATIENCE:
            reason = "stationary"
            break
        if len(losses) > max_steps:
            break
        highest = max(losses[-_MEMORY:]) + rounding
        while True:
            moved = project(rows - size * slope, nonnegative)
            step = moved - rows
            length = float(step.square().sum())
            moved_value, moved_gradient = function(moved)
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
        steepness = float(pull_without_walls(rows, slope, nonnegative).norm())
        if value < best - rounding or steepness < flattest / 2:
            gained = len(losses)
        if value <= best + rounding and (value < best - rounding or steepness <= flattest):
            loss, best_rows = value, rows
        best, flattest = min(best, value), min(flattest, steepness)
        wanted = (length / along if len(losses) % 2 else along / bent) if along > 0 else 10 * size
        size = min(max(wanted, 1e-6 * size), 1e6 * size)
        sizes.append(size)
    return Descent(best_rows, loss, tuple(losses), evaluations, reason)
