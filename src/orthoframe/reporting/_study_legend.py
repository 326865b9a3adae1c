"""Legends below the panels of a study; neighbours share one that tells the lines of both."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from orthoframe.reporting._study_axes import INK, QUIET, TYPE, look
from orthoframe.reporting._study_chart import Chart
from orthoframe.reporting._study_words import NOT_REACHED, for_matplotlib

_ENTRY = 0.21  # inches of a line of it


@dataclass(frozen=True)
class Legend:
    """A legend: its title and entries, the panels that it is below, and its rows."""

    title: str
    entries: tuple[tuple[str, Line2D], ...]
    first: int
    last: int
    columns: int
    rows: int

    @property
    def height(self) -> float:
        """Inches."""
        return _ENTRY * (self.rows + (self.rows > 1 and bool(self.title))) + 0.05


def legends_below(row: Sequence[Chart], width: float) -> list[Legend]:
    """The legends of a row of panels that are so many inches wide."""
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
    """Whether the lines of one panel are those of all, or more; a panel without a legend has nothing to say."""
    told = [found for found in run if found.legend]
    styles = [{line.style for line in found.lines} for found in told]
    return len({found.legend for found in told}) <= 1 and max(styles, key=len, default=set()) == set().union(*styles)


def _legend(found: Chart, missing: bool, first: int, last: int, width: float) -> Legend:
    entries = [(for_matplotlib(line.style.label, 40), _handle(found, line)) for line in found.lines]
    if not found.legend:
        entries = []
    if missing:
        style: dict[str, Any] = {"marker": "^", "markersize": 7, "markerfacecolor": "none", "markeredgecolor": QUIET}
        entries.append((NOT_REACHED, Line2D([], [], linestyle="none", **style)))
    title = for_matplotlib(found.legend, 40)
    inches = [0.066 * len(text) + 0.4 for text, _ in entries]
    room = width - 0.3
    if sum(inches) + 0.066 * len(title) + 0.3 <= room:
        return Legend(title, tuple(entries), first, last, max(1, len(entries)), min(1, len(entries)))
    rows = math.ceil(len(entries) / max(1, int(room / max(inches))))
    return Legend(title, tuple(entries), first, last, math.ceil(len(entries) / rows), rows)


def _handle(found: Chart, line: Any) -> Line2D:
    mark, dash = look(line)
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
