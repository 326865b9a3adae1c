"""The batches of every epoch, as a pure function."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from orthoframe.batches._binding import Binding, bind, choose_examples
from orthoframe.batches._certificate import Certificate, certify
from orthoframe.batches._labels import Integers, Labels, whole_number
from orthoframe.batches._schemes import Scheme, cut

# Each draw has a stream of its own, so that a change of one leaves the others as they were.
_PARTITION, _EPOCH, _EXAMPLES, _ADDED = range(4)


class BatchPlan:
    """Which examples meet: a pure function of (labels, seed, epoch).

    Every sample is in exactly one batch of an epoch before binding, except with the scheme `balanced`, which shows
    small classes several times. Iterating over a plan gives the batches of epoch 0.

    Args:
        labels: `[samples]`, integers or strings.
        batch_size: Rows of a batch before binding; `None` only for the scheme `full`.
        scheme: `"full"`, `"partition"`, `"reshuffle"`, `"balanced"` or `"rare-hub"`; see `Scheme`.
        binding: `"none"`, `"fixed"`, `"present"`, `"redrawn"` or `"random"`; see `Binding`.
        seed: Decides everything that is random.
        views: Views of each sample that the training draws; the certificate counts them as rows.
        per_class: Binding examples of each class.
        classes: Which classes are bound; all if `None`. With fewer, the certificate may fail.
        examples: For some or all bound classes the sample, or samples, that bind; drawn by the seed otherwise.
        drop_last: Whether to leave out a last batch that is short.

    Raises:
        ValueError: For options that are not allowed or contradict each other.

    Examples:
        >>> plan = BatchPlan([0, 0, 0, 0, 1, 1], batch_size=3, scheme="partition", binding="fixed", seed=1)
        >>> [len(batch) for batch in plan.batches(0)]
        [5, 5]
        >>> plan.certificate().holds
        True
    """

    def __init__(
        self,
        labels: Sequence[Any] | NDArray[Any],
        batch_size: int | None,
        *,
        scheme: Scheme = "reshuffle",
        binding: Binding = "fixed",
        seed: int = 0,
        views: int = 1,
        per_class: int = 1,
        classes: Sequence[Any] | None = None,
        examples: Mapping[Any, int | Sequence[int]] | None = None,
        drop_last: bool = False,
    ) -> None:
        self.labels = Labels.of(labels)
        self.scheme, self.binding, self.drop_last = scheme, binding, drop_last
        self.seed, self.views = whole_number("seed", seed, 0), whole_number("views", views, 1)
        self.per_class = whole_number("per_class", per_class, 1)
        self.batch_size = None if scheme == "full" else whole_number("batch_size", batch_size, 1)
        self._check(classes)
        if binding == "none":
            classes = []
        self._examples = choose_examples(self.labels, classes, per_class, examples, self._random(_EXAMPLES))

    def _check(self, classes: Sequence[Any] | None) -> None:
        for name, value, kind in (("scheme", self.scheme, Scheme), ("binding", self.binding, Binding)):
            if value not in get_args(kind):
                raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(kind)))}, not {value!r}")
        if len(self.labels.classes) == 0:
            raise ValueError("labels are empty; a plan needs at least one sample")
        if self.scheme == "balanced" and (self.batch_size or 0) < len(self.labels.names):
            raise ValueError(
                f'scheme="balanced" needs a batch_size of at least {len(self.labels.names)}, one row for each class, '
                f"not {self.batch_size}"
            )
        if self.binding == "present" and (self.per_class > 1 or classes is not None or self.drop_last):
            raise ValueError(
                'binding="present" adds what is missing and no more; per_class, classes and drop_last do not apply'
            )

    @property
    def examples(self) -> dict[Any, list[int]]:
        """The binding examples of each bound class, for `fixed` and `present`."""
        return {self.labels.names[c]: chosen.tolist() for c, chosen in self._examples.items()}

    def batches(self, epoch: int = 0) -> list[Integers]:
        """The batches of an epoch, as arrays of sample indices."""
        epoch = whole_number("epoch", epoch, 0)
        random = self._random(_PARTITION) if self.scheme == "partition" else self._random(_EPOCH, epoch)
        batches = cut(self.labels, self.batch_size or 0, self.scheme, random, self.drop_last)
        return bind(self.labels, batches, self.binding, self._examples, self.views, self._random(_ADDED, epoch))

    def __iter__(self) -> Iterator[Integers]:
        return iter(self.batches(0))

    def certificate(self, epochs: int = 1, *, denominator: str = "all") -> Certificate:
        """The certificate of the first epochs together, for a loss with this denominator."""
        every = (batch for epoch in range(epochs) for batch in self.batches(epoch))
        return certify(
            np.asarray(self.labels.names)[self.labels.classes], every, views=self.views, denominator=denominator
        )

    def fingerprint(self) -> str:
        """A short text that is the same for plans that give the same batches."""
        settings = [self.batch_size, self.scheme, self.binding, self.seed, self.views, self.drop_last, self.examples]
        digest = hashlib.sha256(repr(settings).encode())
        digest.update(np.ascontiguousarray(self.labels.classes, dtype=np.int32).tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return (
            f"BatchPlan({len(self.labels.classes)} samples of {len(self.labels.names)} classes, "
            f"batch_size={self.batch_size}, scheme={self.scheme!r}, binding={self.binding!r}, seed={self.seed})"
        )

    def _random(self, *stream: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, *stream])))
