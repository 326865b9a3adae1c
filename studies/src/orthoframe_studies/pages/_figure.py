"""The figures of a study: its panels, the intervals of a claim against the threshold, and cosines of class means."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from matplotlib.transforms import ScaledTranslation, Transform

from orthoframe.reporting import CosineMap, Cosines, draw_cosines, fit_fonts
from orthoframe.reporting.style import GOOD, GREY, INK, LINE, MUTED, short, ticks_around
from orthoframe_studies import HALF, CellResult, Finding, Interval, Panel, StudyResult
from orthoframe_studies.pages import _words as words
from orthoframe_studies.pages._layout import ALONG, Limits, Line, coordinate_values, is_numeric, limits_of, lines_of
from orthoframe_studies.pages._words import for_matplotlib

_TYPE = 9.5  # the font size, in points
# Width of a panel in inches, by panels per row, so that type keeps its size when the row is as wide as a page.
_WIDTHS = {1: 6.4, 2: 4.7, 3: 3.75}
_HEIGHT = 3.3
_ENTRY, _LETTER = 0.21, 0.066  # height of an entry of a legend and width of a letter, in inches
_NAMED = 7  # more numbers than that are not named one by one
_MAPS = 8
_LOOKS = {"good": (GOOD, "o"), "wait": ("#a8690c", "D"), "bad": ("#b83227", "X")}  # of a decision
_DASHED: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.0, "zorder": 1}
_OPEN: dict[str, Any] = {
    "linestyle": "none",
    "marker": "^",
    "markersize": 7,
    "markerfacecolor": "none",
}  # what was not reached


def study_figure(study: StudyResult) -> Figure:
    """Draw the panels of a study that have values."""
    charts = [(panel, *lines_of(study, panel)) for panel in study.panels]
    charts = [chart for chart in charts if chart[1]]
    across = 2 if len(charts) in (2, 4) else min(3, max(1, len(charts)))
    width = _WIDTHS[across]
    # Each row of panels has a row of legends below it, as high as the highest of them.
    below = [0.05] * max(1, math.ceil(len(charts) / across))
    figure = _figure(width * across, 1.0)
    if not charts:
        figure.text(0.5, 0.5, "no values", ha="center", va="center", color=MUTED, fontsize=_TYPE)
    grid = figure.add_gridspec(2 * len(below), across)
    for number, (panel, lines, legend) in enumerate(charts):
        row, column = divmod(number, across)
        axes = figure.add_subplot(grid[2 * row, column])
        _draw_panel(axes, panel, lines, width)
        height = _draw_legend(figure.add_subplot(grid[2 * row + 1, column]), axes, legend, width)
        below[row] = max(below[row], height)
    heights = [height for legends in below for height in (_HEIGHT, legends)]
    grid.set_height_ratios(heights)
    figure.set_size_inches(width * across, sum(heights) + 0.1)
    return fit_fonts(figure)


def claim_figure(finding: Finding) -> Figure:
    """Draw the intervals of a claim against its threshold, one row per comparison."""
    parts, claim = finding.comparisons, finding.claim
    bounds, measured = words.thresholds(claim), words.measured_words(claim)
    ends = [end for part in parts for end in (part.interval.centre, part.interval.low, part.interval.high)]
    limits = limits_of([end for end in [*ends, *bounds.values()] if end is not None], False, 0.08)
    if claim.over == "runs":
        measured = f"share of the runs with {words.condition_words(claim)}"
        bounds, limits = {"more than": HALF}, (-0.03, 1.03)
    figure = _figure(8.6, 0.85 + 0.24 * len(parts))
    axes = figure.add_subplot()
    axes.set(xlim=limits, ylim=(max(1, len(parts)) - 0.4, -0.6))
    for row, part in enumerate(parts):
        (colour, mark), interval = _LOOKS[part.decision.status], part.interval
        if interval.centre is None:
            right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
            right["bbox"] = {"color": "white", "pad": 1}  # above the threshold
            axes.text(0.995, row, words.NOT_KNOWN, color=colour, fontsize=_TYPE - 1, **right)
            continue
        if interval.low is not None and interval.high is not None:
            axes.plot([interval.low, interval.high], [row, row], color=colour, linewidth=1.8)
        axes.plot([interval.centre], [row], color=colour, marker=mark, markersize=6.5)
    for word, bound in bounds.items():
        axes.axvline(bound, color=INK, **_DASHED)
        above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom"}
        axes.text(bound, 1.01, f"{word} {short(bound)}", color=MUTED, fontsize=_TYPE - 1, **above)
    names = words.varying([part.where for part in parts])
    places = [textwrap.shorten(words.where_words(part.where, names), 60, placeholder="…") for part in parts]
    axes.set_yticks(range(len(parts)), list(map(for_matplotlib, places)))
    axes.set_xlabel(for_matplotlib(textwrap.fill(measured, 110)), fontsize=_TYPE, color=INK)
    _calm(axes, "x", "top", "right", "left")
    return figure


def cosines_figure(cells: Sequence[CellResult]) -> Figure | None:
    """Draw the cosines of class means in the first seed of cells, all or evenly some; None if no cell has them."""
    maps = []
    for cell in cells:
        matrices = [result.cosines for _, result in sorted(cell.results.items()) if result.cosines]
        maps += [(cell.where, np.array(matrix, dtype=float)) for matrix in matrices[:1]]
    if not maps:
        return None
    if len(maps) > _MAPS:
        maps = [maps[round(place * (len(maps) - 1) / (_MAPS - 1))] for place in range(_MAPS)]
    names = words.varying([where for where, _ in maps])
    across = min(4, len(maps))
    down = math.ceil(len(maps) / across)
    figure = _figure(2.3 * across + 0.5, 2.6 * down)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat[len(maps) :]:
        axes.set_axis_off()
    for axes, (where, matrix) in zip(grid.flat, maps, strict=False):
        classes = tuple(map(str, range(len(matrix))))
        image = draw_cosines(axes, CosineMap("cosines", classes, (Cosines(matrix),), small=True))
        title = textwrap.fill(words.where_words(where, names), 30)
        axes.set_title(for_matplotlib(title), fontsize=_TYPE - 1, color=INK)
        axes.spines[:].set_color(GREY)
    figure.colorbar(image, ax=grid, shrink=0.6, ticks=[-1, 0, 1]).ax.tick_params(labelsize=_TYPE - 1)
    return figure


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.04))


def _draw_panel(axes: Axes, panel: Panel, lines: Sequence[Line], width: float) -> None:
    """Draw a panel that is `width` inches wide."""
    title = for_matplotlib(textwrap.fill(panel.title, int(width * 11.2)))
    axes.set_title(title, fontsize=_TYPE + 0.5, color=INK, loc="left", pad=8)
    axes.set_xlabel(for_matplotlib(words.coordinate_words(panel.x), 60), fontsize=_TYPE, color=INK)
    y_title = textwrap.fill(words.quantity_words(panel.quantity), 36)
    axes.set_ylabel(for_matplotlib(y_title), fontsize=_TYPE, color=INK)
    _calm(axes, "both" if panel.x in ALONG else "y", "top", "right")
    if panel.x in ALONG:
        _draw_curves(axes, panel, lines)
    else:
        _draw_points(axes, panel, lines, width)
    if panel.level is not None and axes.get_ylim()[0] <= panel.level <= axes.get_ylim()[1]:
        axes.axhline(panel.level, color=MUTED, **_DASHED)
        right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left"}
        axes.text(1.015, panel.level, short(panel.level), fontsize=_TYPE - 1.5, color=MUTED, **right)


def _draw_curves(axes: Axes, panel: Panel, lines: Sequence[Line]) -> None:
    """Draw medians over seeds, with a band from the smallest to the largest; each seed if their places differ."""
    places: list[float] = []
    values: list[float] = []
    for line in lines:
        (cell,), (colour, mark, dash) = line.cells, line.look
        curves = [curve for curve in cell.curves(panel.x, panel.quantity, panel.log) if curve]
        if over_seeds := cell.median_curve(panel.x, panel.quantity, panel.log):
            median, low, high = zip(*over_seeds.values(), strict=True)
            axes.fill_between(list(over_seeds), low, high, color=colour, alpha=0.16, linewidth=0)
            curves = [dict(zip(over_seeds, median, strict=True))]
            values += [*low, *high]
        style: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 1.7 if len(curves) == 1 else 0.9}
        for number, curve in enumerate(curves):
            name, alone = "" if number else line.label, mark if len(curve) == 1 else None
            axes.plot(list(curve), list(curve.values()), label=name, marker=alone, **style)
            places += curve
            values += curve.values()
    log_x = "x" in panel.log
    _set_axes(axes, panel, log_x, limits_of(places, log_x, 0.02), values)


def _draw_points(axes: Axes, panel: Panel, lines: Sequence[Line], width: float) -> None:
    """Draw means or medians over seeds, the lines side by side."""
    cells = [cell for line in lines for cell in line.cells]
    quantities = [cell.over_seeds(panel.quantity) for cell in cells]
    places = coordinate_values(cells, panel.x)
    numeric = is_numeric(places)
    log_x = numeric and "x" in panel.log and min(places) > 0
    limits = limits_of(places, log_x, 0.07) if numeric else (-0.5, len(places) - 0.5)
    values = [value for over_seeds in quantities for value in over_seeds.known_values]
    unreached = any(over_seeds.missing for over_seeds in quantities)
    _set_axes(axes, panel, log_x, limits, values, above=0.2 if unreached else 0.06)  # it stands above all values
    spots = {repr(place): float(place) if numeric else number for number, place in enumerate(places)}
    gap = min(4.5, 14 / len(lines)) if numeric else 50 * (width - 0.9) / len(places) / len(lines)  # in points
    gap = gap if len(cells) > len(places) else 0.0
    for number, line in enumerate(lines):
        points = {spots[repr(cell.where[panel.x])]: cell.over_seeds(panel.quantity) for cell in line.cells}
        _draw_line(axes, line, dict(sorted(points.items())), gap * (number - (len(lines) - 1) / 2), joined=numeric)
    if unreached:
        axes.plot([], [], color=MUTED, label=words.NOT_REACHED, **_OPEN)
    if not numeric or (log_x and len(places) <= _NAMED):
        names = [for_matplotlib(words.value_words(place), 24) for place in places]
        letters = max(map(len, names)) * len(names)
        long: dict[str, Any] = {"rotation": 28, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(list(spots.values()), names, **(long if not numeric and letters > 14 * (width - 0.9) else {}))
        axes.xaxis.set_minor_locator(NullLocator())


def _draw_line(axes: Axes, line: Line, points: Mapping[float, Interval], aside: float, joined: bool) -> None:
    """Draw a line `aside` points to the right of its places: bars, means, and seeds a little to the left of them."""
    colour, mark, dash = line.look

    def at(base: Transform, points: float) -> dict[str, Any]:
        assert axes.figure is not None
        return {"color": colour, "transform": base + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)}

    here, left, top = at(axes.transData, aside), at(axes.transData, aside - 5), at(axes.get_xaxis_transform(), aside)
    for place, over_seeds in points.items():
        if len(over_seeds.values) > 1:
            small: dict[str, Any] = {"markersize": 3, "markeredgewidth": 0, "alpha": 0.45}
            axes.plot([place] * len(over_seeds.known_values), over_seeds.known_values, mark, **left, **small)
        if over_seeds.centre is not None and over_seeds.low is not None and over_seeds.high is not None:
            axes.plot([place, place], [over_seeds.low, over_seeds.high], linewidth=1.4, **here)
        if over_seeds.missing:
            count = f"{over_seeds.missing}/{len(over_seeds.values)}" if over_seeds.known_values else ""
            axes.plot([place], [0.94], **top, **_OPEN)
            axes.text(place, 0.91, count, ha="center", va="top", fontsize=_TYPE - 3, **top)
    means = [math.nan if each.centre is None else each.centre for each in points.values()]  # nan breaks the line
    face: dict[str, Any] = {"marker": mark, "markersize": 6.5, "markeredgecolor": "white", "markeredgewidth": 0.7}
    dash = dash if joined else "none"
    axes.plot(list(points), means, linestyle=dash, linewidth=1.4, label=line.label, **here, **face)


def _set_axes(
    axes: Axes, panel: Panel, log_x: bool, x_limits: Limits, values: Sequence[float], above: float = 0.06
) -> None:
    """Scales, limits and ticks; the part `above` of the vertical axis is above the largest value."""
    log_y = "y" in panel.log
    y_limits = limits_of([*values, *([] if panel.level is None else [panel.level])], log_y, 0.06, above)
    axes.set(xscale="log" if log_x else "linear", yscale="log" if log_y else "linear", xlim=x_limits, ylim=y_limits)
    _set_ticks(axes.xaxis, log_x, x_limits)
    _set_ticks(axes.yaxis, log_y, y_limits)


def _set_ticks(axis: Axis, log: bool, limits: Limits) -> None:
    """Ticks that suit a linear axis, or a logarithmic one of few decades; matplotlib's suit one of many."""
    if not log:
        axis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=4, steps=[1, 2, 2.5, 5, 10]))
    elif limits[1] < 60 * limits[0]:
        axis.set_major_locator(FixedLocator(ticks_around(*limits)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_locator(NullLocator())


def _calm(axes: Axes, grid: Literal["both", "x", "y"], *hidden: str) -> None:
    """Thin lines behind what is drawn."""
    axes.tick_params(labelsize=_TYPE - 1, colors=INK, which="both", length=3, color=GREY)
    axes.grid(color=LINE, linewidth=0.8, axis=grid)
    axes.set_axisbelow(True)
    axes.spines[:].set_color(GREY)
    axes.spines[list(hidden)].set_visible(False)


def _draw_legend(axes: Axes, panel: Axes, title: str, width: float) -> float:
    """Draw the legend of a panel into axes that hold nothing else; the height that it needs, in inches."""
    axes.set_axis_off()
    handles, labels = panel.get_legend_handles_labels()
    if not labels:
        return 0.0
    columns = max(1, int(width / (_LETTER * max(map(len, labels)) + 0.45)))
    rows = math.ceil(len(labels) / columns)
    columns = math.ceil(len(labels) / rows)
    style: dict[str, Any] = {"title_fontsize": _TYPE - 1, "fontsize": _TYPE - 1, "labelcolor": INK, "frameon": False}
    style |= {"borderaxespad": 0, "borderpad": 0.1, "handlelength": 1.6, "columnspacing": 1.2, "labelspacing": 0.35}
    axes.legend(handles, labels, title=for_matplotlib(title, 60) or None, ncols=columns, loc="upper center", **style)
    return _ENTRY * (rows + bool(title)) + 0.05
