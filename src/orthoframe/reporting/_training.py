"""The picture of a training run, for a page or a paper."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orthoframe.reporting._format import plain
from orthoframe.reporting._geometry import draw_cosines
from orthoframe.reporting._run import Run


def training_figure(run: Run) -> Figure:
    """Draw a run: loss with its floor, distance to a frame with beta_NC, and the cosines at the end.

    Args:
        run: What `read_run` returned.

    Returns:
        A figure, to be saved with `figure.savefig(path)`.
    """
    figure = Figure(figsize=(14.0, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.1, 1.1, 1.15])
    for column, name, style in (
        ("loss", "loss", {"color": "tab:blue"}),
        ("floor", "floor", {"color": "tab:green", "linestyle": "--"}),
        ("collapsed", "all features equal", {"color": "0.6", "linestyle": ":"}),
    ):
        _draw(left, run, column, name, **style)
    _finish(left, "Loss")
    _draw(middle, run, "delta_of", "distance to a frame", color="tab:blue", marker=".")
    _draw(middle, run, "beta_nc", "beta_NC", color="tab:orange", marker=".")
    # Nothing but values that a logarithm has can be on this axis.
    if any(value > 0 for line in middle.lines for value in line.get_ydata()):
        middle.set_yscale("log", nonpositive="mask")
    _finish(middle, "Geometry of the class means")
    if run.measured:
        end = run.measured[-1]
        draw_cosines(right, end.cosines, end)
        right.set_title(f"Cosines of class means, epoch {end.epoch}", fontsize=9)
    else:
        right.set_axis_off()
    figure.suptitle(plain(f"{run.name}: {run.verdict.signature}", 120), fontsize=11)
    return figure


def _draw(axes: Axes, run: Run, column: str, name: str, **style: Any) -> None:
    values = [math.nan if value is None else value for value in run.metrics[column]]
    points = [(epoch, value) for epoch, value in zip(run.epochs, values, strict=True) if not math.isnan(value)]
    if points:
        if len(points) == 1:
            style["marker"] = "."
        axes.plot(*zip(*points, strict=True), linewidth=1.2, markersize=4, label=name, **style)


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("epoch", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        axes.legend(frameon=False, fontsize=8)
