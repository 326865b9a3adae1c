"""The cells of a study: which of them a picture shows, and their numbers over seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orthoframe.reporting._study_words import NOT_REACHED, interval_words


@dataclass(frozen=True)
class Summary:
    """A quantity of a cell over seeds; None where it cannot be said."""

    mean: float | None
    low: float | None
    high: float | None
    values: tuple[float, ...]  # of seeds that have one
    missing: int  # seeds that did not reach it

    @property
    def seeds(self) -> int:
        """How many say something."""
        return len(self.values) + self.missing


def chosen(cells: Sequence[Mapping[str, Any]], where: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Cells with these coordinates; a list allows several values."""
    return [cell for cell in cells if all(_allows(cell["where"], name, wanted) for name, wanted in where.items())]


def _allows(where: Mapping[str, Any], name: str, wanted: Any) -> bool:
    return name in where and where[name] in (wanted if isinstance(wanted, list | tuple) else [wanted])


def summary(cell: Mapping[str, Any], quantity: str) -> Summary:
    """A quantity of a cell over seeds, as the study took it."""
    found = (cell.get("summary") or {}).get(quantity)
    if found is None:
        return Summary(None, None, None, (), 0)
    values = tuple(float(value) for value in found["values"].values() if value is not None)
    missing = len(found["values"]) - len(values)
    if missing:
        return Summary(None, None, None, values, missing)
    return Summary(found["mean"], found["low"], found["high"], values, 0)


def summary_words(found: Summary, quantity: str) -> str:
    """A field of a table."""
    if found.missing:
        return f"{NOT_REACHED} by {found.missing} of {found.seeds}" if found.values else NOT_REACHED
    if quantity in ("certified", "foretold") and found.values:
        return f"{sum(found.values):.0f} of {found.seeds}"
    return interval_words(found.mean, found.low, found.high)


def coordinates(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """The coordinates that some cell has, in their order."""
    return list(dict.fromkeys(name for cell in cells for name in cell["where"]))


def coordinate_values(cells: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """The values of a coordinate: numbers by size, others in the order of the grid."""
    found: list[Any] = []
    for cell in cells:
        if name in cell["where"] and cell["where"][name] not in found:
            found.append(cell["where"][name])
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)
    return sorted(found) if numbers else found


def curve(result: Mapping[str, Any], x: str, y: str, log: str) -> dict[float, float]:
    """One seed's curve: the points that are known, and that the axes can show."""
    found = result.get("curve") or {}
    points = {}
    for place, value in zip(found.get(x) or [], found.get(y) or [], strict=False):
        if place is None or value is None or not math.isfinite(value):
            continue
        if (value > 0 or "y" not in log) and (place > 0 or "x" not in log):
            points[float(place)] = float(value)
    return points
