"""Whether a run was still on its way when it ended."""

import math
from collections.abc import Sequence
from typing import Any, Literal

Trend = Literal["falling", "slow", "stalled"]

# Exponents of the summed learning rate: twice as many epochs would take off a fifth, or 3 per cent.
_FALLING, _SLOW = 0.3, 0.05
# The end of a run is the last fifth of its summed learning rate.
_END = 0.2


def travelled(rows: Sequence[dict[str, Any]]) -> float | None:
    """How far the loss has gone from its value for features that are all alike, 0, to its floor, 1.

    Args:
        rows: Rows of `metrics.csv`.

    Returns:
        That part at the last row; None if the loss has no floor.
    """
    parts = _gaps(rows)
    return 1.0 - parts[-1][1] if parts and parts[-1][0] == len(rows) - 1 else None


def trend(rows: Sequence[dict[str, Any]], column: str, settle: float) -> Trend:
    """How a column falls at the end of a run, as a power of the summed learning rate.

    Epochs in which the learning rate is nearly zero move nothing, and say nothing of what more epochs would do.

    Args:
        rows: Rows of `metrics.csv`.
        column: One of its columns, where it is known; `gap` is taken as a part of the way to the floor.
        settle: The last part of the epochs, in which images are shown as they are and the learning rate starts anew.

    Returns:
        `falling` too if there are fewer than two values, for nothing shows that it does not.
    """
    sums, total = [], 0.0
    for number, row in enumerate(rows):
        total += row.get("lr", 1.0) * (row["epoch"] - (rows[number - 1]["epoch"] if number else 0))
        sums.append(total)
    if column == "gap":
        known = [(sums[number], part) for number, part in _gaps(rows)]
    else:
        known = [(done, row[column]) for done, row in zip(sums, rows, strict=True) if _is_number(row.get(column))]
    if len(known) < 2:
        return "falling"
    # Before the settling images were augmented: values from there are others.
    turn = (1.0 - settle) * rows[-1]["epoch"]
    before_settling = max((done for done, row in zip(sums, rows, strict=True) if row["epoch"] <= turn), default=0.0)
    phase = total - (before_settling if settle > 0 else 0.0)
    start = total - min(_END * total, phase / 2)
    (then, before), (now, last) = ([entry for entry in known[:-1] if entry[0] <= start] or known[:1])[-1], known[-1]
    if not (math.isfinite(before) and math.isfinite(last) and before > 0 and last > 0):
        return "stalled"
    if not now > then > 0:
        return "falling"
    exponent = math.log(before / last) / math.log(now / then)
    return "falling" if exponent >= _FALLING else "slow" if exponent >= _SLOW else "stalled"


def _gaps(rows: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    """Where it is known, the gap as a part of the way from features that are all alike to the floor."""
    return [
        (number, row["gap"] / (row["collapsed"] - row["floor"]))
        for number, row in enumerate(rows)
        if all(_is_number(row.get(name)) for name in ("gap", "collapsed", "floor")) and row["collapsed"] > row["floor"]
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, float)
