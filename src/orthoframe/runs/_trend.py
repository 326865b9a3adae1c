"""How a quantity moves in a run: as a power of the summed learning rate."""

import math
from collections.abc import Sequence
from itertools import accumulate

from orthoframe.runs._records import EpochRecord

END = 0.2
"""The end of a run: the last fifth of its summed learning rate."""


def summed_rates(records: Sequence[EpochRecord]) -> list[float]:
    """The learning rate summed over the epochs up to each record: how far the weights can have moved."""
    before = [0, *(record.epoch for record in records[:-1])]
    return list(accumulate(record.lr * (record.epoch - last) for record, last in zip(records, before, strict=True)))


def power_law(sums: Sequence[float], values: Sequence[float | None], start: float) -> float | None:
    """The exponent p of a quantity that falls like `sum ** -p` at the end of a run.

    Epochs in which the learning rate is nearly zero move nothing, so that sums tell more than epochs.

    Args:
        sums: The learning rate summed up to each measurement.
        values: The quantity, or None where it was not measured.
        start: The sum from which the end is counted: the last measurement before it is compared with the very last.

    Returns:
        The exponent, negative for a quantity that rises; None if fewer than two values are known, positive and finite.

    Examples:
        >>> round(power_law([1.0, 50.0, 80.0, 100.0], [1.0, 0.2, 0.125, 0.1], 80.0), 9)  # like 1/t
        1.0
    """
    pairs = zip(sums, values, strict=True)
    measured = [(done, value) for done, value in pairs if value is not None and math.isfinite(value)]
    if len(measured) < 2:
        return None
    early = [entry for entry in measured[:-1] if entry[0] <= start] or measured[:1]
    (first_sum, first), (last_sum, last) = early[-1], measured[-1]
    if not (first > 0 and last > 0 and last_sum > first_sum > 0):
        return None
    return math.log(first / last) / math.log(last_sum / first_sum)
