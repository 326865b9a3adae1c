"""The unconstrained features model: minimise the loss over the features themselves."""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe.geometry import Geometry, measure
from orthoframe.losses import Denominator
from orthoframe.options import check_count
from orthoframe.ufm._descent import Descent, Reason, descend
from orthoframe.ufm._feasible import checked_rows, random_rows
from orthoframe.ufm._objective import Objective

# A start that fails is followed by one that passes through this temperature, at which classes rarely merge.
_PARTING = 0.1
# Without the constraint every start first passes through this one, if its own is smaller.
_FEELING = 0.5
# A stationary point so many roundings above the floor is at the floor.
_NEAR = 20.0
# A bound on angles that is worth nothing.
_LOOSE = 0.01


@dataclass(frozen=True)
class Solution:
    """Features at which the descent ended; `str()` says where that is.

    Losses are means over all anchors of all batches.

    Attributes:
        features: `[samples, dim]`, float64, unit rows; exact zeros where the constraint is active.
        loss: Of these features.
        floor: The lowest loss that is possible: of non-negative features the sum of the batches' floors; of others, for
            a single batch, that of `predict_gram`; None where it is not known.
        gap: `loss - floor`; None without a floor.
        bound: For non-negative features, the largest departure from a frame that the gap allows: the mean of
            1 - (cosine to positives) + (cosine to negatives), in any class of any batch, is at most this; else None.
        geometry: Of the class means.
        converged: Whether the loss is at its floor; where none is known, whether it is stationary. A stationary point
            above its floor is not.
        reason: `"floor"`, `"stationary"`, or `"steps"` if the steps that were allowed did not suffice.
        steps: Steps of the start that is returned, those at another temperature included.
        evaluations: Losses that were computed, by all starts.
        starts: Starts that were tried.
        losses: After each step of the start that is returned, at its own temperature.
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
        """Whether and why it stopped."""
        tried = f"{self.steps} steps" + (f", the best of {self.starts} starts" if self.starts > 1 else "")
        if self.gap is None:
            return {
                "stationary": f"Stationary after {tried}; the lowest loss of these batches is not known.",
                "steps": f"Not converged: {tried} did not suffice, and the lowest loss is not known.",
                "floor": "",
            }[self.reason]
        if self.converged:
            words = f"The loss is at its floor after {tried}: {max(self.gap, 0.0):.1e} above it"
            if self.bound is not None and self.bound > _LOOSE:
                words += ", which at this temperature says little about angles: float64 cannot tell more"
            return words + "."
        classes = len(self.geometry.names)
        if self.bound is not None and self.geometry.dim < classes:
            return f"Stopped {self.gap:.2e} above the floor after {tried}: the floor may need {classes} dimensions."
        if self.reason == "stationary":
            return (
                f"Not converged: stationary {self.gap:.2e} above the floor after {tried}, a spurious optimum; "
                "more dimensions, another seed or a smaller temperature may help."
            )
        return f"Not converged: {self.gap:.2e} above the floor after {tried}; allow more."

    def to_dict(self) -> dict[str, Any]:
        """Everything but the features, in types that JSON knows."""
        own = ("loss", "floor", "gap", "converged", "reason", "steps", "evaluations", "starts")
        return {
            "sentence": self.sentence(),
            **{name: getattr(self, name) for name in own},
            "bound": None if self.bound is None or math.isinf(self.bound) else self.bound,
            "losses": list(self.losses),
            "geometry": self.geometry.to_dict(),
        }

    def __str__(self) -> str:
        return f"{self.sentence()}\n{self.geometry}"


@torch.inference_mode(False)
@torch.enable_grad()
def solve_ufm(
    labels: Sequence[Any] | NDArray[Any] | Tensor,
    dim: int,
    *,
    batches: Iterable[Any] | None = None,
    temperature: float = 0.1,
    nonnegative: bool = True,
    denominator: Denominator = "all",
    prototypes: Tensor | None = None,
    start: Tensor | None = None,
    starts: int = 5,
    max_steps: int = 1000,
    tolerance: float = 1e-11,
    seed: int = 0,
    on_step: Callable[[int, float], None] | None = None,
) -> Solution:
    """Minimise the loss over free features: where the training of a network that can do anything must end.

    Every sample has a unit vector of its own, non-negative (the paper's UFM+) or not (UFM). They are moved by projected
    Barzilai-Borwein steps, in float64, until the loss is at its floor. A start that ends at a stationary point above
    it, which happens if the dimension is close to the number of classes, is followed by another.

    Args:
        labels: `[samples]`, integers or strings.
        dim: d; an orthogonal frame needs as many as there are classes.
        batches: Lists of sample indices, or a `BatchPlan` (its epoch 0); one batch of everything by default.
        temperature: tau > 0.
        nonnegative: Whether features must not be negative, as after a ReLU.
        denominator: As in `supcon_loss`.
        prototypes: `[k, dim]`, a fixed unit row of each class, in the order of the sorted labels, that is part of every
            batch: `torch.eye(k, dim)` binds every batch at no cost.
        start: `[samples, dim]`, where to begin instead of at random; then it is the only start.
        starts: Random starts that may be tried; all are, and the best is kept, where the lowest loss is not known.
        max_steps: Steps of a start, at each temperature that it goes through.
        tolerance: Stop as soon as the gap proves the angles to be within this (see `Solution.bound`).
        seed: Decides the random starts.
        on_step: Called after each step with the number of the start, from 1, and the loss.

    Returns:
        The best of the starts.

    Raises:
        ValueError: For options that are not allowed, or batches without a term.

    Examples:
        >>> solution = solve_ufm([0] * 20 + [1] * 20 + [2] * 2, dim=8)
        >>> solution.converged, solution.geometry.delta_of < 1e-9
        (True, True)
        >>> free = solve_ufm([0] * 20 + [1] * 20 + [2] * 2 + [3] * 2, dim=8, nonnegative=False, temperature=1.0)
        >>> free.geometry.cosines[0]  # no frame: large classes are opposed, small ones crowd together
        tensor([ 1.0000, -0.8938, -0.2026, -0.2026], dtype=torch.float64)
    """
    dim, seed = check_count("dim", dim, 1), check_count("seed", seed, 0)
    starts, max_steps = check_count("starts", starts, 1), check_count("max_steps", max_steps, 1)
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, not {tolerance}")
    objective = Objective(labels, batches, temperature, denominator, prototypes)
    objective.check_prototypes(dim, nonnegative)
    if nonnegative and dim < objective.num_classes:
        warnings.warn(
            f"{dim} dimensions are too few for {objective.num_classes} classes: no orthogonal frame exists, and the "
            "floor may be out of reach",
            stacklevel=2,
        )
    given = None if start is None else checked_rows(start, objective.num_samples, nonnegative)
    if given is not None and given.shape[1] != dim:
        raise ValueError(f"start has {given.shape[1]} dimensions, and dim is {dim}")
    floor = objective.floor if nonnegative else objective.free_floor()
    best: tuple[Descent, int] | None = None
    evaluations = number = 0
    while number < (starts if given is None else 1):
        rows = random_rows(objective.num_samples, dim, nonnegative, seed, number) if given is None else given
        steps = 0
        before = [] if given is not None else _before(objective, nonnegative, number)
        for stage in [*before, objective]:
            found = descend(
                stage,
                rows,
                nonnegative=nonnegative,
                max_steps=max_steps,
                rounding=stage.rounding,
                on_step=None if on_step is None else partial(on_step, number + 1),
                # Without the constraint the minimum is flat: a loss that cannot be told from it is still far away.
                at_floor=partial(stage.near_floor, tolerance=tolerance) if nonnegative else _never,
            )
            rows = found.features
            steps += len(found.losses) - 1
            evaluations += found.evaluations
        number += 1
        if best is None or found.loss < best[0].loss:
            best = found, steps
        if floor is not None and (found.reason == "floor" or found.loss <= floor + objective.rounding):
            break
    assert best is not None
    found, steps = best
    gap = None if floor is None else found.loss - floor
    return Solution(
        features=found.features,
        loss=found.loss,
        floor=floor,
        gap=gap,
        bound=objective.angle(gap) if nonnegative and gap is not None else None,
        geometry=measure(found.features, labels),
        converged=_converged(found, gap, objective.rounding),
        reason=found.reason,
        steps=steps,
        evaluations=evaluations,
        starts=number,
        losses=found.losses,
    )


def _before(objective: Objective, nonnegative: bool, number: int) -> list[Objective]:
    """Other temperatures that a start goes through first."""
    if not nonnegative:
        # Far apart, features at a small temperature hardly feel each other; a larger one brings them near the end.
        return [objective.at_temperature(_FEELING)] if objective.temperature < _FEELING else []
    return [objective.at_temperature(_PARTING)] if number > 0 and objective.temperature != _PARTING else []


def _converged(found: Descent, gap: float | None, rounding: float) -> bool:
    if gap is None:
        return found.reason == "stationary" and len(found.losses) > 1
    return found.reason == "floor" or gap <= rounding or (found.reason == "stationary" and gap <= _NEAR * rounding)


def _never(loss: float) -> bool:
    return False
