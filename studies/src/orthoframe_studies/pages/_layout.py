"""The layout of a study's figure: lines, points, colours, limits and legends; `_study_figure` draws it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from orthoframe_studies import CellResult, Interval, Panel, StudyResult, agrees
from orthoframe_studies.pages._words import (
    NOT_REACHED,
    coordinate_words,
    for_matplotlib,
    is_number,
    quantity_words,
    value_words,
    where_words,
)

Limits = tuple[float, float]
Path = tuple[tuple[float, ...], tuple[float, ...]]
Band = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]

# Okabe and Ito's, without the yellow that white paper swallows.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#4d4d4d", "#8c510a")
# From light to dark, for numbers.
_GROWING = ("#fdb42f", "#ed7953", "#cc4778", "#9c179e", "#5c01a6", "#0d0887")
_MARKS = ("o", "s", "D", "v", "P", "X")
_DASHES = ("-", "--", ":", "-.")
_ENTRY, _LETTER = 0.21, 0.066  # height of a line of a legend and width of a letter in it, in inches


@dataclass(frozen=True)
class Style:
    """How a line looks; marks and dashes as matplotlib names them."""

    label: str
    colour: str
    mark: str = _MARKS[0]
    dash: str = _DASHES[0]


@dataclass(frozen=True)
class Point:
    """A cell: where it is drawn, and its numbers."""

    x: float
    found: Interval
    bar: tuple[float, float] | None  # the ends of the interval that the axis can show
    falls: bool  # whether the interval goes on below them
    edge: float  # where its mark is at the top, if it was not reached


@dataclass(frozen=True)
class Line:
    """A line of a panel: points, or curves."""

    style: Style
    points: tuple[Point, ...] = ()
    paths: tuple[Path, ...] = ()  # the mean over seeds; each seed's own if they were not measured at the same places
    band: Band | None = None  # places, smallest and largest of the seeds; None with one seed


@dataclass(frozen=True)
class Chart:
    """A panel, ready to be drawn."""

    title: str
    x_title: str
    y_title: str
    legend: str  # what the labels of the lines are
    lines: tuple[Line, ...]
    curves: bool  # along epochs or time
    ticks: tuple[tuple[float, str], ...]  # places and names on the horizontal axis; empty for an axis of numbers
    joined: bool  # whether points are
    log_x: bool
    log_y: bool
    level: float | None
    x_limits: Limits
    y_limits: Limits
    top: float | None  # where times are drawn that were not reached; None if there are none


@dataclass(frozen=True)
class Legend:
    """The legend of neighbouring panels, `first` up to but not `last` of their row."""

    chart: Chart  # the panel whose lines it tells
    title: str
    entries: tuple[tuple[str, Line | None], ...]  # None: what was not reached
    first: int
    last: int
    rows: int

    @property
    def height(self) -> float:
        """In inches."""
        return _ENTRY * (self.rows + (self.rows > 1 and bool(self.title))) + 0.05


def lay_out(study: StudyResult, panel: Panel) -> Chart:
    """Lay out a panel of a study."""
    x, log_y = panel.x, "y" in panel.log
    curves = x in ("epoch", "time")
    shows = _shown if curves else _has_point
    cells = [cell for cell in study.cells if agrees(cell.where, panel.where) and shows(cell, panel)]
    names = _telling(cells, list(panel.lines), None if curves else x)
    places = [] if curves else _coordinate_values(cells, x)
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
        lines = [_curve_line(looks[key], cell, panel) for key, (cell,) in groups.items()]  # one cell per key
        limits = limits_of([place for line in lines for path in line.paths for place in path[0]], log_x, 0.02)
    else:
        limits = limits_of(places, log_x, 0.06) if numeric else (-0.5, max(len(places), 1) - 0.5)
        spots = places if numeric else range(len(places))
        ticks = {repr(place): (float(spot), value_words(place)) for place, spot in zip(places, spots, strict=True)}
        lines = []
        for number, (key, group) in enumerate(groups.items()):
            # Lines stand side by side at each place, and marks of what was not reached further apart.
            steps = (min(0.008, 0.04 / len(groups)), 0.03) if numeric else (0.7 / len(groups) / len(places),) * 2
            aside = 0.0 if coloured else number - (len(groups) - 1) / 2
            points = []
            for cell in group:
                place, found = ticks[repr(cell.where[x])][0], cell.over_seeds(panel.quantity)
                spot, edge = [_moved(place, step * aside, limits, log_x) for step in steps]
                points.append(Point(spot, found, *_bar(found, log_y), edge))
            lines.append(Line(looks[key], points=tuple(sorted(points, key=lambda point: point.x))))
    y_limits, top = _vertical(lines, panel.level, log_y)
    # Names of numbers need room between them.
    even = numeric and min(after - before for before, after in pairwise(places)) * 8 >= places[-1] - places[0]
    named = not numeric or (len(places) <= 7 and (log_x or even))
    return Chart(
        title=panel.title,
        x_title=coordinate_words(x),
        y_title=quantity_words(panel.quantity),
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


def styles(
    cells: Sequence[CellResult], keys: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> tuple[str, dict[tuple[Any, ...], Style]]:
    """What the labels of lines are, and a style for each key: its values of the coordinates `names`.

    A value has the same look in all panels of a study, which has these cells. The coordinate with most values here has
    the colours; the others have marks and dashes, and so do values beyond the colours that there are.
    """
    telling = [place for place in range(len(names)) if len({repr(key[place]) for key in keys}) > 1]
    if not telling:
        label = value_words(keys[0][0]) if keys and names else ""
        return "", {key: Style(label, _COLOURS[0]) for key in keys}
    first = max(telling, key=lambda place: len({repr(key[place]) for key in keys}))
    colours = _palette(_coordinate_values(cells, names[first]))
    kinds: dict[str, int] = {}
    found = {}
    for key in keys:
        colour, before = colours.get(repr(key[first]), (_COLOURS[-1], 0))
        rest = repr([before, *(key[place] for place in telling if place != first)])
        kind = kinds.setdefault(rest, len(kinds))
        told = {names[place]: key[place] for place in telling}
        label = value_words(key[first]) if len(telling) == 1 else where_words(told)
        found[key] = Style(label, colour, _MARKS[kind % len(_MARKS)], _DASHES[kind % len(_DASHES)])
    return ", ".join(coordinate_words(names[place]) for place in telling), found


def _coordinate_values(cells: Sequence[CellResult], name: str) -> list[Any]:
    """The values of a coordinate: numbers by size, others in the order of the grid."""
    found: list[Any] = []
    for cell in cells:
        if name in cell.where and cell.where[name] not in found:
            found.append(cell.where[name])
    return sorted(found) if all(map(is_number, found)) else found


def _palette(values: Sequence[Any]) -> dict[str, tuple[str, int]]:
    """A colour for each value, and how many values before it have the same one."""
    n = len(values)
    if n > 2 and all(map(is_number, values)):
        colours = [_GROWING[round(place * (len(_GROWING) - 1) / (n - 1))] for place in range(n)]
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


def _has_point(cell: CellResult, panel: Panel) -> bool:
    found = cell.over_seeds(panel.quantity)
    shown = any(value > 0 or "y" not in panel.log for value in found.known)
    return panel.x in cell.where and (shown or found.missing > 0)


def _shown(cell: CellResult, panel: Panel) -> list[dict[float, float]]:
    """The curves of the seeds that have points which the axes can show."""
    return [points for points in cell.curves(panel.x, panel.quantity, panel.log) if points]


def _curve_line(style: Style, cell: CellResult, panel: Panel) -> Line:
    seeds, found = _shown(cell, panel), cell.median_curve(panel.x, panel.quantity, panel.log)
    if found is None:
        return Line(style, paths=tuple((tuple(points), tuple(points.values())) for points in seeds))
    places, (mean, low, high) = tuple(found), zip(*found.values(), strict=True)
    return Line(style, paths=((places, mean),), band=(places, low, high) if len(seeds) > 1 else None)


def _bar(found: Interval, log: bool) -> tuple[tuple[float, float] | None, bool]:
    """The ends of an interval as an axis can show them, and whether it goes on below what a logarithm can show."""
    if found.centre is None or found.low is None or found.high is None:
        return None, False
    if not log or found.low > 0:
        return (found.low, found.high), False
    positive = [value for value in found.known if value > 0]
    return ((min(positive) / 1.5, found.high), True) if positive else (None, False)


def _moved(place: float, part: float, limits: Limits, log: bool) -> float:
    """A place moved along the axis by a part of it."""
    low, high = limits
    return float(place * (high / low) ** part) if log else place + (high - low) * part


def limits_of(values: Iterable[float], log: bool, room: float, right: float | None = None) -> Limits:
    """From the smallest to the largest, with some room, a part of the axis; `right` at the upper end, if it differs."""
    shown = [value for value in values if value > 0 or not log]
    if not shown:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(shown), max(shown)
    right = room if right is None else right
    if log:
        # At least half a decade, or rounding would look like a mountain range.
        decades = math.log10(high / low)
        least = (0.5 - decades) / 2
        return low / 10 ** max(decades * room, least), high * 10 ** max(decades * right, least)
    if low == high:
        low, high = low - (abs(low) * 0.2 or 1.0), high + (abs(high) * 0.2 or 1.0)
    return low - (high - low) * room, high + (high - low) * right


def _vertical(lines: Sequence[Line], level: float | None, log: bool) -> tuple[Limits, float | None]:
    """Limits of the vertical axis, and the place above all values for times that were not reached."""
    points = [point for line in lines for point in line.points]
    firm = [value for line in lines for path in line.paths for value in path[1]]
    firm += [value for line in lines if line.band for edge in line.band[1:] for value in edge]
    firm += [value for point in points for value in point.found.known]
    firm += [] if level is None else [level]
    ends = [end for point in points if point.bar for end in point.bar]
    if firm and log:
        # An interval may be wide, but not press the values into a corner.
        positive = [value for value in firm if value > 0] or [1.0]
        ends = [end for end in ends if min(positive) / 4 <= end <= max(positive) * 4]
    elif firm:
        reach = max(firm) - min(firm) or abs(firm[0])
        ends = [min(max(end, min(firm) - reach), max(firm) + reach) for end in ends]
    limits = limits_of([*firm, *ends], log, 0.06)
    if not any(point.found.missing for point in points):
        return limits, None
    return (limits[0], _moved(limits[1], 0.16, limits, log)), _moved(limits[1], 0.08, limits, log)


def legends_below(row: Sequence[Chart], width: float) -> list[Legend]:
    """The legends of a row of panels, each `width` inches wide; neighbours share one that tells the lines of both."""
    runs: list[list[Chart]] = []
    for chart in row:
        if runs and _one_legend([*runs[-1], chart]):
            runs[-1].append(chart)
        else:
            runs.append([chart])
    firsts = accumulate(map(len, runs), initial=0)
    legends = [_legend(run, first, width * len(run) - 0.3) for run, first in zip(runs, firsts, strict=False)]
    return [legend for legend in legends if legend.entries]


def _one_legend(run: Sequence[Chart]) -> bool:
    """Whether one panel has the lines of all of them; a panel without a legend has nothing to say."""
    told = [chart for chart in run if chart.legend]
    looks = [{line.style for line in chart.lines} for chart in told]
    return len({chart.legend for chart in told}) <= 1 and max(looks, key=len, default=set()) == set().union(*looks)


def _legend(run: Sequence[Chart], first: int, room: float) -> Legend:
    fullest = max(run, key=lambda chart: (bool(chart.legend), len(chart.lines)))
    title = for_matplotlib(fullest.legend, 40)
    entries: list[tuple[str, Line | None]] = []
    if fullest.legend:
        entries += [(for_matplotlib(line.style.label, 40), line) for line in fullest.lines]
    if any(chart.top is not None for chart in run):
        entries.append((NOT_REACHED, None))
    inches = [_LETTER * len(text) + 0.4 for text, _ in entries]
    rows = 1
    if sum(inches) + _LETTER * len(title) + 0.3 > room:
        rows = math.ceil(len(entries) / max(1, int(room / max(inches))))
    return Legend(fullest, title, tuple(entries), first, first + len(run), rows)
