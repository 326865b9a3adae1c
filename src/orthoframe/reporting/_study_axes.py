"""A panel of a study's figure, and the legends below panels, drawn with matplotlib."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from orthoframe.reporting._format import GREY, INK, LINE, MUTED, short
from orthoframe.reporting._study_layout import Chart, Line, bar
from orthoframe.reporting._study_words import NOT_REACHED, for_matplotlib

TYPE = 9.5
"""The font size, in points."""
_MARKS = ("o", "s", "D", "v", "P", "X")
_DASHES = ("-", "--", ":", "-.")
_ENTRY = 0.21  # height of a line of a legend, in inches


def draw_panel(axes: Axes, found: Chart, width: float) -> None:
    """Draw a panel that is `width` inches wide."""
    title = for_matplotlib(textwrap.fill(found.title, int(width * 11.2)))
    axes.set_title(title, fontsize=TYPE + 0.5, color=INK, loc="left", pad=8)
    if not found.lines:
        axes.text(0.5, 0.5, "no values", ha="center", va="center", color=MUTED, fontsize=TYPE)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color("#d0d7de")
        return
    if found.log_x:
        axes.set_xscale("log", nonpositive="mask")
    if found.log_y:
        axes.set_yscale("log", nonpositive="mask")
    axes.set_xlim(found.x_limits)
    axes.set_ylim(found.y_limits)
    if found.level is not None and found.y_limits[0] <= found.level <= found.y_limits[1]:
        axes.axhline(found.level, color=MUTED, linestyle=(0, (4, 3)), linewidth=1.0, zorder=1)
        right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left"}
        axes.text(1.015, found.level, short(found.level), fontsize=TYPE - 1.5, color=MUTED, **right)
    for number, line in enumerate(found.lines):
        if found.curves:
            _curves(axes, line)
        else:
            _points(axes, line, found, 3 + number / 100)
    _finish(axes, found, width)


def _look(line: Line) -> tuple[str, str]:
    """Mark and dash of a line."""
    kind = line.style.kind
    return _MARKS[kind % len(_MARKS)], _DASHES[kind % len(_DASHES)]


def _curves(axes: Axes, line: Line) -> None:
    mark, dash = _look(line)
    colour = line.style.colour
    if line.band is not None:
        places, low, high = line.band
        axes.fill_between(places, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    wide = 1.7 if len(line.paths) == 1 else 0.9
    for places, values in line.paths:
        alone = mark if len(places) == 1 else None
        axes.plot(places, values, color=colour, linestyle=dash, linewidth=wide, marker=alone, zorder=3)


def _points(axes: Axes, line: Line, found: Chart, order: float) -> None:
    mark, dash = _look(line)
    colour = line.style.colour
    _seeds(axes, line, order)
    # A mean that is not known breaks the line: nan does that.
    means = [math.nan if point.found.mean is None else point.found.mean for point in line.points]
    places = [point.x for point in line.points]
    if found.joined:
        axes.plot(places, means, color=colour, linestyle=dash, linewidth=1.4, zorder=order)
    for point in line.points:
        ends = bar(point.found, found.log_y)
        if ends is None:
            continue
        low, high, falls = ends
        axes.plot([point.x] * 2, [low, high], color=colour, linewidth=1.4, solid_capstyle="butt", zorder=order)
        if falls:
            axes.plot([point.x], [low], color=colour, marker="v", markersize=4.5, markeredgewidth=0, zorder=order)
    face: dict[str, Any] = {"markerfacecolor": colour, "markeredgecolor": "white", "markeredgewidth": 0.7}
    axes.plot(places, means, linestyle="none", marker=mark, markersize=6.5, zorder=order + 0.005, **face)
    for point in line.points:
        if point.found.missing and found.top is not None:
            _not_reached(axes, point.edge, found.top, colour, point.found.missing, len(point.found.values))


def _seeds(axes: Axes, line: Line, order: float) -> None:
    """Every seed, a little to the left of the mean and its bar."""
    many = [point for point in line.points if len(point.found.values) > 1]
    places = [point.x for point in many for _ in point.found.known]
    values = [value for point in many for value in point.found.known]
    assert axes.figure is not None
    left = axes.transData + ScaledTranslation(-5 / 72, 0, axes.figure.dpi_scale_trans)
    style: dict[str, Any] = {"marker": _look(line)[0], "markersize": 3, "markeredgewidth": 0, "alpha": 0.45}
    axes.plot(places, values, color=line.style.colour, linestyle="none", transform=left, zorder=order, **style)


def _not_reached(axes: Axes, place: float, top: float, colour: str, missing: int, seeds: int) -> None:
    """An open triangle at the top; with the number of seeds if it is not all of them."""
    style: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": 1.3}
    axes.plot([place], [top], linestyle="none", marker="^", markersize=7, zorder=4, **style)
    if missing < seeds:
        below: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top", "color": colour}
        axes.annotate(f"{missing}/{seeds}", (place, top), (0, -5), fontsize=TYPE - 3, **below)


def _finish(axes: Axes, found: Chart, width: float) -> None:
    axes.set_xlabel(for_matplotlib(found.x_title, 60), fontsize=TYPE, color=INK)
    axes.set_ylabel(for_matplotlib(textwrap.fill(found.y_title, 36)), fontsize=TYPE, color=INK)
    axes.tick_params(labelsize=TYPE - 1, colors=INK, which="both", length=3, color=GREY)
    axes.grid(color=LINE, linewidth=0.8, which="major", axis="both" if found.curves or found.joined else "y")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    set_ticks(axes.yaxis, found.log_y, found.y_limits)
    if found.ticks:
        _named(axes, found, int((width - 0.9) * 14.4 / len(found.ticks)))
    else:
        set_ticks(axes.xaxis, found.log_x, found.x_limits, whole=found.curves and found.x_title == "epoch")


def _named(axes: Axes, found: Chart, letters: int) -> None:
    """Names of places, wrapped after `letters` letters; or turned where a word is longer than that."""
    names = [name if len(name) <= 24 else f"{name[:23]}…" for _, name in found.ticks]
    turned = not found.joined and max(len(word) for name in names for word in (name.split() or [""])) > letters
    if not (turned or found.joined):
        names = [textwrap.fill(name, letters) for name in names]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([place for place, _ in found.ticks], [for_matplotlib(name) for name in names])
    if turned:
        axes.tick_params(axis="x", rotation=28)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")


def set_ticks(axis: Any, log: bool, limits: tuple[float, float], whole: bool = False) -> None:
    """Ticks that suit a linear or logarithmic axis with these limits."""
    if not log:
        axis.set_major_locator(MaxNLocator(6, integer=whole, steps=[1, 2, 2.5, 5, 10]))
        return
    decades = math.log10(limits[1] / limits[0])
    plain = limits[0] > 5e-4 and limits[1] < 1e5
    if decades > 1.8:
        axis.set_major_locator(LogLocator(10, numticks=8))
        axis.set_minor_locator(LogLocator(10, subs=range(2, 10), numticks=99) if decades < 6 else NullLocator())
    else:
        powers = range(math.floor(math.log10(limits[0])), math.ceil(math.log10(limits[1])) + 1)
        axis.set_major_locator(FixedLocator([digit * 10.0**power for power in powers for digit in (1, 2, 5)]))
        axis.set_minor_locator(NullLocator())
    if plain or decades <= 1.8:
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_formatter(NullFormatter())


@dataclass(frozen=True)
class Legend:
    """A legend: its title and entries, the panels that it is below, its columns and rows."""

    title: str
    entries: tuple[tuple[str, Line2D], ...]
    first: int
    last: int
    columns: int
    rows: int

    @property
    def height(self) -> float:
        """In inches."""
        return _ENTRY * (self.rows + (self.rows > 1 and bool(self.title))) + 0.05


def legends_below(row: Sequence[Chart], width: float) -> list[Legend]:
    """The legends of a row of panels, each `width` inches wide; neighbours share one that tells the lines of both."""
    runs: list[list[Chart]] = []
    for found in row:
        if runs and _one_legend([*runs[-1], found]):
            runs[-1].append(found)
        else:
            runs.append([found])
    legends, first = [], 0
    for run in runs:
        fullest = max(run, key=lambda found: (bool(found.legend), len(found.lines)))
        missing = any(found.top is not None for found in run)
        legends.append(_legend(fullest, missing, first, first + len(run), width * len(run)))
        first += len(run)
    return [legend for legend in legends if legend.entries]


def _one_legend(run: Sequence[Chart]) -> bool:
    """Whether one panel has the lines of all of them; a panel without a legend has nothing to say."""
    told = [found for found in run if found.legend]
    styles = [{line.style for line in found.lines} for found in told]
    return len({found.legend for found in told}) <= 1 and max(styles, key=len, default=set()) == set().union(*styles)


def _legend(found: Chart, missing: bool, first: int, last: int, width: float) -> Legend:
    entries = [(for_matplotlib(line.style.label, 40), _handle(found, line)) for line in found.lines]
    if not found.legend:
        entries = []
    if missing:
        style: dict[str, Any] = {"marker": "^", "markersize": 7, "markerfacecolor": "none", "markeredgecolor": MUTED}
        entries.append((NOT_REACHED, Line2D([], [], linestyle="none", **style)))
    title = for_matplotlib(found.legend, 40)
    inches = [0.066 * len(text) + 0.4 for text, _ in entries]
    room = width - 0.3
    if sum(inches) + 0.066 * len(title) + 0.3 <= room:
        return Legend(title, tuple(entries), first, last, max(1, len(entries)), min(1, len(entries)))
    rows = math.ceil(len(entries) / max(1, int(room / max(inches))))
    return Legend(title, tuple(entries), first, last, math.ceil(len(entries) / rows), rows)


def _handle(found: Chart, line: Line) -> Line2D:
    mark, dash = _look(line)
    style: dict[str, Any] = {"color": line.style.colour, "linestyle": dash, "linewidth": 1.7}
    if not found.curves:
        style |= {"marker": mark, "markersize": 6, "markeredgecolor": "white", "markeredgewidth": 0.7}
        style["linestyle"] = dash if found.joined else "none"
    return Line2D([], [], **style)


def draw_legend(axes: Axes, legend: Legend) -> None:
    """Draw a legend into axes that hold nothing else."""
    axes.set_axis_off()
    entries = list(legend.entries)
    above = legend.rows > 1 and legend.title
    if legend.title and not above:
        entries.insert(0, (f"{legend.title}:", Line2D([], [], linestyle="none")))
    axes.legend(
        [mark for _, mark in entries],
        [text for text, _ in entries],
        title=legend.title if above else None,
        title_fontsize=TYPE - 1,
        ncols=legend.columns + (len(entries) > len(legend.entries)),
        loc="upper center",
        frameon=False,
        fontsize=TYPE - 1,
        labelcolor=INK,
        borderaxespad=0,
        borderpad=0.1,
        handlelength=1.6,
        columnspacing=1.2,
        handletextpad=0.5,
        labelspacing=0.35,
    )
