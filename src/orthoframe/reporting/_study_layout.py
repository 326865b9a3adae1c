"""The layout of a study's panel: lines, points, colours and limits; `_study_axes` draws it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from orthoframe.reporting._study_words import (
    coordinate_words,
    is_number,
    quantity_words,
    value_words,
    where_words,
)
from orthoframe.studies import CellResult, Interval, Panel, StudyResult, agrees, mean_of

Limits = tuple[float, float]
Path = tuple[tuple[float, ...], tuple[float, ...]]
Band = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]

# Okabe and Ito's, without the yellow that white paper swallows.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#4d4d4d", "#8c510a")
# From light to dark, for numbers.
_GROWING = ("#fdb42f", "#ed7953", "#cc4778", "#9c179e", "#5c01a6", "#0d0887")


@dataclass(frozen=True)
class Style:
    """How a line looks; `kind` is the number of its mark and dash."""

    label: str
    colour: str
    kind: int


@dataclass(frozen=True)
class Point:
    """A cell: where it is drawn, and its numbers.

    Attributes:
        edge: Where its mark is at the top, if it was not reached.
    """

    x: float
    name: str
    found: Interval
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
        curves: Whether lines are curves along epochs or time.
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


def lay_out(study: StudyResult, panel: Panel) -> Chart:
    """Lay out a panel of a study."""
    x, quantity, log_y = panel.x, panel.quantity, "y" in panel.log
    curves = x in ("epoch", "time")
    shows = _has_curve if curves else _has_point
    cells = [cell for cell in study.cells if agrees(cell.where, panel.where) and shows(cell, panel)]
    names = _telling(cells, list(panel.lines), None if curves else x)
    places = [] if curves else coordinate_values(cells, x)
    numeric = len(places) > 1 and all(map(is_number, places))
    # Categories have the colours that they have as lines of another panel.
    coloured = not names and not numeric and any(x in other.lines for other in study.panels)
    names = [x] if coloured else names
    groups: dict[tuple[Any, ...], list[CellResult]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell.where.get(name) for name in names), []).append(cell)
    legend, looks = styles(study.cells, list(groups), names)
    log_x = "x" in panel.log and (curves or (numeric and min(places) > 0))
    ticks: dict[str, tuple[float, str]] = {}
    if curves:
        lines = [_curve_line(looks[key], group, panel) for key, group in groups.items()]
        limits = limits_of([place for line in lines for path in line.paths for place in path[0]], log_x, 0.02)
    else:
        limits = limits_of(places, log_x, 0.06) if numeric else (-0.5, max(len(places), 1) - 0.5)
        ticks = {
            repr(place): (float(place) if numeric else float(number), value_words(place))
            for number, place in enumerate(places)
        }
        dodge = _Dodge(1 if coloured else len(groups), limits, numeric, log_x)
        lines = [
            _point_line(looks[key], group, panel, ticks, dodge, 0 if coloured else number)
            for number, (key, group) in enumerate(groups.items())
        ]
    y_limits, top = _vertical(lines, panel.level, log_y)
    named = len(places) <= 7 and (log_x or _even(places)) if numeric else True
    return Chart(
        title=panel.title,
        x_title=coordinate_words(x),
        y_title=quantity_words(quantity),
        legend="" if coloured else legend,
        lines=tuple(lines),
        curves=curves,
        ticks=tuple(ticks.values()) if named else (),
        joined=numeric,
        log_x=log_x,
        log_y=log_y,
        level=panel.level,
        x_limits=limits,
        y_limits=y_limits,
        top=top,
    )


def bar(found: Interval, log: bool) -> tuple[float, float, bool] | None:
    """The ends of an interval as an axis can show them, and whether it goes on below what a logarithm can show."""
    if found.mean is None or found.low is None or found.high is None:
        return None
    if not log or found.low > 0:
        return found.low, found.high, False
    positive = [value for value in found.known if value > 0]
    return (min(positive) / 1.5, found.high, True) if positive else None


def coordinate_values(cells: Sequence[CellResult], name: str) -> list[Any]:
    """The values of a coordinate: numbers by size, others in the order of the grid."""
    found: list[Any] = []
    for cell in cells:
        if name in cell.where and cell.where[name] not in found:
            found.append(cell.where[name])
    return sorted(found) if all(map(is_number, found)) else found


def styles(
    cells: Sequence[CellResult], keys: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> tuple[str, dict[tuple[Any, ...], Style]]:
    """How the lines of a panel look: a value has the same look in all panels of a study.

    Args:
        cells: All cells of the study, which decide the colours.
        keys: The values of the coordinates that tell lines apart.
        names: These coordinates.

    Returns:
        What the labels are, and the style by key. The coordinate with most values here has the colours, the others
        have marks and dashes, and so do values beyond the colours that there are.
    """
    telling = [place for place in range(len(names)) if len({repr(key[place]) for key in keys}) > 1]
    if not telling:
        label = value_words(keys[0][0]) if keys and names else ""
        return "", {key: Style(label, _COLOURS[0], 0) for key in keys}
    first = max(telling, key=lambda place: len({repr(key[place]) for key in keys}))
    colours = _palette(coordinate_values(cells, names[first]))
    kinds: list[str] = []
    found = {}
    for key in keys:
        colour, before = colours.get(repr(key[first]), (_COLOURS[-1], 0))
        rest = repr([before, *(key[place] for place in telling if place != first)])
        if rest not in kinds:
            kinds.append(rest)
        told = {names[place]: key[place] for place in telling}
        label = value_words(key[first]) if len(telling) == 1 else where_words(told)
        found[key] = Style(label, colour, kinds.index(rest))
    return ", ".join(coordinate_words(names[place]) for place in telling), found


def _palette(values: Sequence[Any]) -> dict[str, tuple[str, int]]:
    """A colour for each value, and how many values before it have the same one."""
    n = len(values)
    if n > 2 and all(map(is_number, values)):
        last = len(_GROWING) - 1
        colours = [_GROWING[round(place * last / (n - 1))] for place in range(n)]
    else:
        colours = [_COLOURS[place % len(_COLOURS)] for place in range(n)]
    return {repr(value): (colours[place], colours[:place].count(colours[place])) for place, value in enumerate(values)}


def _telling(cells: Sequence[CellResult], names: list[str], x: str | None) -> list[str]:
    """The coordinates that have lines: those asked for, and others where cells would fall on one another."""
    while True:
        seen: dict[str, Mapping[str, Any]] = {}
        for cell in cells:
            key = repr([cell.where.get(name) for name in ([*names, x] if x else names)])
            other = seen.setdefault(key, cell.where)
            differing = [name for name in {**other, **cell.where} if other.get(name) != cell.where.get(name)]
            if differing:
                names = [*names, differing[0]]
                break
        else:
            return names


def _has_curve(cell: CellResult, panel: Panel) -> bool:
    return any(_shown(cell, panel))


def _has_point(cell: CellResult, panel: Panel) -> bool:
    found = cell.over_seeds(panel.quantity)
    shown = any(value > 0 or "y" not in panel.log for value in found.known)
    return panel.x in cell.where and (shown or found.missing > 0)


def _shown(cell: CellResult, panel: Panel) -> list[dict[float, float]]:
    """The curves of the seeds: the points that the axes can show."""
    return [
        {
            place: value
            for place, value in points.items()
            if (value > 0 or "y" not in panel.log) and (place > 0 or "x" not in panel.log)
        }
        for points in cell.curves(panel.x, panel.quantity)
    ]


def _curve_line(style: Style, cells: Sequence[CellResult], panel: Panel) -> Line:
    seeds = [points for cell in cells for points in _shown(cell, panel) if points]
    places = tuple(seeds[0])
    if any(tuple(points) != places for points in seeds):
        return Line(style, paths=tuple((tuple(points), tuple(points.values())) for points in seeds))
    columns = [[points[place] for points in seeds] for place in places]
    mean = tuple(mean_of(column, geometric="y" in panel.log) for column in columns)
    band = (places, tuple(map(min, columns)), tuple(map(max, columns))) if len(seeds) > 1 else None
    return Line(style, paths=((places, mean),), band=band)


def _point_line(
    style: Style,
    cells: Sequence[CellResult],
    panel: Panel,
    ticks: Mapping[str, tuple[float, str]],
    dodge: "_Dodge",
    number: int,
) -> Line:
    points = []
    for cell in cells:
        place, name = ticks[repr(cell.where[panel.x])]
        spot, edge = dodge(place, number, min(0.008, 0.04 / dodge.lines)), dodge(place, number, 0.03)
        points.append(Point(spot, name, cell.over_seeds(panel.quantity), edge))
    return Line(style, points=tuple(sorted(points, key=lambda point: point.x)))


@dataclass(frozen=True)
class _Dodge:
    """Moves lines beside their place, so that they do not cover one another."""

    lines: int
    limits: Limits
    numeric: bool
    log: bool

    def __call__(self, place: float, number: int, step: float) -> float:
        """The place for line `number`; `step` is the part of the axis between two lines."""
        if not self.numeric:
            return place + 0.7 * ((number + 0.5) / self.lines - 0.5)
        part, (low, high) = step * (number - (self.lines - 1) / 2), self.limits
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


def _even(places: Sequence[float]) -> bool:
    """Whether the names of these places would be far enough from one another."""
    return min(after - before for before, after in pairwise(places)) * 8 >= places[-1] - places[0]


def _vertical(lines: Sequence[Line], level: float | None, log: bool) -> tuple[Limits, float | None]:
    """Limits of the vertical axis, and the place above all values for times that were not reached."""
    firm = [value for line in lines for path in line.paths for value in path[1]]
    firm += [value for line in lines if line.band for band in line.band[1:] for value in band]
    firm += [value for line in lines for point in line.points for value in point.found.known]
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
