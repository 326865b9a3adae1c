"""A small heat map of cosines for the page of studies."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orthoframe.reporting._figure import DIVERGING, Picture, categories, class_axis, layout

_NUMBERED = 12


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
