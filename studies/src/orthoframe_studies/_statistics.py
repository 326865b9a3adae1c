"""Statistics of few runs: counted outcomes, means of differences, medians, and several cells at once."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

ALPHA = 0.05
"""The error that is allowed on each side: an end of an interval holds with a confidence of 95 %."""
HALF = 0.5
"""A claim about runs says that it is true of more than this part of them."""

_ROUNDING = 1e-12  # relative, in which values do not differ

Bounds = tuple[float, float]  # what is known of a value: the smallest and the largest that it can be


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A quantity over seeds."""

    centre: float | None  # the mean, the median or the share; None if it is not known
    low: float | None  # None if it is not known, as with one seed
    high: float | None  # None if it is not known, or, where `low` is, if there is no upper bound
    values: Mapping[int, float | None]  # by seed; None where the value is known by bounds only
    # `mean` with Student's interval, `median` with the smallest and largest value, or `share` of the runs of which
    # something is true, with Clopper and Pearson's interval. Each end of an interval holds with 95 %.
    kind: Literal["mean", "median", "share"] = "mean"

    @property
    def known_values(self) -> list[float]:
        """The values that are known."""
        return [value for value in self.values.values() if value is not None]

    @property
    def missing(self) -> int:
        """How many seeds did not reach the quantity."""
        return len(self.values) - len(self.known_values)


def clopper_pearson(successes: int, trials: int, alpha: float = ALPHA) -> Bounds:
    """The interval of a proportion; each end is beyond the truth with a probability of at most `alpha`.

    Examples:
        >>> [round(end, 3) for end in clopper_pearson(10, 10)], clopper_pearson(0, 0)
        ([0.741, 1.0], (0.0, 1.0))
    """
    if not trials:
        return 0.0, 1.0
    from scipy.stats import binomtest  # a second to load

    interval = binomtest(successes, trials).proportion_ci(1 - 2 * alpha)
    return float(interval.low), float(interval.high)


def chance_of_most(successes: int, trials: int) -> float:
    """The probability of as many successes or more where each has one of `HALF`: small if most runs succeed.

    Examples:
        >>> chance_of_most(5, 5), chance_of_most(9, 10) < 0.05 < chance_of_most(8, 10), chance_of_most(0, 0)
        (0.03125, True, 1.0)
    """
    return math.fsum(math.comb(trials, count) for count in range(successes, trials + 1)) * HALF**trials


def holm(chances: Sequence[float]) -> list[float]:
    """Holm's correction: p-values that may be compared with `ALPHA` although there are several.

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(chances)), key=chances.__getitem__)
    corrected, largest = [0.0] * len(chances), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, chances[place] * (len(chances) - rank)))
        corrected[place] = largest
    return corrected


def mean_interval(values: Mapping[int, float]) -> Interval:
    """The mean over seeds, with Student's interval.

    Examples:
        >>> interval = mean_interval({10: 1.0, 11: 2.0, 12: 3.0})
        >>> round(interval.centre, 3), round(interval.low, 3), round(interval.high, 3)
        (2.0, 0.314, 3.686)
    """
    finite = {seed: float(value) if math.isfinite(value) else None for seed, value in values.items()}
    numbers = [value for value in finite.values() if value is not None]
    if not numbers or len(numbers) < len(finite):
        return Interval(centre=None, low=None, high=None, values=finite)
    mean = statistics.fmean(numbers)
    if len(numbers) == 1:
        return Interval(centre=mean, low=None, high=None, values=finite)
    if math.isclose(min(numbers), max(numbers), rel_tol=_ROUNDING):
        return Interval(centre=mean, low=mean, high=mean, values=finite)
    from scipy.stats import ttest_1samp

    interval = ttest_1samp(numbers, 0.0).confidence_interval(1 - 2 * ALPHA)
    return Interval(centre=mean, low=float(interval.low), high=float(interval.high), values=finite)


def chance_of_mean(values: Sequence[float], threshold: float) -> float:
    """The p-value of Student's test that the mean is at most `threshold`: small if it is above.

    Examples:
        >>> round(chance_of_mean([1.0, 2.0, 3.0], 0.314), 2), chance_of_mean([1.0], 0.0)
        (0.05, 1.0)
    """
    if len(values) < 2:
        return 1.0
    if math.isclose(min(values), max(values), rel_tol=_ROUNDING):
        return float(values[0] <= threshold)
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(values, threshold, alternative="greater").pvalue)


def median_range(values: Mapping[int, Bounds]) -> Interval:
    """The median with the smallest and the largest value; those that are known from below only count as larger.

    Examples:
        >>> interval = median_range({10: (2.0, 2.0), 11: (3.0, 3.0), 12: (40.0, math.inf)})  # not reached in 40 epochs
        >>> interval.centre, interval.low, interval.high
        (3.0, 2.0, None)
    """
    exact = {seed: low if low == high and math.isfinite(low) else None for seed, (low, high) in values.items()}
    if not values or any(math.isnan(end) for pair in values.values() for end in pair):
        return Interval(centre=None, low=None, high=None, values=exact, kind="median")
    low = statistics.median(pair[0] for pair in values.values())
    high = statistics.median(pair[1] for pair in values.values())
    ends = min(pair[0] for pair in values.values()), max(pair[1] for pair in values.values())
    return Interval(
        centre=low if low == high and math.isfinite(low) else None,
        low=ends[0] if math.isfinite(ends[0]) else None,
        high=ends[1] if math.isfinite(ends[1]) else None,
        values=exact,
        kind="median",
    )
