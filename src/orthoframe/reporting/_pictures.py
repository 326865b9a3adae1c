"""What is drawn: one description per picture, which `_plotly` renders for pages and `_figures` for files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from orthoframe.reporting.style import ACCENT, GOOD, GREY, RUN_COLOURS

if TYPE_CHECKING:
    from orthoframe.geometry import Accuracy, Confusion
    from orthoframe.runs import Measurement, Run

NAMED = 30  # axes of more classes than this have no names: they would overlap
NUMBERED = 12  # cells of heat maps of at most this many classes show their number
DIVERGING = ("#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b")  # colours of cosines from -1 to 1
SEQUENTIAL = ("#e8eef5", "#7fa8d1", "#1d4e89")  # colours of fractions from 0 to 1

Dash = Literal["solid", "dash", "dot", "dashdot"]
_DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")
_TRAIN, _VALIDATION, _SIZE = "#a9c6e8", "#5f93cc", "#b8c0ca"  # accuracies beside that of the test, class sizes
_MARKED = 80  # lines of at most this many points show them
_POSITIONS, _CELLS = 60, 1_500_000  # limits of the slider: more positions say nothing new, and pages stay small


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of `Curves`; `dash` as plotly names it."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    dash: Dash = "solid"
    width: float = 2.0
    marked: bool = False


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Lines over epochs or steps."""

    name: str  # of the element on a page
    label: str  # what is to be seen, for readers who cannot see it
    lines: tuple[Curve, ...]
    y_title: str
    x_title: str = "epoch"
    logarithmic: bool = False
    legend: bool = False


@dataclass(frozen=True)
class Cosines:
    """A `[k, k]` matrix of cosines of class means, NaN where a class mean is zero; and the epoch it is from."""

    values: NDArray[np.float64]
    epoch: int | None = None
    delta_of: float | None = None
    beta_nc: float | None = None


@dataclass(frozen=True)
class CosineMap:
    """A heat map of cosines; with several `frames` it has a slider, and the last frame is shown first."""

    name: str
    classes: tuple[str, ...]
    frames: tuple[Cosines, ...]
    counts: tuple[int, ...] | None = None  # of rows, shown beside the names
    small: bool = False

    def labels(self, shown: Callable[[str], str]) -> list[str]:
        """The names, each as `shown` writes it, with the number of rows if that is known."""
        rows = [""] * len(self.classes) if self.counts is None else [f" ({count:,})" for count in self.counts]
        return [shown(name) + row for name, row in zip(self.classes, rows, strict=True)]


@dataclass(frozen=True)
class OwnershipMap:
    """Live dimensions in the order of their owners, and their purity: the owner's share of the energy."""

    classes: tuple[str, ...]
    dimensions: tuple[int, ...]  # their numbers
    owners: tuple[int, ...]  # positions among the classes
    purity: tuple[float | None, ...]


@dataclass(frozen=True)
class Series:
    """One value per class; classes may be missing."""

    name: str
    colour: str
    values: dict[str, Any]


@dataclass(frozen=True)
class ClassBars:
    """Accuracy of each class above its size, for one or more series of each."""

    classes: tuple[str, ...]  # from left to right
    accuracies: tuple[Series, ...]
    sizes: tuple[Series, ...]
    legend: bool = True


@dataclass(frozen=True)
class ConfusionMap:
    """How the rows of each class were classified; the worst class first."""

    classes: tuple[str, ...]
    rows: tuple[int, ...]
    counts: NDArray[np.int64]  # [k, k], the class below, the one that was predicted to the right


def confusion_map(confusion: "Confusion") -> ConfusionMap:
    """All classes by their accuracy; those without rows come last."""
    names, rows, k = class_names(confusion.names), confusion.rows, len(confusion.names)
    counts = np.zeros((k, k), np.int64)
    for true, predicted, count in confusion.cells:
        counts[true, predicted] = count
    np.fill_diagonal(counts, np.array(rows) - counts.sum(1))
    order = sorted(range(k), key=lambda c: (not rows[c], counts[c, c] / max(1, rows[c])))
    return ConfusionMap(tuple(names[c] for c in order), tuple(rows[c] for c in order), counts[np.ix_(order, order)])


def loss_curves(runs: Sequence["Run"]) -> Curves:
    """The loss and its floor; for one run also the loss of identical features."""
    lines: list[Curve | None] = []
    for number, run in enumerate(runs):
        if len(runs) == 1:
            lines += [
                _line(run, "loss", "loss", ACCENT),
                _line(run, "floor", "floor", GOOD, "dash", 1.5),
                _line(run, "collapsed", "all features equal", GREY, "dot", 1.5),
            ]
        else:
            colour, dash = run_style(number)
            lines += [
                _line(run, "loss", run.name, colour, dash),
                _line(run, "floor", f"{run.name}: floor", colour, "dash", 1.5),
            ]
    return _curves("loss", "Loss and its floor over epochs", lines, "loss", len(runs))


def gap_curves(runs: Sequence["Run"]) -> Curves:
    """The loss above its floor, on a logarithmic axis."""
    return _log_curves("gap", "Loss above its floor over epochs", "loss above its floor", runs, {"gap": "gap"})


def frame_curves(runs: Sequence["Run"]) -> Curves:
    """The distance of class means to an orthogonal frame and, for one run, to a simplex ETF."""
    columns = {"delta_of": "to an orthogonal frame"}
    if len(runs) == 1:
        columns["delta_etf"] = "centred, to a simplex ETF"
    return _log_curves("frame", "Distance of class means to a frame over epochs", "distance", runs, columns)


def collapse_curves(runs: Sequence["Run"]) -> Curves:
    """How far the rows of a class are from their mean."""
    return _log_curves("collapse", "beta_NC over epochs", "spread within / between", runs, {"beta_nc": "beta_NC"})


def geometry_curves(run: "Run") -> Curves:
    """Distance to a frame and beta_NC in one picture."""
    columns = {"delta_of": "distance to a frame (0: orthogonal)", "beta_nc": "beta_NC"}
    return _log_curves("geometry", "Geometry of the class means", "", [run], columns)


def cosine_slider(measurements: Sequence["Measurement"]) -> CosineMap:
    """Cosines of class means at the measured epochs: all of them, or evenly spaced ones if there are many."""
    sizes = _sizes(measurements[-1])
    most = max(1, min(_POSITIONS, _CELLS // len(sizes) ** 2, len(measurements)))
    places = np.linspace(len(measurements) - 1, 0, most)[::-1]
    shown = [measurements[place] for place in sorted({round(place) for place in places.tolist()})]
    frames, counts = tuple(map(_cosines, shown)), tuple(sizes.values())
    return CosineMap(name="plot-cosines", classes=tuple(sizes), frames=frames, counts=counts)


def last_cosines(name: str, measurement: "Measurement") -> CosineMap:
    """A small map of the cosines at one epoch, to stand beside those of other runs."""
    return CosineMap(name=name, classes=tuple(_sizes(measurement)), frames=(_cosines(measurement),), small=True)


def ownership_map(classes: Iterable[int | str], owners: Sequence[int], purity: Sequence[float | None]) -> OwnershipMap:
    """The live dimensions by owner, the purest first; `owners` are positions of classes, -1 of a dead dimension."""
    live = [d for d, owner in enumerate(owners) if owner >= 0]
    live.sort(key=lambda d: (owners[d], -(purity[d] or 0.0)))
    ordered = tuple(owners[d] for d in live), tuple(purity[d] for d in live)
    return OwnershipMap(class_names(classes), tuple(live), *ordered)


def accuracy_bars(run: "Run") -> ClassBars:
    """Accuracy of each class on test, validation and training images, with the sizes; the largest class first."""
    measurement, (kind, others) = run.measurements[-1], run.accuracy
    sizes = _sizes(measurement)
    bars = [(kind, others, ACCENT)] if kind != "training" else []
    if kind == "test":
        bars.append(("validation", measurement.validation, _VALIDATION))
    bars.append(("train", measurement.train.accuracy, _TRAIN))
    accuracies = [
        Series(name, colour, _rates(run, accuracy, sizes)) for name, accuracy, colour in bars if accuracy is not None
    ]
    return ClassBars(_by_size([sizes]), tuple(accuracies), (Series("training rows", _SIZE, sizes),))


def _rates(run: "Run", accuracy: "Accuracy", sizes: Mapping[str, int]) -> dict[str, float | None]:
    """By class; a run that started from another knows classes without images here, which have no bar."""
    test = run.verdict.test
    if len(accuracy.by_class) == len(sizes) or test is None:
        return dict(zip(sizes, accuracy.by_class, strict=True))
    named = dict(zip(class_names(test.confusion.names), accuracy.by_class, strict=True))
    return {name: named.get(name) for name in sizes}


def compared_accuracy_bars(runs: Sequence["Run"]) -> ClassBars:
    """Accuracy of each class in several runs: of the test set where there is one, or else of the training set."""
    accuracies, drawn = [], list[Series]()
    for number, run in enumerate(runs):
        if not run.measurements:
            continue
        end, (colour, _) = run.measurements[-1], run_style(number)
        sizes, (_, accuracy) = _sizes(end), run.accuracy
        if accuracy is not None:
            accuracies.append(Series(run.name, colour, _rates(run, accuracy, sizes)))
        # Runs on the same data have the same sizes, which are drawn once.
        if sizes not in [series.values for series in drawn]:
            drawn.append(Series(f"{run.name}: rows", colour, sizes))
    classes = _by_size([series.values for series in drawn])
    if len(drawn) == 1:
        drawn = [replace(drawn[0], colour=_SIZE)]
    return ClassBars(classes, tuple(accuracies), tuple(drawn), legend=False)


def class_names(names: Iterable[int | str]) -> tuple[str, ...]:
    """Names as text, also of a class whose name is empty."""
    return tuple(str(name) or "(no name)" for name in names)


def _cosines(measurement: "Measurement") -> Cosines:
    train = measurement.train
    return Cosines(np.array(train.cosines, float), measurement.epoch, train.delta_of, train.beta_nc)


def _sizes(measurement: "Measurement") -> dict[str, int]:
    """The rows of each class by its name, in the order of the classes."""
    classes = measurement.train.classes
    return dict(zip(class_names(entry.name for entry in classes), (entry.rows for entry in classes), strict=True))


def _by_size(sizes: Sequence[dict[str, int]]) -> tuple[str, ...]:
    """All classes, the largest first: then the effect of a tail is seen from left to right."""
    largest = {name: max(rows.get(name, 0) for rows in sizes) for name in dict.fromkeys(chain(*sizes))}
    return tuple(sorted(largest, key=lambda name: -largest[name]))


def run_style(number: int) -> tuple[str, Dash]:
    """Colour and dash of a run among several."""
    return RUN_COLOURS[number % len(RUN_COLOURS)], _DASHES[number // len(RUN_COLOURS) % len(_DASHES)]


def _line(
    run: "Run", column: str, name: str, colour: str, dash: Dash = "solid", width: float = 2.0, *, positive: bool = False
) -> Curve | None:
    """The epochs that have a value in this column; None if there are none."""
    points = [(epoch, value) for epoch, value in run.column(column) if value > 0 or not positive]
    if not points:
        return None
    x, y = zip(*points, strict=True)
    marked = width == 2.0 and len(points) <= _MARKED
    return Curve(name=name, x=x, y=y, colour=colour, dash=dash, width=width, marked=marked)


def _log_curves(name: str, label: str, y_title: str, runs: Sequence["Run"], columns: dict[str, str]) -> Curves:
    lines: list[Curve | None] = []
    for number, run in enumerate(runs):
        for place, (column, words) in enumerate(columns.items()):
            if len(runs) == 1:
                lines.append(_line(run, column, words, RUN_COLOURS[place], positive=True))
            else:
                lines.append(_line(run, column, run.name, *run_style(number), positive=True))
    return _curves(name, label, lines, y_title, len(runs), logarithmic=True)


def _curves(
    name: str, label: str, lines: Sequence[Curve | None], y_title: str, runs: int, *, logarithmic: bool = False
) -> Curves:
    drawn = tuple(line for line in lines if line is not None)
    # With several runs the table above has their colours; a legend would take room from the curves.
    legend = runs == 1 and len(drawn) > 1
    return Curves(
        name=f"plot-{name}", label=label, lines=drawn, y_title=y_title, logarithmic=logarithmic, legend=legend
    )
