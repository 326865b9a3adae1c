"""Claims, and the intervals over seeds that decide them."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

OF = 0.1  # features count as an orthogonal frame (OF) when Delta_GM is at most this
# Quantities that are None where the frame was not reached: the time is longer than the run, by an unknown amount.
TIMES = ("epochs_to_of", "time_to_of")
# Never negative, and spread over orders of magnitude: their intervals are those of the logarithm.
POSITIVE = (*TIMES, "delta_of", "delta_etf", "delta_predicted", "beta_nc", "relative_gap")
_CONFIDENCE = 0.95

Bounds = tuple[float, float]  # what is known of a value: the smallest and the largest that it can be


class Decision(StrEnum):
    """What results say about a claim, from the worst to the best for it.

    Attributes:
        status: Its colour on a page: `good`, `wait` or `bad`.
        agreement: Whether the claim agrees with what was found, in a word.
    """

    NOT_SUPPORTED = "not supported", "bad", "no"
    INCONCLUSIVE = "inconclusive", "wait", "undecided"
    SUPPORTED = "supported", "good", "yes"

    status: str
    agreement: str

    def __new__(cls, word: str, status: str, agreement: str) -> "Decision":
        member = str.__new__(cls, word)
        member._value_ = word
        member.status, member.agreement = status, agreement
        return member

    @classmethod
    def of_all(cls, decisions: Sequence["Decision"]) -> "Decision":
        """The worst; inconclusive if there are none."""
        return min(decisions, key=list(cls).index, default=cls.INCONCLUSIVE)


@dataclass(frozen=True)
class Interval:
    """The 95 % confidence interval of a mean over seeds.

    Attributes:
        mean: None if some of the values are known by bounds only.
        low: None if it is not known, as with one seed.
        high: None if it is not known, or, where `low` is, if there is no upper bound.
        values: By seed; None where the value is known by bounds only.
    """

    mean: float | None
    low: float | None
    high: float | None
    values: Mapping[int, float | None]

    @property
    def known(self) -> list[float]:
        """The values that are known."""
        return [value for value in self.values.values() if value is not None]

    @property
    def missing(self) -> int:
        """How many seeds did not reach the quantity."""
        return len(self.values) - len(self.known)


@dataclass(frozen=True)
class Claim:
    """A sentence, and the threshold that decides it, fixed before the runs that it is decided on.

    For each cell that agrees with `where`, the mean over seeds of a quantity must keep to the threshold; with `versus`,
    the mean of its ratio or difference, seed by seed, to the cell with these other coordinates that is otherwise alike.

    Attributes:
        text: The sentence.
        source: Where it comes from, such as `paper` or `our theory`.
        quantity: A name in `final` of the results.
        where: Coordinates of the cells that decide; a tuple allows several values.
        versus: Coordinates of the cell to compare with.
        how: Whether to compare by ratio or by difference.
        at_most: The largest mean that is allowed.
        at_least: The smallest; one of the two is given, or both.
    """

    text: str
    source: str
    quantity: str
    where: Mapping[str, Any]
    versus: Mapping[str, Any] | None = None
    how: Literal["ratio", "difference"] = "ratio"
    at_most: float | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        if self.at_most is None and self.at_least is None:
            raise ValueError("a claim needs a threshold: at_most, at_least or both")

    def decide(self, found: Interval) -> Decision:
        """What one interval says."""
        if found.low is None:
            return Decision.INCONCLUSIVE
        high = math.inf if found.high is None else found.high
        least = -math.inf if self.at_least is None else self.at_least
        most = math.inf if self.at_most is None else self.at_most
        if high < least or found.low > most:
            return Decision.NOT_SUPPORTED
        return Decision.SUPPORTED if least <= found.low and high <= most else Decision.INCONCLUSIVE


def reaches_frame(text: str, source: str, **where: Any) -> Claim:
    """A claim that the cells at these coordinates end at the orthogonal frame."""
    return Claim(text, source, "delta_of", where, at_most=OF)


def misses_frame(text: str, source: str, **where: Any) -> Claim:
    """A claim that the cells at these coordinates do not end at the orthogonal frame."""
    return Claim(text, source, "delta_of", where, at_least=OF)


def faster(text: str, source: str, where: Mapping[str, Any], *, versus: Mapping[str, Any]) -> Claim:
    """A claim that cells need fewer epochs to the frame than those that they are compared with."""
    return Claim(text, source, "epochs_to_of", where, versus=versus, at_most=1.0)


def agrees(where: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether coordinates are those that are wanted; a tuple or list allows several values.

    Examples:
        >>> agrees({"ratio": 10, "data": "digits"}, {"ratio": (10, 100)})
        True
    """
    return all(
        name in where and where[name] in (value if isinstance(value, tuple | list) else (value,))
        for name, value in wanted.items()
    )


def interval(values: Mapping[int, float | Bounds], *, logarithm: bool = False) -> Interval:
    """Student's interval of the mean; with `logarithm` that of the logarithm, around a geometric mean.

    If some values are known by bounds only, it goes from the low end of the interval of the lower bounds to the high
    end of that of the upper bounds.

    Args:
        values: By seed.
        logarithm: For ratios, times and distances.

    Examples:
        >>> found = interval({0: 1.0, 1: 2.0, 2: 3.0})
        >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
        (2.0, -0.484, 4.484)
        >>> found = interval({0: (40.0, math.inf), 1: (40.0, math.inf)}, logarithm=True)  # not reached in 40 epochs
        >>> round(found.low), found.high
        (40, None)
    """
    bounds = {seed: value if isinstance(value, tuple) else (value, value) for seed, value in values.items()}
    known = {seed: _finite(low) if low == high else None for seed, (low, high) in bounds.items()}
    if not bounds or any(math.isnan(end) for pair in bounds.values() for end in pair):
        return Interval(None, None, None, known)
    mean, low, _ = _student([pair[0] for pair in bounds.values()], logarithm)
    _, _, high = _student([pair[1] for pair in bounds.values()], logarithm)
    return Interval(None if None in known.values() else _finite(mean), _finite(low), _finite(high), known)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _student(values: list[float], logarithm: bool) -> tuple[float, float, float]:
    """The mean and the ends of its interval."""
    from scipy import stats  # a second to load

    if logarithm and min(values) <= 0:  # known from below by 0 only, or a distance that is exactly 0
        values, logarithm = ([0.0, 0.0], False) if max(values) <= 0 else ([max(value, 1e-16) for value in values], True)
    if not all(map(math.isfinite, values)):
        return math.inf, math.inf, math.inf
    shown = [math.log(value) for value in values] if logarithm else values
    back = math.exp if logarithm else float
    n, mean = len(shown), statistics.fmean(shown)
    if n == 1:
        return back(mean), math.nan, math.nan
    half = float(stats.t.ppf((1 + _CONFIDENCE) / 2, n - 1)) * statistics.stdev(shown) / math.sqrt(n)
    return back(mean), back(mean - half), back(min(mean + half, 700.0) if logarithm else mean + half)


def mean_of(values: Sequence[float], *, geometric: bool = False) -> float:
    """The arithmetic or geometric mean.

    Examples:
        >>> mean_of([1.0, 3.0]), round(mean_of([1.0, 100.0], geometric=True), 9)
        (2.0, 10.0)
    """
    return statistics.geometric_mean(values) if geometric else statistics.fmean(values)
