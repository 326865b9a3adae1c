"""Pictures of pages: descriptions as plotly figures of plain lists and dictionaries."""

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from orthoframe.reporting import _pictures as pictures
from orthoframe.reporting.style import GREY, INK, LINE, MUTED, clipped, rounded, short, ticks_around

_MOST_BARS = 240  # more are too thin to tell apart: points instead


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plotly figure, and the element it is drawn into."""

    name: str  # of the element; the same for the same report
    label: str  # what is to be seen, for readers who cannot see it
    height: int
    data: list[dict[str, Any]]
    layout: dict[str, Any]

    @property
    def json(self) -> Markup:
        """The figure for a script element that is read and not run."""
        content = json.dumps({"data": self.data, "layout": self.layout}, separators=(",", ":"), allow_nan=False)
        # Within a script only `<` can end it, and JSON has another way to write it.
        return Markup(content.replace("<", "\\u003c"))


@singledispatch
def plot(picture: Any) -> Plot:
    """Render a description for a page."""
    raise TypeError(f"there is no page picture of a {type(picture).__name__}")


@plot.register
def _(picture: pictures.Curves) -> Plot:
    if picture.logarithmic:
        vertical = _log_axis([value for line in picture.lines for value in line.y], picture.y_title)
    else:
        vertical = _axis(picture.y_title)
    horizontal = _axis(picture.x_title, rangemode="tozero")
    annotations = []
    if not picture.lines:
        horizontal, vertical = {"visible": False}, {"visible": False}
        place = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
        annotations = [{"text": "no values", "showarrow": False, **place}]
    elif max(line.x[-1] for line in picture.lines) < 8:
        horizontal["dtick"] = 1  # there is no half epoch
    layout = _layout(
        margin={"l": 50, "r": 16, "t": 40 if picture.legend else 14, "b": 44},
        xaxis=horizontal,
        yaxis=vertical,
        showlegend=picture.legend,
        annotations=annotations,
    )
    traces = [_trace(line, picture.x_title) for line in picture.lines]
    return Plot(name=picture.name, label=picture.label, height=300, data=traces, layout=layout)


def _trace(line: pictures.Curve, x_title: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if line.marked else "lines",
        "x": list(line.x),
        "y": [rounded(value) for value in line.y],
        "name": _text(line.name, 40),
        "line": {"color": line.colour, "dash": line.dash, "width": line.width},
        "marker": {"size": 4, "color": line.colour},
        "hovertemplate": f"{x_title} %{{x}}: %{{y:.4g}}",
    }


@plot.register
def _(picture: pictures.CosineMap) -> Plot:
    k, last = len(picture.classes), picture.frames[-1]
    names = _categories(picture.classes)
    trace = _heat_map(names, names, _numbers(last.values), -1, pictures.DIVERGING, "%{y} and %{x}: %{z:.4f}")
    if k <= (pictures.NUMBERED // 2 if picture.small else pictures.NUMBERED):
        trace |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 10}}
    square: dict[str, Any] = {"constrain": "domain", "showline": False}
    if picture.small:
        hidden: dict[str, Any] = {"showticklabels": False} if k > pictures.NUMBERED else {}
        layout = _layout(
            margin={"l": 10, "r": 10, "t": 10, "b": 10},
            xaxis=_class_axis(picture.classes, turned=True, **square, **hidden),
            yaxis=_class_axis(picture.classes, scaleanchor="x", autorange="reversed", **square, **hidden),
        )
        label = "Cosines of class means at the last epoch"
        return Plot(name=picture.name, label=label, height=320, data=[{**trace, "showscale": False}], layout=layout)
    trace["colorbar"] = _colour_bar(0.8, 0.5)
    labels = picture.labels(_text)
    centred = {"x": 0.5, "xanchor": "center", "y": 0.985, "yanchor": "top", "font": {"size": 15}}
    layout = _layout(
        margin={"l": 20, "r": 10, "t": 98 if len(picture.frames) > 1 else 40, "b": 20},
        title={"text": _frame_title(last), **centred},
        xaxis=_class_axis(picture.classes, labels, turned=k > 5, **square),
        yaxis=_class_axis(picture.classes, labels, scaleanchor="x", autorange="reversed", **square),
    )
    if len(picture.frames) > 1:
        layout["sliders"] = [_slider(picture.frames)]
    height = 640 if k <= pictures.NAMED else 600
    label = "Cosines of class means at an epoch"
    return Plot(name=picture.name, label=label, height=height, data=[trace], layout=layout)


def _numbers(cosines: NDArray[np.float64]) -> list[list[float | None]]:
    """Four decimals, without a minus sign before zero."""
    kept = np.round(cosines, 4) + 0.0
    return [[None if math.isnan(value) else value for value in row] for row in kept.tolist()]


def _frame_title(frame: pictures.Cosines) -> str:
    return f"Epoch {frame.epoch}: Δ<sub>GM</sub> {short(frame.delta_of)}, β<sub>NC</sub> {short(frame.beta_nc)}"


def _slider(frames: Sequence[pictures.Cosines]) -> dict[str, Any]:
    changes = [({"z": [_numbers(frame.values)]}, {"title.text": _frame_title(frame)}) for frame in frames]
    return {
        "active": len(frames) - 1,
        "steps": [
            {"label": str(frame.epoch), "method": "update", "args": change}
            for frame, change in zip(frames, changes, strict=True)
        ],
        "currentvalue": {"visible": False},  # the title says it
        # Above the map, where no class name can reach it.
        **{"x": 0.05, "len": 0.9, "y": 1, "yanchor": "bottom", "pad": {"t": 0, "b": 14}},
        **{"bgcolor": LINE, "bordercolor": GREY, "activebgcolor": GREY, "tickcolor": GREY},
        "font": {"size": 11, "color": MUTED},
        "transition": {"duration": 0},
    }


@plot.register
def _(picture: pictures.OwnershipMap) -> Plot:
    k, names = len(picture.classes), _categories(picture.classes)
    # Only the owner's cell of each dimension is given, and plotly leaves the others empty. The first column is
    # complete, because otherwise classes without a dimension would be missing from the grid.
    empty = [c for c in range(k) if c not in picture.owners[:1]]
    x = [*range(len(picture.owners)), *([0] * len(empty))]
    y = [names[c] for c in (*picture.owners, *empty)]
    z = [*map(rounded, picture.purity), *([None] * len(empty))]
    trace = _heat_map(x, y, z, 0, pictures.SEQUENTIAL, "dimension %{customdata}: %{y}, purity %{z:.4f}")
    trace["customdata"] = [*picture.dimensions, *([None] * len(empty))]
    trace["colorbar"] = _colour_bar(0.9, 0.25)
    layout = _layout(
        margin={"l": 20, "r": 10, "t": 12, "b": 44},
        xaxis=_axis("live dimensions, in the order of their owners", showgrid=False, rangemode="nonnegative"),
        yaxis=_class_axis(picture.classes, autorange="reversed", title="owner"),
    )
    height = max(220, 120 + (min(24 * k, 420) if k <= pictures.NAMED else 400))
    label = "Which class owns each dimension, and how pure the dimension is"
    return Plot(name="plot-ownership", label=label, height=height, data=[trace], layout=layout)


@plot.register
def _(picture: pictures.ConfusionMap) -> Plot:
    k, names = len(picture.classes), _categories(picture.classes)
    shares = picture.counts / np.maximum(1, np.array(picture.rows))[:, None]
    trace = _heat_map(names, names, _numbers(shares), 0, pictures.SEQUENTIAL, "%{y} as %{x}: %{customdata}")
    trace["customdata"] = [
        [f"{count:,} of {rows:,}" for count in row]
        for row, rows in zip(picture.counts.tolist(), picture.rows, strict=True)
    ]
    # A cell without images says nothing, and zeros would hide the others.
    trace["text"] = [[f"{count:,}" if count else "" for count in row] for row in picture.counts.tolist()]
    trace |= {"texttemplate": "%{text}", "textfont": {"size": 11 if k <= pictures.NUMBERED else 9}}
    trace["colorbar"] = _colour_bar(0.8, 0.25)
    square: dict[str, Any] = {"constrain": "domain", "showline": False}
    labels = [f"{_text(name)} ({rows:,})" for name, rows in zip(picture.classes, picture.rows, strict=True)]
    layout = _layout(
        margin={"l": 20, "r": 10, "t": 20, "b": 20},
        xaxis=_class_axis(picture.classes, turned=k > 5, title="predicted", **square),
        yaxis=_class_axis(picture.classes, labels, scaleanchor="x", autorange="reversed", title="class", **square),
    )
    label = "Confusion matrix of the test images"
    return Plot(name="plot-confusion", label=label, height=560, data=[trace], layout=layout)


@plot.register
def _(picture: pictures.ClassBars) -> Plot:
    points = len(picture.accuracies) * len(picture.classes) > _MOST_BARS
    data = [_bars(picture.classes, series, "%{x}: %{y:.4f}", points) for series in picture.accuracies]
    data += [{**_bars(picture.classes, series, "%{x}: %{y:,} rows"), "yaxis": "y2"} for series in picture.sizes]
    most = max([1, *(count for series in picture.sizes for count in series.values.values())])
    ticks = [10**power for power in range(len(str(most)) + 1)]
    scale = {"type": "log", "range": [-0.3, len(str(most))]}  # from below 1: a class of one row has a bar too
    layout = _layout(
        barmode="group",
        bargap=0.25,
        showlegend=picture.legend,
        margin={"l": 64, "r": 16, "t": 34, "b": 20},
        xaxis=_class_axis(picture.classes, anchor="y2", linecolor=GREY),
        yaxis=_axis("accuracy", domain=[0.36, 1], range=[0, 1.02], dtick=0.2),
        yaxis2=_axis("rows", domain=[0, 0.28], tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks], **scale),
    )
    label = "Accuracy of each class, and its size"
    return Plot(name="plot-accuracy", label=label, height=420, data=data, layout=layout)


def _bars(classes: Sequence[str], series: pictures.Series, hover: str, points: bool = False) -> dict[str, Any]:
    present = [name for name in classes if name in series.values]
    drawn = {"type": "scatter", "mode": "markers"} if points else {"type": "bar"}
    return {
        **drawn,
        "x": _categories(present),
        "y": [rounded(series.values[name]) for name in present],
        "name": _text(series.name, 46),
        "marker": {"color": series.colour, **({"size": 5} if points else {})},
        "hovertemplate": hover,
    }


def _layout(**more: Any) -> dict[str, Any]:
    """A layout in the report's type and colours."""
    family = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
    return {
        "autosize": True,
        "font": {"family": family, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "#ffffff",
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": GREY, "font": {"color": INK}, "namelength": 40},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
        **more,
    }


def _axis(title: str = "", **more: Any) -> dict[str, Any]:
    """An axis with quiet lines."""
    base: dict[str, Any] = {"gridcolor": LINE, "linecolor": GREY, "zeroline": False, "ticks": "", "automargin": True}
    if title:
        base["title"] = {"text": title, "standoff": 8, "font": {"size": 12, "color": MUTED}}
    return {**base, **more}


def _log_axis(values: Iterable[float], title: str = "") -> dict[str, Any]:
    """A logarithmic axis whose ticks suit the values: powers of ten for many decades, 1, 2 and 5 for few."""
    logs = [math.log10(value) for value in values] or [0.0]
    low, high = min(logs), max(logs)
    if high - low > 1.5:
        # Plotly draws powers of ten a quarter larger than the font size given.
        decades = {"dtick": math.ceil((high - low) / 8), "tickfont": {"size": 10}}
        return _axis(title, type="log", exponentformat="power", **decades)
    # At least a decade, or rounding would look like a mountain range.
    low, high = (low + high) / 2 - 0.8, (low + high) / 2 + 0.8
    ticks = ticks_around(10**low, 10**high)
    return _axis(title, type="log", range=[low, high], tickvals=ticks, ticktext=[short(tick) for tick in ticks])


def _class_axis(
    names: Sequence[str], labels: list[str] | None = None, *, turned: bool = False, **more: Any
) -> dict[str, Any]:
    """An axis of classes: short names or none; `turned` by a right angle unless they are very short."""
    whole = _categories(names)
    ticks: dict[str, Any] = {"showticklabels": False}
    if len(names) <= pictures.NAMED:
        shown = labels or [_text(name) for name in names]
        ticks = {"tickvals": whole, "ticktext": shown, "tickfont": {"size": 11}}
        if turned and max(map(len, shown)) > 4:
            ticks["tickangle"] = -90
    return _axis(type="category", categoryorder="array", categoryarray=whole, showgrid=False, **{**ticks, **more})


def _heat_map(x: Any, y: Any, z: Any, low: int, colours: Sequence[str], hover: str) -> dict[str, Any]:
    """A heat map of values from `low` to 1."""
    values = {"x": x, "y": y, "z": z, "zmin": low, "zmax": 1, "hoverongaps": False}
    scale = [[number / (len(colours) - 1), colour] for number, colour in enumerate(colours)]
    return {"type": "heatmap", **values, "colorscale": scale, "hovertemplate": f"{hover}<extra></extra>"}


def _colour_bar(length: float, tick: float) -> dict[str, Any]:
    return {"thickness": 12, "len": length, "outlinewidth": 0, "dtick": tick}


def _text(name: str, longest: int = 18) -> str:
    """A name as plotly can show it: without tags, and not too long for an axis."""
    return html.escape(clipped(name, longest))


def _categories(names: Iterable[str]) -> list[str]:
    """Whole names: plotly tells classes apart by them, and shows them at the pointer."""
    return [html.escape(name) for name in names]
