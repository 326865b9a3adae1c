"""The unconstrained features model: minimise the loss over the features themselves."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from orthoframe._rows import AnyLabels, Weights
from orthoframe.geometry import Geometry, measure
from orthoframe.options import TEMPERATURE, Denominator, check_count, check_number, check_size
from orthoframe.ufm._descent import Descent, Reason, checked_rows, descend, random_rows
from orthoframe.ufm._objective import FreeLoss, FreeObjective

# Without the constraint every start begins at this temperature, if its own is smaller: at a small one distant features
# exert hardly any force.
_UNCONSTRAINED_TEMPERATURE = 0.5
# A stationary point within this many rounding errors of the floor counts as at the floor.
_ROUNDINGS_AT_FLOOR = 20.0
# A larger bound on angles says little.
_LOOSE_BOUND = 0.01


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The optimum of free features; `str()` describes it.

    Losses are means over all anchors of all batches, with their weights. With a frame term, the sum of both parts is
    divided by the rows of all batches.

    Attributes:
        features: `[samples, dim]`, float64, unit rows; exact zeros where the constraint is active.
        loss: The loss of these features.
        floor: The lowest possible loss: for non-negative features from the floors of the batches; for others and a
            single batch, from `predict_gram`; None where it is not known.
        gap: `loss - floor`; None without a floor.
        bound: For non-negative features, the largest deviation from an orthogonal frame that the gap allows: the mean
            of 1 - (cosine to positives) + (cosine to negatives), in any class of any batch, is at most this. With a
            frame term it is about any row of a batch, and its cosines to the row of its class in the frame and to the
            others. Else None.
        geometry: The geometry of the features.
        converged: Whether the loss is at its floor or, where that is not known, stationary.
        reason: Why the solver stopped: `"floor"`, `"stationary"`, or `"steps"` if `max_steps` did not suffice.
        steps: Steps of the best start, including those at another temperature.
        evaluations: How often the loss was computed, over all starts.
        starts: Number of starts that were tried.
        losses: The loss at the beginning and after each step of the best start, at the final temperature.
    """

    features: Tensor
    loss: float
    floor: float | None
    gap: float | None
    bound: float | None
    geometry: Geometry
    converged: bool
    reason: Reason
    steps: int
    evaluations: int
    starts: int
    losses: tuple[float, ...]

    def sentence(self) -> str:
        """Whether it has converged, why it stopped, and what may help."""
        tried = f"{self.steps} steps" + (f", the best of {self.starts} starts" if self.starts > 1 else "")
        gap = "" if self.gap is None else f" (gap {max(self.gap, 0.0):.1e})"
        verdict = "" if self.converged else "Not converged. "
        return f"{verdict}{self.reason.sentence} after {tried}{gap}{self._advice()}."

    def _advice(self) -> str:
        if self.gap is None:
            return "; the lowest loss of these batches is not known"
        if self.converged:
            loose = self.bound is not None and self.bound > _LOOSE_BOUND
            return "; at this temperature that says little about angles, because of rounding" if loose else ""
        classes = len(self.geometry.names)
        if self.bound is not None and self.geometry.dim < classes:
            return f"; the floor may need {classes} dimensions"
        if self.reason == Reason.STATIONARY:
            return ": a spurious optimum; more dimensions, another seed or a smaller temperature may help"
        return "; allow more steps"

    def to_dict(self) -> dict[str, Any]:
        """All attributes except the features, ready for JSON."""
        plain = ("loss", "floor", "gap", "converged", "reason", "steps", "evaluations", "starts")
        return {
            "sentence": self.sentence(),
            **{name: getattr(self, name) for name in plain},
            "bound": None if self.bound is None or math.isinf(self.bound) else self.bound,
            "losses": list(self.losses),
            "geometry": self.geometry.to_dict(),
        }

    def __str__(self) -> str:
        return f"{self.sentence()}\n{self.geometry}"


@torch.inference_mode(False)
@torch.enable_grad()
def solve_ufm(
    labels: AnyLabels,
    dim: int,
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
    start: Tensor | None = None,
    starts: int = 5,
    max_steps: int = 1000,
    tolerance: float = 1e-11,
    seed: int = 0,
    on_step: Callable[[int, float], None] | None = None,
) -> Solution:
    """Minimise the loss over free features: where training would end if the network could produce any features.

    Every sample has a unit vector of its own, non-negative (the paper's UFM+) or not (UFM). They are moved by projected
    Barzilai-Borwein steps in float64 until the loss is at its floor. If a start ends at a stationary point above the
    floor, as happens when the dimension is close to the number of classes, another start is tried.

    Args:
        labels: `[samples]`, integers or strings.
        dim: Number of dimensions; an orthogonal frame needs as many as there are classes.
        batches: Lists of sample indices, or a `BatchPlan` (its epoch 0); one batch of everything by default.
        temperature: tau, from 0.001 to 1e6.
        nonnegative: Whether features must not be negative, as after a ReLU.
        denominator: As in `supcon_loss`.
        prototypes: `[k, dim]`, one fixed unit row per class, in the order of the sorted labels, that is part of every
            batch: `torch.eye(k, dim)` binds every batch at no cost.
        margin: As in `supcon_loss`; also that of the frame term.
        class_weights: `[k]`, as in `supcon_loss`, in the order of the sorted labels.
        anchor_weights: `[k]`, as in `supcon_loss`, in the order of the sorted labels.
        frame: Whether to add a frame term, which pulls each row to its class's prototype or, without prototypes, to its
            row of `make_frame`. Its shares are those of the rows in the batches.
        supcon: The weight of the contrastive loss; 0 leaves the frame term alone.
        start: `[samples, dim]`, initial features; by default they are random. There is no other start then.
        starts: The largest number of random starts. Where the lowest loss is not known, all are tried.
        max_steps: The largest number of steps of a start, at each temperature that it goes through.
        tolerance: Stop when the gap proves that angles are within this (see `Solution.bound`).
        seed: Seed of the random starts.
        on_step: Called after each step with the number of the start, from 1, and the loss.

    Returns:
        The best start.

    Raises:
        ValueError: For an argument that is not allowed, or batches without a term.

    Examples:
        >>> solution = solve_ufm([0] * 20 + [1] * 20 + [2] * 2, dim=8)
        >>> solution.converged, solution.geometry.delta_of < 1e-9
        (True, True)
        >>> labels = [0] * 20 + [1] * 20 + [2] * 2 + [3] * 2
        >>> free = solve_ufm(labels, dim=8, nonnegative=False, temperature=1.0)
        >>> # not a frame: large classes are opposed, small ones crowd together
        >>> free.geometry.cosines[0]
        tensor([ 1.0000, -0.8938, -0.2026, -0.2026], dtype=torch.float64)
    """
    dim, seed = check_size("dim", dim), check_count("seed", seed, least=0)
    starts, max_steps = check_count("starts", starts), check_count("max_steps", max_steps)
    tolerance = check_number("tolerance", tolerance, above=0)
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
    objective.check_prototypes(dim, nonnegative)
    if nonnegative and dim < objective.num_classes:
        outlook = "there is no orthogonal frame, and the floor may be out of reach"
        warnings.warn(f"{dim} dimensions are too few for {objective.num_classes} classes: {outlook}", stacklevel=2)
    initial = None if start is None else checked_rows(start, objective.num_samples, nonnegative)
    if initial is not None and initial.shape[1] != dim:
        raise ValueError(f"start has {initial.shape[1]} dimensions, but dim is {dim}")
    floor = objective.floor if nonnegative else objective.free_floor()
    best: tuple[Descent, int] | None = None
    evaluations = 0
    for number in range(1, 1 + (starts if initial is None else 1)):
        rows = random_rows(objective.num_samples, dim, nonnegative, seed, number - 1) if initial is None else initial
        steps, listener = 0, None if on_step is None else partial(on_step, number)
        for stage in [objective] if initial is not None else _stages(objective, nonnegative, number):
            end = descend(stage, rows, nonnegative, max_steps, tolerance, listener)
            rows = end.features
            steps += len(end.losses) - 1
            evaluations += end.evaluations
        if best is None or end.loss < best[0].loss:
            best = end, steps
        if floor is not None and (end.reason == Reason.FLOOR or end.loss <= floor + objective.rounding):
            break
    assert best is not None
    end, steps = best
    gap = None if floor is None else end.loss - floor
    return Solution(
        features=end.features,
        loss=end.loss,
        floor=floor,
        gap=gap,
        bound=objective.angle(gap) if nonnegative and gap is not None else None,
        geometry=measure(end.features, labels),
        converged=_converged(end, gap, objective.rounding),
        reason=end.reason,
        steps=steps,
        evaluations=evaluations,
        starts=number,
        losses=end.losses,
    )


def _stages(objective: FreeObjective, nonnegative: bool, number: int) -> list[FreeObjective]:
    """The objective, preceded by itself at another temperature if a random start begins there."""
    last = objective.terms.temperature
    first = last
    if not nonnegative:
        first = max(last, _UNCONSTRAINED_TEMPERATURE)
    elif number > 1:
        first = TEMPERATURE  # at which classes rarely merge
    return [objective] if first == last else [objective.at_temperature(first), objective]


def _converged(end: Descent, gap: float | None, rounding: float) -> bool:
    if gap is None:
        return end.reason == Reason.STATIONARY and len(end.losses) > 1
    near = _ROUNDINGS_AT_FLOOR * rounding if end.reason == Reason.STATIONARY else rounding
    return end.reason == Reason.FLOOR or gap <= near
