"""Places on the axes of a study's panel."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Limits = tuple[float, float]


@dataclass(frozen=True)
class Beside:
    """How far lines stand beside their place, so that they do not cover one another."""

    lines: int
    limits: Limits
    numeric: bool
    log: bool

    def __call__(self, place: float, number: int, step: float) -> float:
        """Where line `number` has a place; `step` is the part of the axis between two lines."""
        if not self.numeric:
            return place + 0.7 * ((number + 0.5) / self.lines - 0.5)
        return self.moved(place, step * (number - (self.lines - 1) / 2))

    def moved(self, place: float, part: float) -> float:
        """A place moved by a part of the axis."""
        low, high = self.limits
        return float(place * (high / low) ** part) if self.log else place + (high - low) * part


def limits_of(values: Iterable[float], log: bool, room: float) -> Limits:
    """From the smallest to the largest, with some room."""
    shown = [value for value in values if value > 0 or not log]
    if not shown:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(shown), max(shown)
    if log:
        # At least half a decade, or rounding would look like a mountain range.
        room = max(math.log10(high / low) * room, (0.5 - math.log10(high / low)) / 2)
        return low / 10**room, high * 10**room
    if low == high:
        low, high = low - (abs(low) * 0.2 or 1.0), high + (abs(high) * 0.2 or 1.0)
    return low - (high - low) * room, high + (high - low) * room


def even(places: Sequence[float]) -> bool:
    """Whether names of these places would stand far enough from one another."""
    steps = [after - before for before, after in pairwise(places)]
    return min(steps) * 8 >= places[-1] - places[0]
