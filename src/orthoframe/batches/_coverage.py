"""The probability that epochs of reshuffling certify: estimated without drawing a batch, or simulated."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from orthoframe._rows import Counts, Integers, count_array
from orthoframe.batches._pairs import check_table
from orthoframe.batches._scan import ParallelRuns
from orthoframe.errors import Option, OptionError, brief
from orthoframe.options import check_count, check_number

Floats = NDArray[np.float64]

# Rows that a batch needs to connect a class, and to push two classes apart: exactly, and as stated in the paper.
_EXACT, _AS_STATED = 3, 2
# Classes of up to this many samples meet others with exact chances, and larger parts of classes hardly ever stay alone.
_SMALL = 20
_MOST_SAMPLES = 10**9
_ROWS_TOGETHER = 2_000_000  # that are simulated side by side
_CELLS = 2**20  # pairs of sizes that are looked at together
_ROUNDING = 1e-3  # of the logarithm of a probability, at most


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Probabilities after a number of epochs of reshuffling.

    Attributes:
        probability: Probability that the epochs together certify.
        interval: If it was simulated, its 99 % confidence interval; else None.
        probability_as_stated: Probability that they satisfy the condition as stated in the paper, which lets two
            singletons count as a meeting, and a batch of a single class as a connection.
        disconnected: `[k]`, probability that each class is disconnected.
    """

    probability: float
    interval: tuple[float, float] | None = None
    probability_as_stated: float
    disconnected: Floats
    _unmet_of: Callable[[Integers], Floats] = field(repr=False)

    def unmet_of(self, classes: Sequence[int]) -> Floats:
        """`[classes, k]`, probability that no batch pushes these classes and each other class apart.

        Examples:
            >>> coverage([50, 2, 2], batch_size=6, epochs=10).unmet_of([1]).round(2)
            array([[0.  , 0.  , 0.75]])
        """
        return self._unmet_of(np.asarray(classes))

    @property
    def unmet(self) -> Floats:
        """`[k, k]`, `unmet_of` all classes, of which there must be at most 4,096."""
        check_table(len(self.disconnected), "unmet", "ask for a few classes with unmet_of")
        return self.unmet_of(range(len(self.disconnected)))


def coverage(class_counts: Counts, batch_size: int, epochs: int, *, simulations: int = 0, seed: int = 0) -> Coverage:
    r"""Probability that epochs of reshuffling, without binding, certify.

    The estimate counts what can be missing. A class of n samples is disconnected if it splits into two parts that never
    share a batch. Let M be the expected number of such splits. In a class of C components there are 2^(C-1) - 1 of
    them, and with C - 1 taken as binomial, out of n - 1, the class is connected with probability

        (2 - (1 + M)^(1/(n-1)))^(n-1)

    The probability that no batch pushes two classes apart is exact if one of them has at most 20 samples; for larger
    classes it is computed as if batches were independent, and is a little too large. Classes and pairs are taken as
    independent, and a batch of a single class, three rows or more, counts as if it connected the class. In 200 random
    settings the estimate is off by 0.01 in the median, and by far more where nearly every batch holds a single class;
    `simulations` gives the probability with an interval.

    Args:
        class_counts: `[k]`, samples per class.
        batch_size: Samples in a batch; the last batch may be short.
        epochs: Number of epochs.
        simulations: Number of runs to draw and certify instead; 0 estimates.
        seed: Seed of the simulations.

    Returns:
        The probabilities.

    Raises:
        OptionError: For a batch size below 1, epochs below 1 or beyond precision, a negative number of simulations, or
            simulations of more than 4,096 classes.
        ValueError: For class counts that are not positive, or too large.
        TypeError: For class counts that are not integers.

    Examples:
        >>> round(coverage([50, 50, 5], batch_size=15, epochs=4).probability, 2)
        0.51
        >>> simulated = coverage([50, 50, 5], batch_size=15, epochs=4, simulations=1000)
        >>> [round(end, 1) for end in simulated.interval]
        [0.5, 0.6]
    """
    counts = _checked(class_counts)
    batch_size = min(check_count("batch_size", batch_size), int(counts.sum()))  # all in one batch
    most = _most_epochs(counts)
    epochs, simulations = check_count("epochs", epochs), check_count("simulations", simulations, 0)
    if epochs > most:
        raise OptionError(
            Option("epochs"),
            f" must be at most {most} for these samples, not {brief(epochs, 30)}: beyond that, rounding decides",
        )
    if simulations:
        return _simulated(counts, batch_size, epochs, simulations, check_count("seed", seed, 0))
    layout = _Layout(*divmod(int(counts.sum()), batch_size), batch_size)
    sizes, size_of, number = np.unique(counts, return_inverse=True, return_counts=True)
    exact, as_stated = (_Chances(sizes, layout, epochs, least) for least in (_EXACT, _AS_STATED))
    # A single class never collapses, because no batch holds another class.
    alone = len(counts) == 1 and counts[0] > 1
    # The batches of one epoch are disjoint: several of them cannot connect all classes and bring them together.
    disjoint = epochs == 1 and layout.batches > 1
    return Coverage(
        probability=0.0 if alone or disjoint else exact.all_hold(number),
        probability_as_stated=0.0 if disjoint else as_stated.all_hold(number),
        disconnected=np.ones(1) if alone else 1 - exact.connected()[size_of],
        _unmet_of=partial(_unmet_of, exact, size_of),
    )


def _unmet_of(chances: "_Chances", size_of: Integers, classes: Integers) -> Floats:
    unmet = chances.unmet(chances.sizes[size_of[classes]], chances.sizes)[:, size_of]
    unmet[np.arange(len(classes)), classes] = 0.0
    return unmet


def epochs_to_certify(
    class_counts: Counts, batch_size: int, confidence: float = 0.99, *, as_stated: bool = False
) -> int:
    """Number of epochs of reshuffling, without binding, that certify with a given probability, as `coverage` estimates.

    Args:
        class_counts: `[k]`, samples per class.
        batch_size: Samples in a batch.
        confidence: The probability, between 0 and 1.
        as_stated: Whether to use the condition as stated in the paper instead of the exact one.

    Returns:
        The smallest number of epochs.

    Raises:
        OptionError: If no number of epochs is enough, as with batches of one row, or for an option out of range.
        ValueError: For class counts that are not positive integers.

    Examples:
        >>> epochs_to_certify([5000, 500, 50], batch_size=128)
        8
    """
    check_number("confidence", confidence, above=0, below=1)

    def enough(epochs: int) -> bool:
        estimate = coverage(class_counts, batch_size, epochs)
        return (estimate.probability_as_stated if as_stated else estimate.probability) >= confidence

    last, most = 1, _most_epochs(_checked(class_counts))
    while not enough(last):
        if last == most:
            sentence = f"not even {most} epochs are enough with batches of this size; use a larger "
            raise OptionError(sentence, Option("batch_size"), ", or bind the classes")
        last = min(2 * last, most)
    between = range(last // 2 + 1, last)
    return between.start + bisect_left(between, True, key=enough)


def _checked(class_counts: Counts) -> Integers:
    counts = count_array(class_counts)
    if not len(counts) or counts.min() < 1:
        raise ValueError("class_counts must be a list of positive integers")
    if int(counts.sum()) > _MOST_SAMPLES:
        raise ValueError(f"class_counts must not sum to more than {_MOST_SAMPLES}")
    return counts


def _most_epochs(counts: Integers) -> int:
    """Logarithms of numbers of ways are rounded, and multiplied by the epochs."""
    return int(min(1e9, _ROUNDING / (1e-16 * math.lgamma(int(counts.sum()) + 2))))


def _simulated(counts: Integers, batch_size: int, epochs: int, runs: int, seed: int) -> Coverage:
    """Draw runs of epochs, and apply the exact condition and that of the paper to each."""
    from scipy.stats import binomtest  # a second to load

    check_table(len(counts), "a simulation", "leave out ", Option("simulations"))
    k, random = len(counts), np.random.default_rng(seed)
    certified = as_stated = 0
    disconnected, unmet = np.zeros(k), np.zeros((k, k))
    together = max(1, _ROWS_TOGETHER // int(counts.sum()))
    for first in range(0, runs, together):
        number = min(together, runs - first)
        part = ParallelRuns(counts, batch_size, number)
        for _ in range(epochs):
            part.add_epoch(np.argsort(random.random((number, counts.sum())), axis=1))
        connected, connected_as_stated = part.connected()
        certified += int((connected.all(1) & part.met.all((1, 2))).sum())
        as_stated += int((connected_as_stated.all(1) & part.touched.all((1, 2))).sum())
        disconnected += (~connected).sum(0)
        unmet += (~part.met).sum(0)
    interval = binomtest(certified, runs).proportion_ci(0.99, method="exact")
    return Coverage(
        probability=certified / runs,
        interval=(float(interval.low), float(interval.high)),
        probability_as_stated=as_stated / runs,
        disconnected=disconnected / runs,
        _unmet_of=(unmet / runs).__getitem__,
    )


class _Layout(NamedTuple):
    """The batches of an epoch: `full` batches of `rows` rows, and a last batch of `short` rows if that is not 0."""

    full: int
    short: int
    rows: int

    @property
    def places(self) -> int:
        """Rows in all batches."""
        return self.full * self.rows + self.short

    @property
    def batches(self) -> int:
        """Number of batches."""
        return self.full + (self.short > 0)


class _Chances(NamedTuple):
    """The chances of classes of some sizes; batches of fewer than `least` rows connect nothing, nor push it apart."""

    sizes: Integers
    layout: _Layout
    epochs: int
    least: int

    def connected(self) -> Floats:
        """`[sizes]`, that a class is connected."""
        if self.layout.rows < self.least:
            return np.where(self.sizes == 1, 1.0, 0.0)
        return _connected(self.sizes, self.layout, self.epochs, self.least)

    def unmet(self, some: Integers, others: Integers) -> Floats:
        """`[some, others]`, that two classes are not pushed apart."""
        unmet = np.ones((len(some), len(others)))
        if self.layout.rows < self.least:
            return unmet
        rows, columns = np.flatnonzero(some > _SMALL), np.flatnonzero(others > _SMALL)
        large = _unmet_large(some[rows, None], others[columns], self.layout, self.least)
        unmet[np.ix_(rows, columns)] = large
        small = np.union1d(some, others)
        for size in small[small <= _SMALL].tolist():  # the larger of two small ones decides, so that it is symmetric
            unmet[some == size] = _unmet_small(size, others, self.layout, self.least)
            unmet[:, others == size] = _unmet_small(size, some, self.layout, self.least)[:, None]
        chances: Floats = unmet**self.epochs
        return chances

    def all_hold(self, number: Integers) -> float:
        """That all classes are connected and all pairs are met, where `number` classes have each size."""
        connected = self.connected()
        if not connected.all():
            return 0.0
        log = (number * np.log(connected)).sum()
        step = max(1, _CELLS // len(number))
        for first in range(0, len(number), step):
            pairs = np.triu(np.outer(number[first : first + step], number[first:])).astype(np.float64)
            np.fill_diagonal(pairs, number[first : first + step] * (number[first : first + step] - 1) / 2)
            unmet = self.unmet(self.sizes[first : first + step], self.sizes[first:])[pairs > 0]
            if (unmet >= 1).any():
                return 0.0
            log += (pairs[pairs > 0] * np.log1p(-unmet)).sum()
        return math.exp(log)


def _connected(sizes: Integers, layout: _Layout, epochs: int, least: int) -> Floats:
    """Chance that a class is connected, by the expected number of its splits; see `coverage`."""
    splits = np.zeros(len(sizes))
    for part in range(1, min(_SMALL, int(sizes.max()) // 2) + 1):
        chosen = sizes >= 2 * part
        size = sizes[chosen]
        with np.errstate(divide="ignore", over="ignore"):
            log = _log_comb(size, part) + epochs * np.log(_apart(part, size - part, layout, least))
            splits[chosen] += np.where(size == 2 * part, 0.5, 1.0) * np.exp(log)
    with np.errstate(over="ignore"):
        binomial = np.maximum(sizes - 1, 1)
        chances: Floats = np.maximum(2 - (1 + splits) ** (1 / binomial), 0.0) ** binomial
    return chances


def _apart(size: int, others: Integers, layout: _Layout, least: int) -> Floats:
    """Chances `[others]` that in an epoch no batch holds rows of a class of this size and of another class."""
    taken = _taken(size, layout, least)
    used, left = np.arange(len(taken))[:, None], _left_in_short(layout, least)
    free = np.clip((layout.full - used) * layout.rows + left, 0, None)[..., None]
    log = _log_perm(free, others) - _log_perm(layout.places - size, others)
    apart: Floats = (taken[..., None] * np.exp(log)).sum((0, 1))
    return np.minimum(apart, 1.0)


def _left_in_short(layout: _Layout, least: int) -> Integers:
    """`[states]`, the places of the last batch that are left to others.

    It has two states, free and taken, or is too short to matter: then it has a state for each number of rows in it.
    """
    return np.array([layout.short, 0]) if layout.short >= least else np.arange(layout.short, -1, -1)


@lru_cache(maxsize=64)
def _taken(size: int, layout: _Layout, least: int) -> Floats:
    """`[full batches, states]`, chance that rows of a class are in so many full batches, and of each state of the last.

    One row after the other is dealt to a place that is still free: in a batch that holds the class, or in another.
    """
    left = _left_in_short(layout, least)
    used = np.arange(min(size, layout.full) + 1)[:, None]
    chances = np.zeros((len(used), len(left)))
    chances[0, 0] = 1.0
    for row in range(size):
        free = layout.places - row
        beside = chances * np.maximum(used * layout.rows + layout.short - left - row, 0) / free
        in_full = chances * (layout.full - used) * layout.rows / free
        in_short = chances * left / free
        chances = beside
        chances[1:] += in_full[:-1]
        chances[:, 1:] += in_short[:, :-1]
    return chances


def _unmet_small(size: int, others: Integers, layout: _Layout, least: int) -> Floats:
    """Chances `[others]` that an epoch does not push a small class apart from others, exactly.

    Batches with rows of both may only have a single row of each; as stated in the paper, there are none.
    """
    unmet = np.zeros(len(others))
    exact = least == _EXACT
    for in_short in range(2 if exact and layout.short >= least else 1):
        for in_full in range(min(size - in_short, layout.full) + 1 if exact else 1):
            shared = in_short + in_full
            rest = _Layout(layout.full - in_full, 0 if in_short else layout.short, layout.rows)
            possible = (others >= shared) & (size + others - 2 * shared <= rest.places)
            possible &= size + others <= layout.places
            if not possible.any():
                continue
            other = others[possible]
            log = _log_comb(layout.full, in_full) + _log_perm(size, shared) + _log_perm(other, shared)
            log += in_full * math.log(layout.rows * (layout.rows - 1))
            log += math.log(layout.short * (layout.short - 1)) if in_short else 0.0
            log += _log_perm(rest.places, size + other - 2 * shared) - _log_perm(layout.places, size + other)
            unmet[possible] += np.exp(log) * _apart(size - shared, other - shared, rest, least)
    return np.minimum(unmet, 1.0)


def _unmet_large(size: Integers, other: Integers, layout: _Layout, least: int) -> Floats:
    """Chances that an epoch does not push two large classes apart, as if its batches were independent."""
    log = np.zeros(np.broadcast_shapes(size.shape, other.shape))
    for count, rows in ((layout.full, layout.rows), (1, layout.short)):
        everything = _log_comb(layout.places, rows)
        without_both = np.exp(_log_comb(layout.places - size - other, rows) - everything)
        chance = np.exp(_log_comb(layout.places - size, rows) - everything)
        chance = chance + np.exp(_log_comb(layout.places - other, rows) - everything) - without_both
        if least == _EXACT and rows > 1:
            chance = chance + size * other * np.exp(_log_comb(layout.places - size - other, rows - 2) - everything)
        with np.errstate(divide="ignore"):
            log += count * np.log(np.clip(chance, 0.0, 1.0))
    return np.exp(log)


def _log_perm(n: "int | Integers | Floats", r: "int | Integers | Floats") -> Floats:
    """Logarithm of the number of ways to place r samples in n places; -inf if there are too few."""
    n, r = np.asarray(n, np.float64), np.asarray(r, np.float64)
    fits = n >= r
    ways: Floats = np.where(fits, gammaln(n + 1) - gammaln(np.where(fits, n - r, 0.0) + 1), -np.inf)
    return ways


def _log_comb(n: "int | Integers | Floats", r: "int | Integers | Floats") -> Floats:
    """Logarithm of the number of ways to choose r of n samples."""
    ways: Floats = _log_perm(n, r) - gammaln(np.asarray(r, np.float64) + 1)
    return ways
