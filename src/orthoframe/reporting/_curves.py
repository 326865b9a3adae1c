"""Curves over epochs: loss with its floor, the gap, the distance to a frame, and collapse."""

from collections.abc import Sequence
from typing import Any

from orthoframe.reporting._figure import Picture, axis, label, layout, log_axis, run_line
from orthoframe.reporting._format import ACCENT, GOOD, GREY, rounded
from orthoframe.reporting._run import Run

_HEIGHT = 300
# A curve of so few points is drawn with them.
_MARKED = 80


def loss_picture(runs: Sequence[Run]) -> Picture:
    """The loss, its floor and its value when all features are equal; of several runs, loss and floor."""
    data = []
    for number, run in enumerate(runs):
        alone = len(runs) == 1
        line = {"color": ACCENT, "width": 2} if alone else run_line(number)
        floor = {"color": GOOD if alone else line["color"], "dash": "dash", "width": 1.5}
        name = "loss" if alone else label(run.name, 40)
        data += _curve(run, "loss", name, line)
        data += _curve(run, "floor", "floor" if alone else f"{name}: floor", floor, plain=True)
        if alone:
            equal = {"color": GREY, "dash": "dot", "width": 1.5}
            data += _curve(run, "collapsed", "all features equal", equal, plain=True)
    return _picture("loss", "Loss and its floor over epochs", data, axis("loss"), len(runs))


def gap_picture(runs: Sequence[Run]) -> Picture:
    """What the loss has left above its floor, on a logarithmic axis."""
    return _logarithmic("gap", "Loss above its floor over epochs", "loss above its floor", runs, {"gap": "gap"})


def frame_picture(runs: Sequence[Run]) -> Picture:
    """The distance of class means to an orthogonal frame and, of one run, to a simplex ETF."""
    columns = {"delta_of": "to an orthogonal frame"}
    if len(runs) == 1:
        columns["delta_etf"] = "centred, to a simplex ETF"
    return _logarithmic("frame", "Distance of class means to a frame over epochs", "distance", runs, columns)


def collapse_picture(runs: Sequence[Run]) -> Picture:
    """How far the rows of a class are from their mean."""
    title = "β<sub>NC</sub>"
    return _logarithmic("collapse", "beta_NC over epochs", title, runs, {"beta_nc": title})


def below_zero(run: Run) -> int:
    """Epochs whose loss was below the floor, which a logarithmic axis cannot show."""
    return sum(gap is not None and gap < 0 for gap in run.metrics["gap"])


def _logarithmic(name: str, title: str, unit: str, runs: Sequence[Run], columns: dict[str, str]) -> Picture:
    data: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        for place, (column, words) in enumerate(columns.items()):
            alone = len(runs) == 1
            line = {"color": (ACCENT, "#d9822b")[place], "width": 2} if alone else run_line(number)
            data += _curve(run, column, words if alone else label(run.name, 40), line, positive=True)
    values = [value for trace in data for value in trace["y"]]
    return _picture(name, title, data, log_axis(values, unit), len(runs))


def _curve(
    run: Run, column: str, name: str, line: dict[str, Any], *, plain: bool = False, positive: bool = False
) -> list[dict[str, Any]]:
    """One curve through the epochs that have a value; none if there are none."""
    points = [
        (epoch, rounded(value))
        for epoch, value in zip(run.epochs, run.metrics[column], strict=True)
        if value is not None and (value > 0 or not positive)
    ]
    if not points:
        return []
    marked = not plain and len(points) <= _MARKED
    return [
        {
            "type": "scatter",
            "mode": "lines+markers" if marked else "lines",
            "x": [epoch for epoch, _ in points],
            "y": [value for _, value in points],
            "name": name,
            "line": line,
            "marker": {"size": 4, "color": line["color"]},
            "hovertemplate": "epoch %{x}: %{y:.4g}",
        }
    ]


def _picture(name: str, title: str, data: list[dict[str, Any]], vertical: dict[str, Any], runs: int) -> Picture:
    nothing = {"text": "no values", "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    horizontal = axis("epoch", rangemode="tozero")
    if not data:
        horizontal, vertical = {"visible": False}, {"visible": False}
    elif max(trace["x"][-1] for trace in data) < 8:
        horizontal["dtick"] = 1  # there is no half epoch
    legend = runs == 1 and len(data) > 1
    return Picture(
        name=f"plot-{name}",
        label=title,
        height=_HEIGHT,
        data=data,
        layout=layout(
            margin={"l": 50, "r": 16, "t": 40 if legend else 14, "b": 44},
            xaxis=horizontal,
            yaxis=vertical,
            # Of several runs the table above has the colours: a legend would take the room of the curves.
            showlegend=legend,
            annotations=[] if data else [nothing],
        ),
    )
