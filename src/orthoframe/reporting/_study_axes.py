"""One panel of a study's picture, drawn with matplotlib."""

import math
import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from orthoframe.reporting._format import short
from orthoframe.reporting._study_chart import Chart, Line, bar
from orthoframe.reporting._study_style import DASHES, MARKS
from orthoframe.reporting._study_words import for_matplotlib

INK, QUIET = "#1f2933", "#5f6b7a"
TYPE = 9.5
"""Size of the letters, in points."""


def draw(axes: Axes, found: Chart, width: float) -> None:
    """Draw a panel that is so many inches wide."""
    title = for_matplotlib(textwrap.fill(found.title, int(width * 11.2)))
    axes.set_title(title, fontsize=TYPE + 0.5, color=INK, loc="left", pad=8)
    if not found.lines:
        axes.text(0.5, 0.5, "no values", ha="center", va="center", color=QUIET, fontsize=TYPE)
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
        axes.axhline(found.level, color=QUIET, linestyle=(0, (4, 3)), linewidth=1.0, zorder=1)
        right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left"}
        axes.text(1.015, found.level, short(found.level), fontsize=TYPE - 1.5, color=QUIET, **right)
    for number, line in enumerate(found.lines):
        if found.curves:
            _curves(axes, line)
        else:
            _points(axes, line, found, 3 + number / 100)
    _finish(axes, found, width)


def look(line: Line) -> tuple[str, str]:
    """Mark and dash of a line."""
    kind = line.style.kind
    return MARKS[kind % len(MARKS)][0], DASHES[kind % len(DASHES)][0]


def _curves(axes: Axes, line: Line) -> None:
    mark, dash = look(line)
    colour = line.style.colour
    if line.band is not None:
        places, low, high = line.band
        axes.fill_between(places, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    wide = 1.7 if len(line.paths) == 1 else 0.9
    for places, values in line.paths:
        alone = mark if len(places) == 1 else None
        axes.plot(places, values, color=colour, linestyle=dash, linewidth=wide, marker=alone, zorder=3)


def _points(axes: Axes, line: Line, found: Chart, order: float) -> None:
    mark, dash = look(line)
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
            _not_reached(axes, point.edge, found.top, colour, point.found.missing, point.found.seeds)


def _seeds(axes: Axes, line: Line, order: float) -> None:
    """Every seed, a little to the left of the mean and its bar."""
    many = [point for point in line.points if point.found.seeds > 1]
    places = [point.x for point in many for _ in point.found.values]
    values = [value for point in many for value in point.found.values]
    assert axes.figure is not None
    left = axes.transData + ScaledTranslation(-5 / 72, 0, axes.figure.dpi_scale_trans)
    style: dict[str, Any] = {"marker": look(line)[0], "markersize": 3, "markeredgewidth": 0, "alpha": 0.45}
    axes.plot(places, values, color=line.style.colour, linestyle="none", transform=left, zorder=order, **style)


def _not_reached(axes: Axes, place: float, top: float, colour: str, missing: int, seeds: int) -> None:
    """An open triangle at the top, with how many of the seeds where it is not all."""
    style: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": 1.3}
    axes.plot([place], [top], linestyle="none", marker="^", markersize=7, zorder=4, **style)
    if missing < seeds:
        below: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top", "color": colour}
        axes.annotate(f"{missing}/{seeds}", (place, top), (0, -5), fontsize=TYPE - 3, **below)


def _finish(axes: Axes, found: Chart, width: float) -> None:
    axes.set_xlabel(for_matplotlib(found.x_title, 60), fontsize=TYPE, color=INK)
    axes.set_ylabel(for_matplotlib(textwrap.fill(found.y_title, 36)), fontsize=TYPE, color=INK)
    axes.tick_params(labelsize=TYPE - 1, colors=INK, which="both", length=3, color="#9aa5b1")
    axes.grid(color="#e3e8ee", linewidth=0.8, which="major", axis="both" if found.curves or found.joined else "y")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#9aa5b1")
    _ticks(axes.yaxis, found.log_y, found.y_limits)
    if found.ticks:
        _named(axes, found, int((width - 0.9) * 14.4 / len(found.ticks)))
    else:
        _ticks(axes.xaxis, found.log_x, found.x_limits, whole=found.curves and found.x_title == "epoch")


def _named(axes: Axes, found: Chart, letters: int) -> None:
    """Names of places: in lines of so many letters, or turned where a word is longer."""
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


def _ticks(axis: Any, log: bool, limits: tuple[float, float], whole: bool = False) -> None:
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
