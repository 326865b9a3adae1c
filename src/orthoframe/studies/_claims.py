"""What decides a study: claims, and how intervals over seeds support or refute them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy import stats

Decision = Literal["supported", "not supported", "inconclusive"]
TIMES = ("epochs_to_of", "time_to_of")
"""Quantities that are None where they were not reached: longer than the run, and nobody knows how much."""
POSITIVE = (*TIMES, "delta_of", "delta_etf", "delta_predicted", "beta_nc", "part_left")
"""Never negative, and spread over orders of magnitude: their intervals are those of the logarithm."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Claim:
    """A sentence, and the threshold that decides it, fixed before the runs that it is decided on.

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
            raise ValueError("a claim has a threshold: at_most, at_least or both")

    @property
    def rule(self) -> str:
        """The threshold in words."""
        what = self.quantity
        if self.versus is not None:
            against = ", ".join(f"{name} {value}" for name, value in self.versus.items())
            what = f"{what}, {self.how} to {against},"
        least = None if self.at_least is None else f"at least {self.at_least:g}"
        most = None if self.at_most is None else f"at most {self.at_most:g}"
        return f"{what} {' and '.join(bound for bound in (least, most) if bound)}"

    def decide(self, interval: "Interval") -> Decision:
        """What one interval says."""
        low, high = interval.low, interval.high
        if math.isnan(low) or math.isnan(high):
            return "inconclusive"
        least = -math.inf if self.at_least is None else self.at_least
        most = math.inf if self.at_most is None else self.at_most
        if high < least or low > most:
            return "not supported"
        return "supported" if least <= low and high <= most else "inconclusive"


@dataclass(frozen=True)
class Interval:
    """Where a mean over seeds is, with 95 % confidence.

    Attributes:
        mean: nan if some of the values are known by bounds only.
        low: nan with one seed.
        high: nan with one seed; infinite if some value may be.
        values: Of each seed; nan where it is known by bounds only.
    """

    mean: float
    low: float
    high: float
    values: tuple[float, ...]


Bounds = tuple[float, float]
"""What is known of a value: the smallest and the largest that it can be."""


def interval(values: Sequence[float | Bounds], *, logarithm: bool = False) -> Interval:
    """Student's interval of the mean; of ratios, times and distances, that of the logarithm (a geometric mean).

    Of values that are known by bounds only, it goes from the low end of the interval of the lower bounds to the high
    end of that of the upper bounds.

    Examples:
        >>> found = interval([1.0, 2.0, 3.0])
        >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
        (2.0, -0.484, 4.484)
        >>> found = interval([(40.0, math.inf), (40.0, math.inf)], logarithm=True)  # not reached in 40 epochs
        >>> round(found.low), found.high
        (40, inf)
    """
    bounds = [value if isinstance(value, tuple) else (float(value), float(value)) for value in values]
    known = tuple(low if low == high else math.nan for low, high in bounds)
    if not bounds or any(math.isnan(end) for pair in bounds for end in pair):
        return Interval(math.nan, math.nan, math.nan, known)
    mean, low, _ = _student([pair[0] for pair in bounds], logarithm)
    _, _, high = _student([pair[1] for pair in bounds], logarithm)
    exact = not any(math.isnan(value) for value in known)
    return Interval(mean if exact else math.nan, low, high, known)


def _student(values: list[float], logarithm: bool) -> tuple[float, float, float]:
    """The mean and the ends of its interval."""
    if logarithm and min(values) <= 0:  # what is known from below by 0 only, or a distance that is exactly 0
        values, logarithm = ([0.0, 0.0], False) if max(values) <= 0 else ([max(value, 1e-16) for value in values], True)
    if not all(map(math.isfinite, values)):
        return math.inf, math.inf, math.inf
    shown = [math.log(value) for value in values] if logarithm else values
    back = math.exp if logarithm else float
    n, mean = len(shown), math.fsum(shown) / len(shown)
    if n == 1:
        return back(mean), math.nan, math.nan
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in shown) / (n - 1))
    half = float(stats.t.ppf((1 + _CONFIDENCE) / 2, n - 1)) * spread / math.sqrt(n)
    return back(mean), back(mean - half), back(min(mean + half, 700.0) if logarithm else mean + half)


def together(decisions: Sequence[Decision]) -> Decision:
    """Supported if all are; not supported if one is not."""
    if "not supported" in decisions:
        return "not supported"
    return "supported" if decisions and set(decisions) == {"supported"} else "inconclusive"
