"""The figures of a study: its panels, the intervals of a claim against the threshold, and cosines of class means."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from orthoframe.reporting._figures import draw_cosines, fit_fonts
from orthoframe.reporting._format import GOOD, GREY, INK, LINE, MUTED, short, ticks_around
from orthoframe.reporting._pictures import CosineMap, Cosines
from orthoframe_studies import CellResult, Finding, StudyResult
from orthoframe_studies.pages import _words as words
from orthoframe_studies.pages._layout import Chart, Legend, Limits, Line, lay_out, legends_below, limits_of
from orthoframe_studies.pages._words import for_matplotlib

_TYPE = 9.5  # the font size, in points
# Width of a panel in inches, by panels per row, so that type keeps its size when the row is as wide as a page.
_WIDTHS = {1: 6.4, 2: 4.7, 3: 3.75}
_HEIGHT = 3.3
_ROWS = 40  # comparisons of a claim that are drawn, the worst for it first
_MAPS = 8
_LOOKS = {"good": (GOOD, "o"), "wait": ("#a8690c", "D"), "bad": ("#b83227", "X")}  # of a decision


def study_figure(study: StudyResult) -> Figure:
    """Draw the panels of a study that have values.

    Args:
        study: The result of a study.

    Returns:
        A figure, to be saved with `figure.savefig(path, dpi=160)`.
    """
    charts = [lay_out(study, panel) for panel in study.panels]
    charts = [chart for chart in charts if chart.lines] or charts
    across = 2 if len(charts) in (2, 4) else min(3, max(1, len(charts)))
    width = _WIDTHS[across]
    rows = [charts[start : start + across] for start in range(0, len(charts), across)]
    legends = [legends_below(row, width) for row in rows]
    heights = [height for row in legends for height in (_HEIGHT, max([0.02, *(legend.height for legend in row)]))]
    figure = _figure(width * across, sum(heights) + 0.1)
    if not charts:
        return figure
    grid = figure.add_gridspec(2 * len(rows), across, height_ratios=heights)
    for number, (row, below) in enumerate(zip(rows, legends, strict=True)):
        for column, chart in enumerate(row):
            _draw_panel(figure.add_subplot(grid[2 * number, column]), chart, width)
        for legend in below:
            _draw_legend(figure.add_subplot(grid[2 * number + 1, legend.first : legend.last]), legend)
    return fit_fonts(figure)


def claim_figure(finding: Finding) -> Figure:
    """Draw the intervals of a claim against its threshold, one row per comparison."""
    parts = finding.comparisons if len(finding.comparisons) <= _ROWS else finding.worst_first[:_ROWS]
    bounds = words.limit_words(finding.claim)
    ends = [end for part in parts for end in (part.interval.centre, part.interval.low, part.interval.high)]
    known = [end for end in [*ends, *bounds.values()] if end is not None]
    log = finding.claim.over == "mean" and min(known) > 0 and max(known) / min(known) > 20
    # What is not known is said in words at the right.
    limits = limits_of(known, log, 0.08, 0.3 if any(part.interval.centre is None for part in parts) else 0.08)
    limits = (-0.03, 1.03) if finding.claim.over == "runs" else limits
    figure = _figure(8.6, 0.85 + 0.24 * len(parts))
    axes = figure.add_subplot()
    axes.set(xscale="log" if log else "linear", xlim=limits)
    for row, part in enumerate(parts):
        (ink, mark), found = _LOOKS[part.decision.status], part.interval
        if found.centre is None:
            said = words.interval_words(found, words.NOT_KNOWN)
            right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
            axes.text(0.995, row, said, color=ink, fontsize=_TYPE - 1, **right)
            continue
        if found.low is not None and found.high is not None:
            axes.plot([max(found.low, limits[0]), found.high], [row, row], color=ink, linewidth=1.8)
        axes.plot([found.centre], [row], color=ink, marker=mark, markersize=6.5)
    for word, bound in bounds.items():
        axes.axvline(bound, color=INK, linestyle=(0, (4, 3)), linewidth=1.0, zorder=1)
        above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom"}
        axes.text(bound, 1.01, f"{word} {short(bound)}", color=MUTED, fontsize=_TYPE - 1, **above)
    names = words.varying([part.where for part in parts])
    places = [textwrap.shorten(words.where_words(part.where, names), 60, placeholder="…") for part in parts]
    axes.set_yticks(range(len(parts)), [for_matplotlib(place) for place in places])
    axes.set_ylim(max(1, len(parts)) - 0.4, -0.6)
    axes.set_xlabel(for_matplotlib(textwrap.fill(words.drawn_words(finding.claim), 110)), fontsize=_TYPE, color=INK)
    _set_ticks(axes.xaxis, log, limits)
    _quiet(axes, "x", ["top", "right", "left"])
    return figure


def cosines_figure(cells: Sequence[CellResult]) -> Figure | None:
    """Draw the cosines of class means in the first seed of cells, all or evenly some; None if no cell has them."""
    found = []
    for cell in cells:
        matrices = [result.cosines for _, result in sorted(cell.results.items()) if result.cosines]
        if matrices:
            found.append((cell.where, np.array(matrices[0], dtype=float)))
    if not found:
        return None
    if len(found) > _MAPS:
        found = [found[round(place * (len(found) - 1) / (_MAPS - 1))] for place in range(_MAPS)]
    names = words.varying([where for where, _ in found])
    across = min(4, len(found))
    down = math.ceil(len(found) / across)
    figure = _figure(2.3 * across + 0.5, 2.6 * down)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat[len(found) :]:
        axes.set_axis_off()
    for axes, (where, matrix) in zip(grid.flat, found, strict=False):
        classes = tuple(map(str, range(len(matrix))))
        image = draw_cosines(axes, CosineMap("cosines", classes, (Cosines(matrix),), small=True))
        title = textwrap.fill(words.where_words(where, names), 34)
        axes.set_title(for_matplotlib(title), fontsize=_TYPE - 1, color=INK)
        axes.spines[:].set_color(GREY)
    figure.colorbar(image, ax=grid, shrink=0.6, ticks=[-1, 0, 1]).ax.tick_params(labelsize=_TYPE - 1)
    return figure


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.04))


def _draw_panel(axes: Axes, chart: Chart, width: float) -> None:
    """Draw a panel that is `width` inches wide."""
    title = for_matplotlib(textwrap.fill(chart.title, int(width * 11.2)))
    axes.set_title(title, fontsize=_TYPE + 0.5, color=INK, loc="left", pad=8)
    if not chart.lines:
        axes.text(0.5, 0.5, "no values", ha="center", va="center", color=MUTED, fontsize=_TYPE)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color("#d0d7de")
        return
    if chart.log_x:
        axes.set_xscale("log", nonpositive="mask")
    if chart.log_y:
        axes.set_yscale("log", nonpositive="mask")
    axes.set(xlim=chart.x_limits, ylim=chart.y_limits)
    if chart.level is not None and chart.y_limits[0] <= chart.level <= chart.y_limits[1]:
        axes.axhline(chart.level, color=MUTED, linestyle=(0, (4, 3)), linewidth=1.0, zorder=1)
        right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left"}
        axes.text(1.015, chart.level, short(chart.level), fontsize=_TYPE - 1.5, color=MUTED, **right)
    for number, line in enumerate(chart.lines):
        if chart.curves:
            _draw_curves(axes, line)
        else:
            _draw_points(axes, line, chart, 3 + number / 100)
    axes.set_xlabel(for_matplotlib(chart.x_title, 60), fontsize=_TYPE, color=INK)
    axes.set_ylabel(for_matplotlib(textwrap.fill(chart.y_title, 36)), fontsize=_TYPE, color=INK)
    _quiet(axes, "both" if chart.curves or chart.joined else "y", ["top", "right"])
    _set_ticks(axes.yaxis, chart.log_y, chart.y_limits)
    if chart.ticks:
        _name_ticks(axes, chart, int((width - 0.9) * 14.4 / len(chart.ticks)))
    else:
        _set_ticks(axes.xaxis, chart.log_x, chart.x_limits, whole=chart.curves and chart.x_title == "epoch")


def _draw_curves(axes: Axes, line: Line) -> None:
    style = line.style
    if line.band is not None:
        axes.fill_between(*line.band, color=style.colour, alpha=0.16, linewidth=0, zorder=2)
    wide = 1.7 if len(line.paths) == 1 else 0.9
    for places, values in line.paths:
        alone = style.mark if len(places) == 1 else None
        axes.plot(places, values, color=style.colour, linestyle=style.dash, linewidth=wide, marker=alone, zorder=3)


def _draw_points(axes: Axes, line: Line, chart: Chart, order: float) -> None:
    mark, colour = line.style.mark, line.style.colour
    # Every seed, a little to the left of the mean and its bar.
    assert axes.figure is not None
    left = axes.transData + ScaledTranslation(-5 / 72, 0, axes.figure.dpi_scale_trans)
    many = [(point.x, value) for point in line.points if len(point.found.values) > 1 for value in point.found.known]
    small: dict[str, Any] = {"marker": mark, "markersize": 3, "markeredgewidth": 0, "alpha": 0.45, "transform": left}
    axes.plot([x for x, _ in many], [y for _, y in many], color=colour, linestyle="none", zorder=order, **small)
    # A mean that is not known breaks the line: nan does that.
    means = [math.nan if point.found.centre is None else point.found.centre for point in line.points]
    places = [point.x for point in line.points]
    if chart.joined:
        axes.plot(places, means, color=colour, linestyle=line.style.dash, linewidth=1.4, zorder=order)
    for point in line.points:
        if point.bar is not None:
            axes.plot([point.x] * 2, point.bar, color=colour, linewidth=1.4, solid_capstyle="butt", zorder=order)
        if point.bar is not None and point.falls:
            down: dict[str, Any] = {"marker": "v", "markersize": 4.5, "markeredgewidth": 0}
            axes.plot([point.x], point.bar[:1], color=colour, zorder=order, **down)
    face: dict[str, Any] = {"markerfacecolor": colour, "markeredgecolor": "white", "markeredgewidth": 0.7}
    axes.plot(places, means, linestyle="none", marker=mark, markersize=6.5, zorder=order + 0.005, **face)
    # What was not reached: an open triangle at the top, with the number of seeds if it is not all of them.
    hollow: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": 1.3}
    for point in line.points:
        missing, seeds = point.found.missing, len(point.found.values)
        if not missing or chart.top is None:
            continue
        axes.plot([point.edge], [chart.top], linestyle="none", marker="^", markersize=7, zorder=4, **hollow)
        if missing < seeds:
            below: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top", "color": colour}
            axes.annotate(f"{missing}/{seeds}", (point.edge, chart.top), (0, -5), fontsize=_TYPE - 3, **below)


def _quiet(axes: Axes, grid: Literal["both", "x", "y"], hidden: list[str]) -> None:
    """Thin lines behind what is drawn."""
    axes.tick_params(labelsize=_TYPE - 1, colors=INK, which="both", length=3, color=GREY)
    axes.grid(color=LINE, linewidth=0.8, axis=grid)
    axes.set_axisbelow(True)
    axes.spines[:].set_color(GREY)
    axes.spines[hidden].set_visible(False)


def _name_ticks(axes: Axes, chart: Chart, letters: int) -> None:
    """Names of places, wrapped after `letters` letters; or turned where a word is longer than that."""
    names = [name if len(name) <= 24 else f"{name[:23]}…" for _, name in chart.ticks]
    style: dict[str, Any] = {}
    if not chart.joined and max(len(word) for name in names for word in (name.split() or [""])) > letters:
        style = {"rotation": 28, "ha": "right", "rotation_mode": "anchor"}
    elif not chart.joined:
        names = [textwrap.fill(name, letters) for name in names]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([place for place, _ in chart.ticks], [for_matplotlib(name) for name in names], **style)


def _set_ticks(axis: Any, log: bool, limits: Limits, whole: bool = False) -> None:
    """Ticks that suit a linear or logarithmic axis with these limits."""
    if not log:
        axis.set_major_locator(MaxNLocator(6, integer=whole, steps=[1, 2, 2.5, 5, 10]))
        return
    decades = math.log10(limits[1] / limits[0])
    if decades > 1.8:
        axis.set_major_locator(LogLocator(10, numticks=8))
        axis.set_minor_locator(LogLocator(10, subs=range(2, 10), numticks=99) if decades < 6 else NullLocator())
    else:
        axis.set_major_locator(FixedLocator(ticks_around(*limits)))
        axis.set_minor_locator(NullLocator())
    if decades <= 1.8 or (limits[0] > 5e-4 and limits[1] < 1e5):
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_formatter(NullFormatter())


def _draw_legend(axes: Axes, legend: Legend) -> None:
    """Draw a legend into axes that hold nothing else."""
    axes.set_axis_off()
    entries = [(text, _handle(legend.chart, line)) for text, line in legend.entries]
    columns = math.ceil(len(entries) / legend.rows)
    above = legend.rows > 1 and legend.title
    if legend.title and not above:
        entries.insert(0, (f"{legend.title}:", Line2D([], [], linestyle="none")))
        columns += 1
    axes.legend(
        [mark for _, mark in entries],
        [text for text, _ in entries],
        title=legend.title if above else None,
        title_fontsize=_TYPE - 1,
        ncols=columns,
        loc="upper center",
        frameon=False,
        fontsize=_TYPE - 1,
        labelcolor=INK,
        borderaxespad=0,
        borderpad=0.1,
        handlelength=1.6,
        columnspacing=1.2,
        handletextpad=0.5,
        labelspacing=0.35,
    )


def _handle(chart: Chart, line: Line | None) -> Line2D:
    style: dict[str, Any]
    if line is None:  # what was not reached
        style = {"marker": "^", "markersize": 7, "markerfacecolor": "none", "markeredgecolor": MUTED}
        return Line2D([], [], linestyle="none", **style)
    dash = line.style.dash if chart.curves or chart.joined else "none"
    style = {"color": line.style.colour, "linestyle": dash, "linewidth": 1.7}
    if not chart.curves:
        style |= {"marker": line.style.mark, "markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.7}
    return Line2D([], [], **style)
