"""Accuracy of each class beside its size."""

from collections.abc import Sequence
from typing import Any

from orthoframe.reporting._figure import Picture, axis, categories, class_axis, label, layout
from orthoframe.reporting._format import ACCENT, GREY, RUN_COLOURS, rounded
from orthoframe.reporting._measured import Accuracies, Measured
from orthoframe.reporting._run import Run

# With more bars than these they are too thin to tell apart: points instead.
_BARS = 240
_TEST, _TRAIN, _SIZE = ACCENT, "#a9c6e8", "#b8c0ca"


def accuracy_picture(measured: Measured) -> Picture:
    """Train and test accuracy of each class, the largest class first, above the sizes."""
    kinds = [("test", measured.test, _TEST), ("train", measured.train, _TRAIN)]
    places = {str(name): c for c, name in enumerate(measured.names)}
    names = _by_size([measured])
    data = [
        _bars(names, places, found, name, colour, 2 * len(names)) for name, found, colour in kinds if found is not None
    ]
    data.append(_sizes(measured, "training rows", _SIZE))
    return _picture(data, names, measured.counts)


def compared_accuracy_picture(runs: Sequence[Run]) -> Picture:
    """Accuracy of each class in several runs: of the test set where there is one, or else of the training set."""
    data: list[dict[str, Any]] = []
    sizes: list[dict[str, Any]] = []
    ends = [run.measured[-1] for run in runs if run.measured]
    names = _by_size(ends)
    drawn: set[tuple[Any, ...]] = set()
    for number, run in enumerate(runs):
        if not run.measured:
            continue
        end, colour = run.measured[-1], RUN_COLOURS[number % len(RUN_COLOURS)]
        places = {str(name): c for c, name in enumerate(end.names)}
        found = end.test or end.train
        if found is not None:
            data.append(_bars(names, places, found, label(run.name, 40), colour, len(ends) * len(names)))
        # Runs of the same data have the same sizes, which are drawn once.
        if (end.names, end.counts) not in drawn:
            drawn.add((end.names, end.counts))
            sizes.append(_sizes(end, f"{label(run.name, 40)}: rows", colour))
    if len(sizes) == 1:
        sizes[0]["marker"]["color"] = _SIZE
    return _picture([*data, *sizes], names, [count for end in ends for count in end.counts], legend=False)


def _by_size(ends: Sequence[Measured]) -> tuple[int | str, ...]:
    """Classes of all runs, the largest first: what a tail does to accuracy is seen from left to right."""
    largest: dict[str, tuple[int | str, int]] = {}
    for end in ends:
        for name, count in zip(end.names, end.counts, strict=True):
            largest[str(name)] = (name, max(count, largest.get(str(name), (name, 0))[1]))
    return tuple(name for name, _ in sorted(largest.values(), key=lambda entry: -entry[1]))


def _bars(
    names: tuple[int | str, ...], places: dict[str, int], found: Accuracies, title: str, colour: str, bars: int
) -> dict[str, Any]:
    own = [name for name in names if str(name) in places]
    trace: dict[str, Any] = {
        "x": categories(own),
        "y": [rounded(found.by_class[places[str(name)]]) for name in own],
        "name": title,
        "hovertemplate": "%{x}: %{y:.4f}",
    }
    if bars > _BARS:
        return {**trace, "type": "scatter", "mode": "markers", "marker": {"color": colour, "size": 5}}
    return {**trace, "type": "bar", "marker": {"color": colour}}


def _sizes(measured: Measured, title: str, colour: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "x": categories(measured.names),
        "y": list(measured.counts),
        "name": title,
        "marker": {"color": colour},
        "yaxis": "y2",
        "hovertemplate": "%{x}: %{y:,} rows",
    }


def _picture(
    data: list[dict[str, Any]], names: tuple[int | str, ...], counts: Sequence[int], *, legend: bool = True
) -> Picture:
    most = max([1, *counts])
    ticks = [10**power for power in range(len(str(most)) + 1)]
    figure = layout(
        barmode="group",
        bargap=0.25,
        showlegend=legend,
        margin={"l": 64, "r": 16, "t": 34, "b": 20},
        xaxis=class_axis(names, anchor="y2", linecolor=GREY),
        yaxis=axis("accuracy", domain=[0.36, 1], range=[0, 1.02], dtick=0.2),
        # From below 1 on, so that a class of one row has a bar too.
        yaxis2=axis(
            "rows",
            domain=[0, 0.28],
            type="log",
            range=[-0.3, len(str(most))],
            tickvals=ticks,
            ticktext=[f"{tick:,}" for tick in ticks],
        ),
    )
    return Picture("plot-accuracy", "Accuracy of each class, and its size", 420, data, figure)
