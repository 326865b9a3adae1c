"""Gradient flow: the path that infinitely small training steps would take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orthoframe._rows import AnyLabels, Weights
from orthoframe.options import TEMPERATURE, Denominator
from orthoframe.ufm._descent import checked_rows, project, projected_slope, tangent
from orthoframe.ufm._objective import FreeLoss, FreeObjective

# The error that a step may have in any entry: _PART of the largest change, but at most _ERROR.
_PART, _ERROR, _ROUNDING = 0.05, 1e-3, 1e-14
# How much a step may grow or shrink at once.
_GROW, _SHRINK = 3.0, 0.2


@dataclass(frozen=True)
class Flow:
    """Features along the path of steepest descent.

    Attributes:
        times: `[t]`.
        features: `[t, samples, dim]`, float64, unit rows.
        losses: `[t]`, means as those of a `Solution`.
    """

    times: Tensor
    features: Tensor
    losses: Tensor


@torch.inference_mode(False)
@torch.enable_grad()
def gradient_flow(
    labels: AnyLabels,
    start: Tensor,
    times: Sequence[float] | Tensor,
    *,
    batches: Iterable[Any] | None = None,
    temperature: float = TEMPERATURE,
    nonnegative: bool = True,
    denominator: Denominator = "all",
    prototypes: Tensor | None = None,
    margin: float = 0.0,
    class_weights: Weights | None = None,
    anchor_weights: Weights | None = None,
    frame: bool = False,
    supcon: float = 1.0,
) -> Flow:
    """Follow the gradient of the loss, in sum form, from given features.

    dh/dt = -(gradient of the sum over anchors), without its part along h, and without what would make entries negative.
    A frame term is summed over rows. Steps are Heun's and projected; their size keeps the difference from Euler's
    small.

    Args:
        labels: `[samples]`, integers or strings.
        start: `[samples, dim]`, the features at time 0; divided by their norms.
        times: Increasing times, at least 0, at which the features are returned.
        batches: As in `solve_ufm`.
        temperature: As in `solve_ufm`.
        nonnegative: As in `solve_ufm`.
        denominator: As in `solve_ufm`.
        prototypes: As in `solve_ufm`.
        margin: As in `solve_ufm`.
        class_weights: As in `solve_ufm`.
        anchor_weights: As in `solve_ufm`.
        frame: As in `solve_ufm`.
        supcon: As in `solve_ufm`.

    Returns:
        The path.

    Raises:
        ValueError: For an argument that is not allowed.

    Examples:
        >>> start = torch.tensor([[0.9, 0.5], [0.8, 0.7], [0.5, 0.9], [0.6, 0.7]])
        >>> path = gradient_flow([0, 0, 1, 1], start, [0.0, 1.0, 50.0], temperature=1.0)
        >>> path.features[-1].round(decimals=3)
        tensor([[1., 0.],
                [1., 0.],
                [0., 1.],
                [0., 1.]], dtype=torch.float64)
    """
    terms = FreeLoss(
        temperature=temperature,
        denominator=denominator,
        margin=margin,
        class_weights=class_weights,
        anchor_weights=anchor_weights,
        frame=frame,
        supcon=supcon,
    )
    objective = FreeObjective(labels, batches, prototypes, terms)
    rows = checked_rows(start, objective.num_samples, nonnegative)
    objective.check_prototypes(rows.shape[1], nonnegative)
    goals = torch.as_tensor(times, dtype=torch.float64)
    finite = bool(goals.isfinite().all())
    if goals.ndim != 1 or not len(goals) or not finite or float(goals[0]) < 0 or bool((goals.diff() <= 0).any()):
        raise ValueError("times must be a list of increasing numbers, at least 0")

    def force(rows: Tensor) -> tuple[float, Tensor]:
        value, gradient = objective(rows)
        return value, tangent(gradient, rows) * objective.divisor

    value, pull = force(rows)
    time, size = 0.0, 1e-3 / max(float(pull.abs().max()), 1e-300)
    path, losses = [], []
    noise = objective.rounding * objective.divisor  # of a force: weaker ones are rounding errors
    for goal in goals.tolist():
        while time < goal:
            if float(projected_slope(pull, rows, nonnegative).abs().max()) <= noise:
                time = goal
                break
            step = min(size, goal - time)
            euler = project(rows - step * pull, nonnegative)
            heun = project(rows - step / 2 * (pull + force(euler)[1]), nonnegative)
            error, change = float((heun - euler).abs().max()), float((heun - rows).abs().max())
            allowed = min(_PART * change, _ERROR) + _ROUNDING
            if error <= allowed:
                rows, time = heun, (goal if step == goal - time else time + step)
                value, pull = force(rows)
            factor = 0.9 * allowed / max(error, 1e-300)  # error/change grows with the step, not with its square
            if error > allowed or step == size:  # a step that the goal cut short says little about the next
                size = step * min(max(factor, _SHRINK), _GROW)
        path.append(rows)
        losses.append(value)
    return Flow(goals, torch.stack(path), torch.tensor(losses, dtype=torch.float64))
