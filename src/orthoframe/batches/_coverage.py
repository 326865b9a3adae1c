"""The probability that epochs of reshuffling certify, computed without drawing a batch.

An epoch deals the samples to the places in its batches. Probabilities are ratios of the number of ways to do that; all
are logarithms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from orthoframe._rows import Integers
from orthoframe.errors import Option, OptionError
from orthoframe.options import check_count, check_number

# In larger classes, pieces of more than one sample are too unlikely to matter.
_SMALL_CLASS = 40


@dataclass(frozen=True)
class Coverage:
    """Probabilities after a number of epochs of reshuffling.

    Attributes:
        probability: Probability that the epochs together certify.
        probability_as_stated: Probability that they satisfy the condition as stated in the paper, which lets two single
            rows count as a meeting.
        disconnected: `[k]`, probability that each class is disconnected.
        unmet: `[k, k]`, probability that no batch pushes each pair of classes apart.
    """

    probability: float
    probability_as_stated: float
    disconnected: NDArray[np.float64]
    unmet: NDArray[np.float64]


def coverage(class_counts: Sequence[int] | Integers, batch_size: int, epochs: int) -> Coverage:
    """Probability that epochs of reshuffling, without binding, certify.

    The probability that no batch pushes a given pair of classes apart is exact: p^epochs, where p is that of one epoch.
    The rest is an approximation, accurate unless the probability is small: pieces, classes and pairs are treated as
    independent, and a batch of a single class as if it connected the class.

    Args:
        class_counts: `[k]`, samples per class.
        batch_size: Samples in a batch; the last batch may be short.
        epochs: Number of epochs.

    Returns:
        The probabilities.

    Raises:
        OptionError: For a batch size or a number of epochs below 1.
        ValueError: For class counts that are not positive integers.

    Examples:
        >>> round(coverage([50, 50, 5], batch_size=15, epochs=4).probability, 3)
        0.589
    """
    counts = _checked(class_counts, batch_size)
    check_count("epochs", epochs)
    layout = Layout(*divmod(int(counts.sum()), batch_size), batch_size)
    sizes, which, classes = np.unique(counts, return_inverse=True, return_counts=True)
    disconnected = np.array([_disconnected(int(size), layout, epochs) for size in sizes])[which]
    unmet, apart = np.zeros((len(sizes),) * 2), np.zeros((len(sizes),) * 2)
    for a, first in enumerate(sizes.tolist()):
        for b, second in enumerate(sizes.tolist()[a:], start=a):
            if a == b and classes[a] == 1:
                continue  # there is only one class of this size
            unmet[a, b] = unmet[b, a] = np.exp(epochs * _log_unmet(first, second, layout))
            apart[a, b] = apart[b, a] = np.exp(epochs * _log_separate(first, second, layout))
    unmet, apart = unmet[np.ix_(which, which)], apart[np.ix_(which, which)]
    np.fill_diagonal(unmet, 0.0)
    np.fill_diagonal(apart, 0.0)
    upper = np.triu_indices(len(counts), 1)
    connected = np.prod(1 - disconnected)
    # A single class never collapses: no batch holds another class.
    alone = len(counts) == 1 and counts[0] > 1
    return Coverage(
        probability=0.0 if alone else float(connected * np.prod(1 - unmet[upper])),
        probability_as_stated=float(connected * np.prod(1 - apart[upper])),
        disconnected=np.ones(1) if alone else disconnected,
        unmet=unmet,
    )


def epochs_to_certify(
    class_counts: Sequence[int] | Integers, batch_size: int, confidence: float = 0.99, *, as_stated: bool = False
) -> int:
    """Number of epochs of reshuffling, without binding, that certify with a given probability.

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
        found = coverage(class_counts, batch_size, epochs)
        return (found.probability_as_stated if as_stated else found.probability) >= confidence

    last = 1
    while not enough(last):
        last *= 2
        if last > 2**40:
            sentence = "no number of epochs is enough with batches of this size; use a larger "
            raise OptionError(sentence, Option("batch_size"), ", or bind the classes")
    first = last // 2  # not enough, or 0
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if enough(middle) else (middle, last)
    return last


def _checked(class_counts: Sequence[int] | Integers, batch_size: int) -> Integers:
    counts = np.asarray(class_counts)
    if counts.ndim != 1 or not len(counts) or counts.dtype.kind not in "iu" or counts.min() < 1:
        raise ValueError("class_counts must be a list of positive integers")
    check_count("batch_size", batch_size)
    return counts


class Layout(NamedTuple):
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


def _disconnected(size: int, layout: Layout, epochs: int) -> float:
    """Probability that a class is disconnected."""
    if size == 1 or layout.batches == 1:
        return 0.0
    if epochs == 1:  # batches are disjoint, so the class must be whole in one of them
        whole = layout.full * np.exp(_log_choose(layout.rows, size) - _log_choose(layout.places, size))
        return float(1.0 - whole - np.exp(_log_choose(layout.short, size) - _log_choose(layout.places, size)))
    if size > _SMALL_CLASS:
        return float(-np.expm1(-size * np.exp(epochs * _log_separate(1, size - 1, layout))))
    # If the piece of a given sample has j samples, they are connected, and share no batch with the rest.
    connected = np.zeros(size + 1)
    connected[1] = 1.0
    for n in range(2, size + 1):
        pieces = [
            np.exp(_log_choose(n - 1, j - 1) + epochs * _log_separate(j, n - j, layout)) * connected[j]
            for j in range(1, n)
        ]
        connected[n] = max(0.0, 1.0 - sum(pieces))
    return float(1.0 - connected[size])


def _log_separate(s: int, t: int, layout: Layout) -> float:
    """Log-probability that s samples and t others share no batch in an epoch."""
    return _log_missed(min(s, t), max(s, t), layout, False)


def _log_unmet(s: int, t: int, layout: Layout) -> float:
    """Log-probability that no batch of an epoch pushes classes of s and t samples apart."""
    return _log_missed(min(s, t), max(s, t), layout, True)


@lru_cache(maxsize=8192)
def _log_missed(s: int, t: int, layout: Layout, singles: bool) -> float:
    """Log-probability that s samples and t others share no batch or, with `singles`, only as one row each.

    Sums over the contents of the short batch; the full ones are alike.
    """
    # The share of the places that are in a batch with enough of the s samples: the t others have to avoid them.
    share = s / layout.places
    enough = 1 - (1 - share) ** layout.rows
    if singles:
        enough -= layout.rows * share * (1 - share) ** (layout.rows - 1)
    if t * enough > 60:  # a probability below e^-60, for which the sum would be long
        return -t * enough
    everything = _log_placements(s, t, layout.places)
    inside = [(0, 0)] + [(x, 0) for x in range(1, _most(s, layout) + 1)]
    inside += [(0, y) for y in range(1, _most(t, layout) + 1)]
    if singles and layout.short > 1:
        inside.append((1, 1))
    ways = [
        _log_placements(x, y, layout.short) + _log_ways(s - x, t - y, layout.full, layout.rows, singles)
        for x, y in inside
    ]
    return float(min(0.0, logsumexp(ways) - everything))


def _most(size: int, layout: Layout) -> int:
    """The largest number of samples of a class in the short batch that is not too unlikely to matter."""
    mean = size * layout.short / layout.places
    return min(size, layout.short, int(mean + 10 * mean**0.5 + 15))


@lru_cache(maxsize=65536)
def _log_ways(s: int, t: int, batches: int, rows: int, singles: bool) -> float:
    """Log of the number of ways to place s samples and t others into full batches so that they miss each other.

    Sums over the number j of batches that hold one row of each.
    """
    terms = []
    for j in range((min(s, t, batches) if singles and rows > 1 else 0) + 1):
        left = batches - j
        if s + t - 2 * j > left * rows:
            break
        shared = _log_choose(batches, j) + (j * float(np.log(rows) + np.log(rows - 1)) if j else 0.0)
        spread = _log_spread(s - j, left, rows)
        avoiding = logsumexp(spread + _log_choose((left - np.arange(len(spread))) * rows, t - j))
        terms.append(shared + float(_log_choose(left * rows, s - j)) + float(avoiding))
    return float(logsumexp(terms)) if terms else -np.inf


def _log_placements(s: int, t: int, places: int) -> float:
    """Log of the number of ways to place s samples and t others."""
    return float(_log_choose(places, s)) + float(_log_choose(places - s, t)) if places >= s else -np.inf


@lru_cache(maxsize=4096)
def _log_spread(s: int, batches: int, rows: int) -> NDArray[np.float64]:
    """Log-probabilities that s samples are in exactly 0, 1, ..., min(s, batches) batches, which have room for all.

    With r samples placed in j of the m batches of B rows, the next is in one of these j with probability
    (jB - r)/(mB - r).
    """
    width = min(s, batches) + 1
    spread = np.zeros(width)
    spread[0] = 1.0
    j = np.arange(width)
    for r in range(s):
        stay = np.clip((j * rows - r) / (batches * rows - r), 0.0, 1.0)
        moved = np.concatenate([[0.0], (spread * (1.0 - stay))[:-1]])
        spread = spread * stay + moved
    with np.errstate(divide="ignore"):
        return np.log(spread)


def _log_choose(n: "int | Integers", r: int) -> "NDArray[np.float64] | float":
    """Log of a binomial coefficient; -inf if it is 0."""
    n = np.asarray(n, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        value = gammaln(n + 1) - gammaln(r + 1) - gammaln(np.maximum(n - r, 0) + 1)
    result: NDArray[np.float64] = np.where(n >= r, value, -np.inf)
    return result if result.ndim else float(result)
