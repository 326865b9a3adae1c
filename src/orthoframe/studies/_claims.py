"""What decides a study: claims, and how intervals over seeds support or refute them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy import stats

Decision = Literal["supported", "not supported", "inconclusive"]
TIMES = ("epochs_to_of", "time_to_of")
"""Quantities that are None, and infinite for a claim, where they were not reached."""
POSITIVE = (*TIMES, "delta_of", "delta_etf", "delta_predicted", "beta_nc")
"""Never negative, and spread over orders of magnitude: their intervals are those of the logarithm."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Claim:
    """A sentence, and the threshold that decides it, fixed before anything is run.

    For each cell that agrees with `where`, the mean over seeds of a quantity (or, with `versus`, of its ratio or
    difference to the cell that has these other coordinates and is alike else, seed by seed) must keep to the threshold.

    Attributes:
        text: The sentence.
        source: Where it comes from, such as `paper` or `our theory`.
        quantity: A name in `final` of the results.
        where: Coordinates of the cells that decide; a tuple allows several values.
        versus: Coordinates of the cell to compare with.
        how: Whether to compare by ratio or by difference.
        at_most: The largest mean that is allowed.
        at_least: The smallest; one of the two is given.
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
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("a claim has one threshold: at_most or at_least")

    @property
    def rule(self) -> str:
        """The threshold in words."""
        what = self.quantity
        if self.versus is not None:
            against = ", ".join(f"{name} {value}" for name, value in self.versus.items())
            what = f"{what}, {self.how} to {against},"
        return f"{what} at most {self.at_most:g}" if self.at_most is not None else f"{what} at least {self.at_least:g}"

    def decide(self, interval: "Interval") -> Decision:
        """What one interval says."""
        low, high = interval.low, interval.high
        if math.isnan(low) or math.isnan(high):
            return "inconclusive"
        if self.at_most is not None:
            return "supported" if high <= self.at_most else "not supported" if low > self.at_most else "inconclusive"
        assert self.at_least is not None
        return "supported" if low >= self.at_least else "not supported" if high < self.at_least else "inconclusive"


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and where it is with 95 % confidence; nan where that cannot be said."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]


def interval(values: Sequence[float], *, logarithm: bool = False) -> Interval:
    """Student's interval of the mean; of ratios, times and distances, that of the logarithm.

    A time that was never reached is infinite. If all are, so is the interval; if some are, nothing can be said.

    Example:
        >>> found = interval([1.0, 2.0, 3.0])
        >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
        (2.0, -0.484, 4.484)
        >>> interval([math.inf, math.inf]).low
        inf
    """
    given = tuple(map(float, values))
    if given and all(value == math.inf for value in given):
        return Interval(math.inf, math.inf, math.inf, given)
    if not given or not all(map(math.isfinite, given)):
        return Interval(math.nan, math.nan, math.nan, given)
    shown = [math.log(max(value, 1e-300)) for value in given] if logarithm else list(given)
    back = math.exp if logarithm else float
    n, mean = len(shown), math.fsum(shown) / len(shown)
    if n == 1:
        return Interval(back(mean), math.nan, math.nan, given)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in shown) / (n - 1))
    half = float(stats.t.ppf((1 + _CONFIDENCE) / 2, n - 1)) * spread / math.sqrt(n)
    return Interval(back(mean), back(mean - half), back(mean + half), given)


def together(decisions: Sequence[Decision]) -> Decision:
    """Supported if all are; not supported if one is not."""
    if "not supported" in decisions:
        return "not supported"
    return "supported" if decisions and set(decisions) == {"supported"} else "inconclusive"
