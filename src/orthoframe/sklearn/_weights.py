"""Weights of rows: how often each is drawn into the batches."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from orthoframe._rows import Integers, Labels
from orthoframe.batches import BatchPlan
from orthoframe.errors import Option, OptionError, brief
from orthoframe.options import Binding

_STREAM = 7  # of random numbers: 0 to 3 are those of the plan itself
_DRAWN, _BOUND, _ADDED = range(3)
_POWERS = {"square-root": 0.5, "balanced": 1.0}  # of one over the size of the class


def relative_weights(
    sample_weight: ArrayLike | None, class_weight: object, labels: NDArray[Any]
) -> NDArray[np.float64]:
    """Weights of rows times the weights of their classes, `[rows]`; the largest is 1, and 0 leaves a row out.

    Raises:
        ValueError: For weights that are negative, not finite, not one per row, or all zero.
    """
    weights = _relative(_check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True))
    if class_weight is None:
        return weights
    present = weights > 0
    classes, numbers = np.unique(labels[present], return_inverse=True)
    if isinstance(class_weight, str) and class_weight in _POWERS:
        factors = np.bincount(numbers, weights[present]) ** -_POWERS[class_weight]
    elif isinstance(class_weight, dict):
        factors = np.asarray(compute_class_weight(class_weight, classes=classes, y=labels[present]), np.float64)
        if not (np.isfinite(factors).all() and factors.min() >= 0 and factors.any()):
            allowed = " must have finite weights, none negative and not all zero, not "
            raise OptionError(Option("class_weight"), allowed, brief(class_weight))
    else:
        allowed = " must be None, 'square-root', 'balanced', or a dictionary with the weight of each class, not "
        raise OptionError(Option("class_weight"), allowed, brief(repr(class_weight)))
    weights[present] *= factors[numbers]
    return _relative(weights)


def _relative(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rounded to single precision, so that weights that differ only by a factor give the same bytes."""
    relative: NDArray[np.float64] = (weights / weights.max()).astype(np.float32).astype(np.float64)
    return relative


def make_plan(
    labels: Labels | NDArray[Any], weights: NDArray[np.float64] | None, batch_size: int, binding: Binding, seed: int
) -> BatchPlan:
    """The batches of rows with positive weights; None for equal weights."""
    numbered: Any = Labels.of(labels)
    if weights is None:
        return BatchPlan(numbered, batch_size, binding=binding, seed=seed)
    return WeightedPlan(numbered, weights, batch_size, binding=binding, seed=seed)


class WeightedPlan(BatchPlan):
    """Batches of rows that are drawn with chances proportional to positive weights, by reshuffling.

    An epoch has as many draws as there are rows. A row is drawn `rows * weight / sum of weights` times in the mean over
    epochs, and in each epoch that number rounded up or down: with equal weights once. Binding draws by weight too.

    Examples:
        >>> plan = WeightedPlan([0, 0, 0, 1], np.array([3.0, 1.0, 2.0, 2.0]), batch_size=4, binding="none")
        >>> np.mean([np.bincount(plan.batches(epoch)[0], minlength=4) for epoch in range(1000)], axis=0).round(1)
        array([1.5, 0.5, 1. , 1. ])
    """

    def __init__(
        self,
        labels: Labels | NDArray[Any],
        weights: NDArray[np.float64],
        batch_size: int,
        *,
        binding: Binding = "fixed",
        seed: int = 0,
    ) -> None:
        numbered: Any = Labels.of(labels)
        self.weights, self.seed = weights, seed
        self._chances = weights / weights.sum()
        random = self._random(_STREAM, _BOUND)
        self._members = numbered.members()
        drawn = [int(self._draw(own, 1, random)[0]) for own in self._members]
        bound = None if binding == "none" else dict(zip(numbered.names, drawn, strict=True))
        super().__init__(numbered, batch_size, binding=binding, seed=seed, examples=bound)

    def batches(self, epoch: int = 0) -> list[Integers]:
        """The batches of an epoch, as arrays of row numbers."""
        batches = super().batches(epoch)
        if self.binding not in ("redrawn", "random"):
            return batches
        # What was added to each batch was drawn with equal chances.
        random, k = self._random(_STREAM, _ADDED, epoch), len(self._members)
        pools = self._members if self.binding == "redrawn" else [np.arange(len(self.weights))] * k
        added = np.stack([self._draw(pool, len(batches), random) for pool in pools], axis=1)
        return [np.concatenate([batch[:-k], extra]) for batch, extra in zip(batches, added, strict=True)]

    def shares(self) -> NDArray[np.float64]:
        """The part of all rows that each class has in the batches, as in `BatchPlan`."""
        if self.binding == "present":
            return super().shares()
        part = np.bincount(self.labels.classes, self._chances)
        added = {"none": 0 * part, "random": len(part) * part}.get(self.binding, np.ones(len(part)))
        rows = len(self.weights) * part + len(self._cut(0)) * added
        shares: NDArray[np.float64] = rows / rows.sum()
        return shares

    def chances(self) -> NDArray[np.float64]:
        """How many times each row is drawn in an epoch in the mean, before binding."""
        times: NDArray[np.float64] = len(self.weights) * self._chances
        return times

    @property
    def epochs_to_show_all(self) -> None:
        """Not known: a row of small weight is drawn at random."""
        return

    def fingerprint(self) -> str:
        """A short text that is equal for plans with equal batches."""
        return hashlib.sha256(super().fingerprint().encode() + self.weights.tobytes()).hexdigest()[:16]

    def _cut(self, epoch: int) -> list[Integers]:
        random, samples = self._random(_STREAM, _DRAWN, epoch), len(self.weights)
        order = random.permutation(samples)
        # Marks at equal distances, from a random start: each row gets those that fall into its part of the line.
        ends = np.minimum(np.cumsum(samples * self._chances[order]), samples)
        ends[-1] = samples  # whatever the sum was rounded to
        times = np.diff(np.floor(ends + random.random()), prepend=0.0).astype(np.int64)
        drawn = random.permutation(np.repeat(order, times))
        size = self.batch_size or samples
        return [drawn[start : start + size] for start in range(0, len(drawn), size)]

    def _draw(self, rows: Integers, number: int, random: np.random.Generator) -> Integers:
        """Some of the rows, by their chances, with replacement."""
        chances = self._chances[rows]
        return rows[random.choice(len(rows), number, p=chances / chances.sum())]
