"""The layout of a study's panel: lines, points and limits, for whatever draws them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orthoframe.reporting._study_cells import Summary, chosen, coordinate_values, curve, summary
from orthoframe.reporting._study_places import Beside, Limits, even, limits_of
from orthoframe.reporting._study_style import Style, styles
from orthoframe.reporting._study_words import coordinate_words, is_number, quantity_words, value_words

Path = tuple[tuple[float, ...], tuple[float, ...]]
Band = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Point:
    """A cell: where it is drawn, and its numbers.

    Attributes:
        left: A little beside it, where its seeds are seen.
        edge: Where its mark is at the top, if it was not reached.
    """

    x: float
    name: str
    found: Summary
    left: float
    edge: float


@dataclass(frozen=True)
class Line:
    """A line of a panel: points, or curves.

    Attributes:
        paths: The mean over seeds; each seed's own curve if they were not measured at the same places.
        band: Places, smallest and largest of the seeds; None with one seed.
    """

    style: Style
    points: tuple[Point, ...] = ()
    paths: tuple[Path, ...] = ()
    band: Band | None = None


@dataclass(frozen=True)
class Chart:
    """A panel, ready to be drawn.

    Attributes:
        legend: What the labels of the lines are.
        ticks: Places and names on the horizontal axis; empty for an axis of numbers.
        joined: Whether points are joined.
        top: Where times are drawn that were not reached; None if there are none.
    """

    title: str
    x_title: str
    y_title: str
    legend: str
    lines: tuple[Line, ...]
    curves: bool
    ticks: tuple[tuple[float, str], ...]
    joined: bool
    log_x: bool
    log_y: bool
    level: float | None
    x_limits: Limits
    y_limits: Limits
    top: float | None


def chart(study: Mapping[str, Any], panel: Mapping[str, Any]) -> Chart:
    """Lay out a panel of a study."""
    x, quantity, log = panel["x"], panel["quantity"], panel.get("log") or ""
    curves = x in ("epoch", "time")
    cells = chosen(study["cells"], panel.get("where") or {})
    cells = [cell for cell in cells if (_curved(cell, x, quantity, log) if curves else _placed(cell, x, quantity, log))]
    names = _telling(cells, list(panel.get("lines") or ()), None if curves else x)
    places = [] if curves else coordinate_values(cells, x)
    numeric = len(places) > 1 and all(map(is_number, places))
    # Categories have the colours that they have as lines of another picture.
    coloured = not names and not numeric and any(x in other.get("lines", ()) for other in study["panels"])
    names = [x] if coloured else names
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell["where"].get(name) for name in names), []).append(cell)
    legend, looks = styles(study["cells"], list(groups), names)
    log_x = "x" in log and (curves or (numeric and min(places) > 0))
    if curves:
        lines = [_curves(looks[key], group, x, quantity, log) for key, group in groups.items()]
        limits = limits_of([place for line in lines for path in line.paths for place in path[0]], log_x, 0.02)
    else:
        limits = limits_of(places, log_x, 0.06) if numeric else (-0.5, max(len(places), 1) - 0.5)
        at = {repr(place): float(place) if numeric else float(number) for number, place in enumerate(places)}
        beside = Beside(1 if coloured else len(groups), limits, numeric, log_x)
        lines = [
            _points(looks[key], group, x, quantity, at, beside, 0 if coloured else number)
            for number, (key, group) in enumerate(groups.items())
        ]
    y_limits, top = _vertical(lines, panel.get("level"), "y" in log)
    few = numeric and len(places) <= 7 and (log_x or even(places))
    return Chart(
        title=panel["title"],
        x_title=coordinate_words(x),
        y_title=quantity_words(quantity),
        legend="" if coloured else legend,
        lines=tuple(lines),
        curves=curves,
        ticks=tuple((at[repr(place)], value_words(place)) for place in places)
        if few or not (curves or numeric)
        else (),
        joined=numeric,
        log_x=log_x,
        log_y="y" in log,
        level=panel.get("level"),
        x_limits=limits,
        y_limits=y_limits,
        top=top,
    )


def bar(found: Summary, log: bool) -> tuple[float, float, bool] | None:
    """The ends of an interval as an axis can show them, and whether it goes down to what a logarithm has not."""
    if found.mean is None or found.low is None or found.high is None:
        return None
    if not log or found.low > 0:
        return found.low, found.high, False
    positive = [value for value in found.values if value > 0]
    return (min(positive) / 1.5, found.high, True) if positive else None


def _telling(cells: Sequence[Mapping[str, Any]], names: list[str], x: str | None) -> list[str]:
    """The coordinates that have lines: those asked for, and others where cells would fall on one another."""
    while True:
        seen: dict[str, Mapping[str, Any]] = {}
        for cell in cells:
            where = cell["where"]
            key = repr([where.get(name) for name in ([*names, x] if x else names)])
            other = seen.setdefault(key, where)
            differing = [name for name in {**other, **where} if other.get(name) != where.get(name)]
            if differing:
                names = [*names, differing[0]]
                break
        else:
            return names


def _curves(style: Style, cells: Sequence[Mapping[str, Any]], x: str, quantity: str, log: str) -> Line:
    seeds = [curve(result, x, quantity, log) for cell in cells for _, result in sorted(cell["results"].items())]
    seeds = [points for points in seeds if points]
    if not seeds:
        return Line(style)
    places = tuple(seeds[0])
    if any(tuple(points) != places for points in seeds):
        return Line(style, paths=tuple((tuple(points), tuple(points.values())) for points in seeds))
    columns = [[points[place] for points in seeds] for place in places]
    mean = tuple(_mean(column, "y" in log) for column in columns)
    band = (places, tuple(map(min, columns)), tuple(map(max, columns))) if len(seeds) > 1 else None
    return Line(style, paths=((places, mean),), band=band)


def _mean(values: Sequence[float], geometric: bool) -> float:
    if geometric:
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


def _curved(cell: Mapping[str, Any], x: str, quantity: str, log: str) -> bool:
    return any(curve(result, x, quantity, log) for result in cell["results"].values())


def _placed(cell: Mapping[str, Any], x: str, quantity: str, log: str) -> bool:
    """Whether a cell has something that the axes can show."""
    found = summary(cell, quantity)
    shown = any(value > 0 or "y" not in log for value in found.values)
    return x in cell["where"] and (shown or found.missing > 0)


def _points(
    style: Style,
    cells: Sequence[Mapping[str, Any]],
    x: str,
    quantity: str,
    at: Mapping[str, float],
    beside: Beside,
    number: int,
) -> Line:
    points = []
    for cell in cells:
        place = cell["where"][x]
        here, name = at[repr(place)], value_words(place)
        spot, edge = beside(here, number, min(0.008, 0.04 / beside.lines)), beside(here, number, 0.03)
        points.append(Point(spot, name, summary(cell, quantity), beside.moved(spot, -0.018), edge))
    return Line(style, points=tuple(sorted(points, key=lambda point: point.x)))


def _vertical(lines: Sequence[Line], level: float | None, log: bool) -> tuple[Limits, float | None]:
    """Limits of the vertical axis; and where above all values is place for times that were not reached."""
    firm = [value for line in lines for path in line.paths for value in path[1]]
    firm += [value for line in lines if line.band for band in line.band[1:] for value in band]
    firm += [value for line in lines for point in line.points for value in point.found.values]
    firm += [] if level is None else [level]
    bars = [bar(point.found, log) for line in lines for point in line.points]
    ends = [end for ends in bars if ends is not None for end in ends[:2]]
    if firm and log:
        # An interval may be wide, but not press the values into a corner.
        positive = [value for value in firm if value > 0] or [1.0]
        ends = [end for end in ends if min(positive) / 4 <= end <= max(positive) * 4]
    elif firm:
        reach = max(firm) - min(firm) or abs(firm[0])
        ends = [min(max(end, min(firm) - reach), max(firm) + reach) for end in ends]
    low, high = limits_of([*firm, *ends], log, 0.06)
    if not any(point.found.missing for line in lines for point in line.points):
        return (low, high), None
    if log:
        return (low, high * (high / low) ** 0.16), high * (high / low) ** 0.08
    return (low, high + 0.16 * (high - low)), high + 0.08 * (high - low)
