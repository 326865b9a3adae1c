"""How likely some epochs of reshuffling are to meet the conditions, without drawing a single batch.

An epoch throws the samples into m batches of B rows each. All counts below are of ways to place samples into the mB
rows, and all probabilities their ratios, kept as logarithms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from orthoframe.batches._labels import Integers

# Above this, pieces of a class larger than one sample are too unlikely to matter.
_SMALL_CLASS = 40


@dataclass(frozen=True)
class Coverage:
    """What a number of epochs of reshuffling is likely to achieve.

    Attributes:
        probability: That the epochs together certify.
        probability_as_stated: That they satisfy the paper's condition as stated, in which two single rows count as met.
        disconnected: `[k]`, for each class that it is in several pieces.
        unmet: `[k, k]`, for each pair of classes that no batch pushes them apart.
    """

    probability: float
    probability_as_stated: float
    disconnected: NDArray[np.float64]
    unmet: NDArray[np.float64]


def coverage(class_counts: Sequence[int] | Integers, batch_size: int, epochs: int) -> Coverage:
    """Probability that epochs of reshuffling, without binding, certify.

    A pair of classes that is missed in an epoch with probability p is missed in all with p^epochs: exact. Pieces of a
    class, and different classes and pairs, are taken as independent: close where the probability is not small.

    Args:
        class_counts: `[k]`, samples of each class.
        batch_size: Rows of a batch; a last short batch is shared out among the others.
        epochs: Number of epochs.

    Returns:
        The probabilities.

    Example:
        >>> round(coverage([50, 50, 5], batch_size=15, epochs=4).probability, 3)
        0.589
    """
    counts = _checked(class_counts, batch_size)
    if epochs < 1:
        raise ValueError(f"epochs must be a whole number from 1, not {epochs}")
    samples = int(counts.sum())
    batches = max(1, round(samples / batch_size))
    rows = -(-samples // batches)  # of equal batches, none of them short
    sizes, which, classes = np.unique(counts, return_inverse=True, return_counts=True)
    disconnected = np.array([_disconnected(int(size), batches, rows, epochs) for size in sizes])[which]
    unmet, apart = np.zeros((len(sizes),) * 2), np.zeros((len(sizes),) * 2)
    for a, first in enumerate(sizes.tolist()):
        for b, second in enumerate(sizes.tolist()[a:], start=a):
            if a == b and classes[a] == 1:
                continue  # a class is no pair with itself
            small, large = min(first, second), max(first, second)
            unmet[a, b] = unmet[b, a] = np.exp(epochs * _log_unmet(small, large, batches, rows))
            apart[a, b] = apart[b, a] = np.exp(epochs * _log_separate(small, large, batches, rows))
    unmet, apart = unmet[np.ix_(which, which)], apart[np.ix_(which, which)]
    np.fill_diagonal(unmet, 0.0)
    np.fill_diagonal(apart, 0.0)
    upper = np.triu_indices(len(counts), 1)
    connected = np.prod(1 - disconnected)
    return Coverage(
        probability=float(connected * np.prod(1 - unmet[upper])),
        probability_as_stated=float(connected * np.prod(1 - apart[upper])),
        disconnected=disconnected,
        unmet=unmet,
    )


def epochs_to_certify(
    class_counts: Sequence[int] | Integers, batch_size: int, confidence: float = 0.99, *, as_stated: bool = False
) -> int:
    """Epochs of reshuffling, without binding, after which the batches certify with a given confidence.

    Args:
        class_counts: `[k]`, samples of each class.
        batch_size: Rows of a batch.
        confidence: Between 0 and 1.
        as_stated: Whether to ask for the paper's condition as stated instead of the effective one.

    Returns:
        The smallest number of epochs.

    Raises:
        ValueError: If no number of epochs is enough, as with batches of one row.

    Example:
        >>> epochs_to_certify([5000, 500, 50], batch_size=128)
        8
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")

    def enough(epochs: int) -> bool:
        found = coverage(class_counts, batch_size, epochs)
        return (found.probability_as_stated if as_stated else found.probability) >= confidence

    last = 1
    while not enough(last):
        last *= 2
        if last > 2**40:
            raise ValueError(
                "no number of epochs is enough: some classes can never share a batch in the way that is needed; use a "
                "larger batch_size, or binding"
            )
    first = last // 2  # not enough, or 0
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if enough(middle) else (middle, last)
    return last


def _checked(class_counts: Sequence[int] | Integers, batch_size: int) -> Integers:
    counts = np.asarray(class_counts)
    if counts.ndim != 1 or not len(counts) or counts.dtype.kind not in "iu" or counts.min() < 1:
        raise ValueError("class_counts must be a list of whole numbers from 1")
    if batch_size < 1:
        raise ValueError(f"batch_size must be a whole number from 1, not {batch_size}")
    return counts


def _disconnected(size: int, batches: int, rows: int, epochs: int) -> float:
    """That a class is in several pieces after some epochs."""
    if size == 1 or batches == 1:
        return 0.0
    if epochs == 1:  # batches are disjoint: the class must be in one of them
        return float(-np.expm1(_log_spread(size, batches, rows)[1]))
    if size > _SMALL_CLASS:
        return float(-np.expm1(-size * np.exp(epochs * _log_separate(1, size - 1, batches, rows))))
    # The piece of a given sample has j samples: they are connected, and no batch holds one of them and one of the rest.
    connected = np.zeros(size + 1)
    connected[1] = 1.0
    for n in range(2, size + 1):
        pieces = [
            np.exp(_log_choose(n - 1, j - 1) + epochs * _log_separate(min(j, n - j), max(j, n - j), batches, rows))
            * connected[j]
            for j in range(1, n)
        ]
        connected[n] = max(0.0, 1.0 - sum(pieces))
    return float(1.0 - connected[size])


@lru_cache(maxsize=4096)
def _log_separate(s: int, t: int, batches: int, rows: int) -> float:
    """That s samples and t others share no batch in an epoch."""
    if batches == 1:
        return -np.inf
    expected = t * (1 - (1 - s / (batches * rows)) ** rows)
    if expected > 200:  # of the others that are in batches of the first: beyond any doubt
        return -float(expected)
    return _log_apart(s, t, batches, rows)


@lru_cache(maxsize=4096)
def _log_unmet(s: int, t: int, batches: int, rows: int) -> float:
    """That no batch of an epoch holds three rows of two classes of s and t samples, both of them among the three.

    Then every batch that both share holds one row of each; the sum is over the number j of such batches.
    """
    if s + t < 3 or rows < 3:
        return 0.0
    expected = _expected_meetings(s, t, batches, rows)
    if expected > 50:  # a chance of e^-50, and the sum below would be long
        return -expected
    everything = _log_placements(s, t, batches * rows)
    terms = []
    for j in range(min(s, t, batches) + 1):
        left = batches - j
        if s + t - 2 * j > left * rows:
            break
        shared = _log_choose(batches, j) + j * float(np.log(rows) + np.log(rows - 1))
        avoid = _log_apart(s - j, t - j, left, rows) if left else 0.0
        terms.append(shared + avoid + _log_placements(s - j, t - j, left * rows))
    return float(min(0.0, logsumexp(terms) - everything))


def _expected_meetings(s: int, t: int, batches: int, rows: int) -> float:
    """About how many batches of an epoch hold two rows of the first class and one of the second."""
    p, q = s / (batches * rows), t / (batches * rows)
    several = 1 - (1 - p) ** rows - rows * p * (1 - p) ** (rows - 1)
    return float(batches * several * (1 - (1 - q) ** rows))


def _log_placements(s: int, t: int, places: int) -> float:
    """Ways to place s samples and t others."""
    return float(_log_choose(places, s)) + float(_log_choose(places - s, t))


def _log_apart(s: int, t: int, batches: int, rows: int) -> float:
    """That t samples avoid the batches of s others."""
    spread = _log_spread(s, batches, rows)
    used = np.arange(len(spread))
    return float(logsumexp(spread + _log_choose((batches - used) * rows, t)) - _log_choose(batches * rows - s, t))


@lru_cache(maxsize=4096)
def _log_spread(s: int, batches: int, rows: int) -> NDArray[np.float64]:
    """Logarithms of the probabilities that s samples are in exactly 0, 1, ..., min(s, batches) batches.

    After r samples in j batches the next one is in one of them with probability (jB - r)/(mB - r).
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
    """Logarithm of a binomial coefficient, -inf where it is 0."""
    n = np.asarray(n, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        value = gammaln(n + 1) - gammaln(r + 1) - gammaln(np.maximum(n - r, 0) + 1)
    result: NDArray[np.float64] = np.where(n >= r, value, -np.inf)
    return result if result.ndim else float(result)
