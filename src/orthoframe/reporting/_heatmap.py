"""Heat maps: cosines of class means at the measured epochs, and which class owns each dimension."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orthoframe.reporting._figure import (
    DIVERGING,
    NAMED,
    SEQUENTIAL,
    Picture,
    axis,
    categories,
    class_axis,
    label,
    layout,
)
from orthoframe.reporting._format import GREY, LINE, MUTED, rounded, short
from orthoframe.reporting._measured import Measured

# Cells with their number, as long as it can be read.
_NUMBERED = 12
# A slider with more positions than these says no more; and a page has an end.
_POSITIONS, _CELLS = 60, 1_500_000


def cosine_picture(measured: Sequence[Measured]) -> Picture:
    """Cosines of class means, the last epoch first, with a slider over the others."""
    shown = [measured[place] for place in _chosen(len(measured), len(measured[0].names))]
    last = shown[-1]
    k = len(last.names)
    trace = _cells(last.names, last.cosines)
    trace["colorbar"] = {"thickness": 12, "len": 0.8, "outlinewidth": 0, "dtick": 0.5}
    labels = [f"{label(name)} ({count:,})" for name, count in zip(last.names, last.counts, strict=True)]
    figure = layout(
        margin={"l": 20, "r": 10, "t": 98 if len(shown) > 1 else 40, "b": 20},
        title={"text": _title(last), "x": 0.5, "xanchor": "center", "y": 0.985, "yanchor": "top", "font": {"size": 15}},
        xaxis=class_axis(last.names, labels, constrain="domain", turned=k > 5, showline=False),
        yaxis=class_axis(last.names, labels, constrain="domain", scaleanchor="x", autorange="reversed", showline=False),
    )
    if len(shown) > 1:
        figure["sliders"] = [_slider(shown)]
    return Picture("plot-cosines", "Cosines of class means at an epoch", 640 if k <= NAMED else 600, [trace], figure)


def small_cosine_picture(name: str, names: Sequence[int | str], cosines: NDArray[np.float64]) -> Picture:
    """Cosines of class means of one run beside others, without a colour bar."""
    k = len(names)
    trace = {**_cells(names, cosines), "showscale": False}
    if k > 6:
        trace.pop("texttemplate", None)
    figure = layout(
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        xaxis=class_axis(names, constrain="domain", turned=True, showline=False),
        yaxis=class_axis(names, constrain="domain", scaleanchor="x", autorange="reversed", showline=False),
    )
    if k > 12:
        figure["xaxis"]["showticklabels"] = figure["yaxis"]["showticklabels"] = False
    return Picture(f"plot-cosines-{name}", "Cosines of class means at the last epoch", 320, [trace], figure)


def _cells(classes: Sequence[int | str], cosines: NDArray[np.float64]) -> dict[str, Any]:
    names = categories(classes)
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": _numbers(cosines),
        "zmin": -1,
        "zmax": 1,
        "colorscale": DIVERGING,
        "hovertemplate": "%{y} and %{x}: %{z:.4f}<extra></extra>",
        "hoverongaps": False,
    }
    if len(names) <= _NUMBERED:
        trace["texttemplate"] = "%{z:.2f}"
        trace["textfont"] = {"size": 10}
    return trace


def _numbers(cosines: NDArray[np.float64]) -> list[list[float | None]]:
    """Four decimals; and no minus before a zero."""
    kept = np.round(cosines, 4) + 0.0
    return [[None if math.isnan(value) else value for value in row] for row in kept.tolist()]


def _title(measured: Measured) -> str:
    return (
        f"Epoch {measured.epoch}: Δ<sub>GM</sub> {short(measured.delta_of)}, β<sub>NC</sub> {short(measured.beta_nc)}"
    )


def _slider(shown: Sequence[Measured]) -> dict[str, Any]:
    return {
        "active": len(shown) - 1,
        "steps": [
            {
                "label": str(entry.epoch),
                "method": "update",
                "args": [{"z": [_numbers(entry.cosines)]}, {"title.text": _title(entry)}],
            }
            for entry in shown
        ],
        "currentvalue": {"visible": False},  # the title says it
        # Above the map, where no name of a class can reach it.
        "x": 0.05,
        "len": 0.9,
        "y": 1,
        "yanchor": "bottom",
        "pad": {"t": 0, "b": 14},
        "bgcolor": LINE,
        "bordercolor": GREY,
        "activebgcolor": GREY,
        "tickcolor": GREY,
        "font": {"size": 11, "color": MUTED},
        "transition": {"duration": 0},
    }


def _chosen(measured: int, k: int) -> list[int]:
    """Positions of the epochs on the slider: all of them, or evenly some with the first and the last."""
    most = max(1, min(_POSITIONS, _CELLS // k**2))
    if most == 1:
        return [measured - 1]
    return sorted({round(place) for place in np.linspace(0, measured - 1, min(most, measured)).tolist()})


def ownership_picture(measured: Measured) -> Picture:
    """Live dimensions in the order of their owners: the darker, the larger the owner's part of the energy."""
    k = len(measured.names)
    live = [d for d, owner in enumerate(measured.owners) if owner >= 0]
    live.sort(key=lambda d: (measured.owners[d], -(measured.purity[d] or 0.0), d))
    names = categories(measured.names)
    # A cell for each dimension and no others: plotly fills the gaps. The first column is whole, or classes without a
    # dimension would be missing from the grid and the rows of others would grow over them.
    first = measured.owners[live[0]] if live else -1
    empty = [c for c in range(k) if c != first]
    trace = {
        "type": "heatmap",
        "x": [*range(len(live)), *([0] * len(empty))],
        "y": [*(names[measured.owners[d]] for d in live), *(names[c] for c in empty)],
        "z": [*(rounded(measured.purity[d]) for d in live), *([None] * len(empty))],
        "customdata": [*live, *([None] * len(empty))],
        "zmin": 0,
        "zmax": 1,
        "colorscale": SEQUENTIAL,
        "hoverongaps": False,
        "hovertemplate": "dimension %{customdata}: %{y} has %{z:.4f} of it<extra></extra>",
        "colorbar": {"thickness": 12, "len": 0.9, "outlinewidth": 0, "dtick": 0.25},
    }
    height = 120 + (min(24 * k, 420) if k <= NAMED else 400)
    figure = layout(
        margin={"l": 20, "r": 10, "t": 12, "b": 44},
        xaxis=axis("live dimensions, in the order of their owners", showgrid=False, rangemode="nonnegative"),
        yaxis=class_axis(measured.names, autorange="reversed", title="owner"),
    )
    return Picture(
        "plot-ownership", "Which class owns each dimension, and how much of it", max(220, height), [trace], figure
    )
