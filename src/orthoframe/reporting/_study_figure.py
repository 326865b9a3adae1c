"""The figures of a study: its panels, the intervals of a claim against the threshold, and cosines of class means."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from orthoframe.reporting._format import GREY, INK, LINE, MUTED, NOTHING, short
from orthoframe.reporting._study_axes import TYPE, draw_legend, draw_panel, legends_below, set_ticks
from orthoframe.reporting._study_layout import lay_out
from orthoframe.reporting._study_words import (
    for_matplotlib,
    interval_words,
    measured_words,
    thresholds,
    varying,
    where_words,
)
from orthoframe.studies import CellResult, Comparison, Finding, StudyResult

# Width of a panel in inches, by panels per row, so that type keeps its size when the row is as wide as a page.
_WIDTHS = {1: 6.4, 2: 4.7, 3: 3.75}
_HEIGHT = 3.3
_ROWS = 40  # comparisons of a claim that are drawn, the worst for it first
_MAPS = 8
_INKS = {"good": "#1a7f5a", "wait": "#a8690c", "bad": "#b83227"}
_MARKS = {"good": "o", "wait": "D", "bad": "X"}


def study_figure(study: StudyResult) -> Figure:
    """Draw the panels of a study.

    Returns:
        A figure, to be saved with `figure.savefig(path, dpi=160)`.
    """
    charts = [lay_out(study, panel) for panel in study.panels]
    across = 2 if len(charts) in (2, 4) else min(3, max(1, len(charts)))
    down = math.ceil(len(charts) / across)
    width = _WIDTHS[across]
    rows = [charts[row * across : (row + 1) * across] for row in range(down)]
    legends = [legends_below(row, width) for row in rows]
    heights = [height for row in legends for height in (_HEIGHT, max([0.02, *(legend.height for legend in row)]))]
    figure = _figure(width * across, sum(heights) + 0.1)
    if not charts:
        return figure
    grid = figure.add_gridspec(2 * down, across, height_ratios=heights)
    for number, (row, below) in enumerate(zip(rows, legends, strict=True)):
        for column, found in enumerate(row):
            draw_panel(figure.add_subplot(grid[2 * number, column]), found, width)
        for legend in below:
            draw_legend(figure.add_subplot(grid[2 * number + 1, legend.first : legend.last]), legend)
    return figure


def claim_figure(finding: Finding) -> Figure:
    """Draw the intervals of a claim against its threshold, one row per comparison."""
    parts = list(finding.comparisons)
    if len(parts) > _ROWS:
        parts = finding.worst_first[:_ROWS]
    bounds = thresholds(finding.claim)
    ends = [end for part in parts for end in _ends(part)] + list(bounds.values())
    log = min(ends) > 0 and max(ends) / min(ends) > 20
    unknown = any(part.interval.mean is None for part in parts)
    figure = _figure(8.6, 0.85 + 0.24 * len(parts))
    axes = figure.add_subplot()
    axes.set_xscale("log" if log else "linear")
    axes.set_xlim(limits := _spread(min(ends), max(ends), log, 0.3 if unknown else 0.08))
    for row, part in enumerate(parts):
        ink, found = _INKS[part.decision.status], part.interval
        if found.mean is None:
            words = interval_words(found).replace(NOTHING, "not known")
            right: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
            axes.text(0.995, row, words, color=ink, fontsize=TYPE - 1, **right)
            continue
        if found.low is not None and found.high is not None:
            axes.plot([max(found.low, limits[0]), found.high], [row, row], color=ink, linewidth=1.8)
        axes.plot([found.mean], [row], color=ink, marker=_MARKS[part.decision.status], markersize=6.5)
    for word, bound in bounds.items():
        axes.axvline(bound, color=INK, linestyle=(0, (4, 3)), linewidth=1.0, zorder=1)
        above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom"}
        axes.text(bound, 1.01, f"{word} {short(bound)}", color=MUTED, fontsize=TYPE - 1, **above)
    names = varying([part.where for part in parts])
    said = [textwrap.shorten(where_words(part.where, names), 60, placeholder="…") for part in parts]
    axes.set_yticks(range(len(parts)), [for_matplotlib(text) for text in said])
    axes.set_ylim(max(1, len(parts)) - 0.4, -0.6)
    axes.set_xlabel(for_matplotlib(measured_words(finding.claim)), fontsize=TYPE, color=INK)
    set_ticks(axes.xaxis, log, limits)
    axes.tick_params(labelsize=TYPE - 1, colors=INK, which="both", length=3, color=GREY)
    axes.grid(color=LINE, linewidth=0.8, axis="x")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
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
    names = varying([where for where, _ in found])
    across = min(4, len(found))
    down = math.ceil(len(found) / across)
    figure = _figure(2.3 * across + 0.5, 2.6 * down)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, (where, matrix) in zip(grid.flat, found, strict=False):
        axes.set_axis_on()
        image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
        axes.set_title(for_matplotlib(textwrap.fill(where_words(where, names), 34)), fontsize=TYPE - 1, color=INK)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_color(GREY)
    figure.colorbar(image, ax=grid, shrink=0.6, ticks=[-1, 0, 1]).ax.tick_params(labelsize=TYPE - 1)
    return figure


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.04))


def _ends(part: Comparison) -> list[float]:
    found = part.interval
    return [end for end in (found.mean, found.low, found.high) if end is not None]


def _spread(low: float, high: float, log: bool, right: float) -> tuple[float, float]:
    """Limits with some room; at the right as much as the words there need."""
    if log:
        return low / (high / low) ** 0.08, high * (high / low) ** right
    width = (high - low) or abs(high) or 1.0
    return low - 0.08 * width, high + right * width
