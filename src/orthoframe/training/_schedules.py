"""What changes from the first epoch to the last: the temperature, and the weights and margins of a loss."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Ramp:
    """A number that changes evenly from the first epoch to the last.

    Examples:
        >>> [Ramp(0.0, 0.5).at(epoch, 3) for epoch in range(3)]
        [0.0, 0.25, 0.5]
    """

    first: float
    last: float

    @classmethod
    def of(cls, given: "Ramp | float | Sequence[float]") -> Self:
        """From a schedule, a single number, or the first and the last."""
        if isinstance(given, cls):
            return given
        first, last = given if isinstance(given, Sequence) and len(given) == 2 else (given, given)
        return cls(first, last)  # type: ignore[arg-type]  # whatever it is, `Settings.check` looks at it

    @property
    def constant(self) -> bool:
        """Whether it does not change."""
        return self.first == self.last

    @property
    def largest(self) -> float:
        """Its largest value."""
        return max(self.first, self.last)

    def at(self, epoch: int, epochs: int) -> float:
        """The number of an epoch, counted from 0; a single epoch has the last."""
        return self._between(epoch / (epochs - 1) if epochs > 1 else 1.0)

    def to_json(self) -> float | list[float]:
        """A number, or a list of the first and the last."""
        return self.first if self.constant else [self.first, self.last]

    def _between(self, done: float) -> float:
        return self.first + (self.last - self.first) * done


@dataclass(frozen=True)
class TemperatureSchedule(Ramp):
    """A temperature that changes evenly, in its logarithm, from the first epoch to the last.

    Examples:
        >>> schedule = TemperatureSchedule(0.1, 0.4)
        >>> [round(schedule.at(epoch, 3), 3) for epoch in range(3)]
        [0.1, 0.2, 0.4]
    """

    def _between(self, done: float) -> float:
        low, high = sorted((self.first, self.last))
        # Rounding must not lead out of the range, which may end where temperatures are refused.
        return min(max(low, self.first * math.pow(self.last / self.first, done)), high)
