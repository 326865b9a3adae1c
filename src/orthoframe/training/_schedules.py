"""What changes on the way: the temperature, the learning rate."""

import math
from dataclasses import dataclass

DECAYS = ("cosine", "thirds")
"""How the learning rate falls."""

_WARM_UP = 0.05  # the part of the steps in which the learning rate rises


@dataclass(frozen=True)
class Temperature:
    """A temperature that stays, or changes evenly, in its logarithm, from the first epoch to the last.

    Examples:
        >>> schedule = Temperature.of("0.1->0.4")
        >>> [round(schedule.at(epoch, 3), 3) for epoch in range(3)]
        [0.1, 0.2, 0.4]
    """

    first: float
    last: float

    @classmethod
    def of(cls, given: str | float) -> "Temperature":
        """Read `0.1`, or a schedule such as `0.1->0.5`, which may be written `0.1:0.5`.

        Raises:
            ValueError: For anything else.
        """
        text = str(given)
        parts = text.replace("->", ":").split(":")
        try:
            values = [float(part) for part in parts]
        except ValueError:
            values = []
        if len(values) not in (1, 2) or not all(0 < value < math.inf for value in values):
            # What is left of 0.1->0.5 in a shell, which writes to a file 0.5 instead.
            quotes = "; a shell takes > for itself unless it is in quotes" if text.endswith("-") else ""
            raise ValueError(
                "--temperature must be a positive number or a schedule such as '0.1->0.5' (with the quotes) or "
                f"0.1:0.5, not {text!r}{quotes}"
            )
        return cls(values[0], values[-1])

    def at(self, epoch: int, epochs: int) -> float:
        """The temperature of an epoch."""
        part = epoch / (epochs - 1) if epochs > 1 else 1.0
        return self.first if self.first == self.last else self.first * (self.last / self.first) ** part


def learning_rate(lr: float, decay: str, part: float, settle: float) -> float:
    """The learning rate after a part of all steps.

    A cosine rises in the first twentieth, then falls. Where the images are no longer augmented the decay starts anew.

    Args:
        lr: Its largest value.
        decay: One of `DECAYS`.
        part: From 0, before the first step, to below 1.
        settle: The last part of the steps, in which it falls once more.

    Examples:
        >>> [round(learning_rate(1.0, "cosine", part, settle=0.4), 2) for part in (0.0, 0.05, 0.3, 0.599, 0.6, 0.8)]
        [0.0, 0.98, 0.5, 0.0, 1.0, 0.5]
    """
    turn = 1.0 - settle
    phase = part / turn if part < turn else (part - turn) / settle
    if decay == "thirds":
        return lr * 0.1 ** math.floor(3 * phase)
    return lr * min(1.0, part / _WARM_UP) * 0.5 * (1 + math.cos(math.pi * phase))
