"""`orthoframe fit`: a classifier of embeddings, and what it is worth."""

import csv
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from orthoframe.cli._embeddings import EmbeddingTable, read_table
from orthoframe.cli._files import writing
from orthoframe.cli._terminal import bad_input
from orthoframe.errors import InputError, Option

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.geometry import Geometry
    from orthoframe.sklearn import FrameClassifier

CLASSIFIER, REPORT = "classifier.safetensors", "report.json"
_HELD_OUT = 0.2  # of each class, where nothing says which rows are for testing
_WIDTH = 256  # of the hidden layers; features need at least one dimension per class
_MOST_CLASSES = 20  # that are printed one by one


@dataclass(frozen=True)
class FitCommand:
    """Fit a classifier of embeddings whose classes end in an orthogonal frame, and say how good it is.

    Rows that are marked as test, or else 20 % of each class, are held out, and tell how good it is. Writes
    classifier.safetensors and report.json. With --apply nothing is fitted: the rows are classified, as CSV with the
    cosine to each class mean. Exit status: 0 fitted or classified, 2 bad input. For example:

    orthoframe fit features --out classifier

    orthoframe fit new_features --apply classifier
    """

    features: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FEATURES")]
    """A folder of orthoframe embed; an .npz with x and y, or x_train, y_train, x_test, y_test; or as for measure."""
    labels: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="LABELS")] = None
    """The class of each row, as measure reads it, if FEATURES has none."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Where the classifier and the report are written."""
    apply: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Classify with what an earlier command wrote to this folder, or with its classifier.safetensors."""
    seed: int = 0
    """Decides which rows are held out, and the training: the same seed gives the same bytes."""
    epochs: int | None = None
    """The most epochs (default: about 20, more for few rows, fewer for very many)."""
    temperature: float | None = None
    """Of the loss (default: 0.3)."""
    device: str = "auto"
    """Where to train: auto (a GPU if there is one), cpu, cuda and so on."""
    key: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The array of features in a .npz or .safetensors file (default: the only one, or the one called features)."""
    column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column of labels in a .csv file."""

    def run(self) -> int:
        """Fit and tell, or classify."""
        if (self.out is None) == (self.apply is None):
            needed = "; give one of them, to fit a classifier or to use one"
            raise InputError(Option("out"), " or ", Option("apply"), needed)
        table = read_table(self.features, self.labels, key=self.key, column=self.column)
        if self.apply is not None:
            return _classify(table, self.apply, self.features)
        return self._fit(table)

    def _fit(self, table: EmbeddingTable) -> int:
        from orthoframe._files import write_json
        from orthoframe.sklearn import FrameClassifier

        assert self.out is not None
        labels = table.labels
        if labels is None:
            raise InputError(f"{self.features}: there are no labels in it; name a file with the class of each row")
        train, test, how = divided(table, labels, self.seed)
        classifier = FrameClassifier(
            hidden=(_WIDTH, max(_WIDTH, len(np.unique(labels[train])))),
            temperature=self.temperature,
            epochs=self.epochs,
            device=self.device,
            random_state=self.seed,
        )
        with bad_input(self.features):
            classifier.fit(table.rows[train], labels[train])
        report = _report(classifier, table, labels, train, test)
        facts = {"features": str(self.features), "held_out": how, "seed": self.seed, **report}
        with writing(self.out, "out"):
            self.out.mkdir(parents=True, exist_ok=True)
            classifier.save(self.out / CLASSIFIER)
            write_json(self.out / REPORT, facts, digits=8)
        print("\n".join(_words(report, how)))
        print(f"\nwritten to {self.out}: {CLASSIFIER}, {REPORT}")
        return 0


def divided(table: EmbeddingTable, labels: NDArray[Any], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """Rows to train on, rows to test on, and who said which."""
    from orthoframe.data import hold_out

    if table.splits is not None:
        train = np.flatnonzero(table.splits == "train")
        part = "test" if (table.splits == "test").any() else "validation"
        test = np.flatnonzero(table.splits == part)
        if not len(train):
            raise InputError("no row is marked as train")
        if len(test):
            unknown = np.setdiff1d(labels[test], labels[train])
            if len(unknown):
                raise InputError(f"class {unknown[0]} has rows to test on and none to train on")
            return train, test, f"rows marked as {part}"
    else:
        train = np.arange(len(labels))
    _, numbers = np.unique(labels[train], return_inverse=True)
    kept, held = hold_out(numbers, _HELD_OUT, seed)
    return train[kept], train[held], f"{_HELD_OUT:.0%} of each class"


def _report(
    classifier: "FrameClassifier",
    table: EmbeddingTable,
    labels: NDArray[Any],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
) -> dict[str, Any]:
    """What is known of a classifier, in types that JSON knows."""
    from orthoframe._files import json_ready
    from orthoframe.geometry import accuracy_of

    names = classifier.classes_.tolist()
    rows = [
        np.bincount(np.searchsorted(classifier.classes_, labels[part]), minlength=len(names)) for part in (train, test)
    ]
    found = None
    if len(test):
        given = np.searchsorted(classifier.classes_, labels[test])
        found = accuracy_of(_scores(classifier, table.rows[test]), given, names, rows[0])
    per_class = found.by_class if found is not None else (None,) * len(names)
    fields = ("name", "train_rows", "test_rows", "accuracy")
    classes = [dict(zip(fields, values, strict=True)) for values in zip(names, *rows, per_class, strict=True)]
    return {
        "classes": json_ready(classes),
        "accuracy": None if found is None else json_ready({k: v for k, v in asdict(found).items() if k != "by_class"}),
        "geometry": {
            "train": _geometry(classifier.geometry_),
            "test": _geometry(_measured(classifier, table, labels, test)) if len(test) else None,
        },
        "stopped": str(classifier.stopped_),
        "epochs": classifier.n_iter_,
        "loss_gap": classifier.loss_gap_,
        "certificate": classifier.certificate_.sentence(),
    }


def _scores(classifier: "FrameClassifier", rows: NDArray[Any]) -> "Tensor":
    """Cosines to all class means, `[rows, k]`; adjusted for class sizes if the classifier is."""
    return classifier.rule_.scores(classifier.transform(rows.astype(np.float64)))


def _measured(
    classifier: "FrameClassifier", table: EmbeddingTable, labels: NDArray[Any], test: NDArray[np.int64]
) -> "Geometry":
    from orthoframe.geometry import measure

    return measure(classifier.transform(table.rows[test]), labels[test], normalize=False)


def _geometry(geometry: "Geometry") -> dict[str, Any]:
    from orthoframe._files import json_ready

    names = ("delta_of", "beta_nc", "spread", "mean_cosine", "max_cosine", "dead_rows")
    found: dict[str, Any] = json_ready({name: getattr(geometry, name) for name in names})
    return {"verdict": geometry.verdict(), **found}


def _words(report: dict[str, Any], how: str) -> list[str]:
    """The report, for a person."""
    classes, accuracy = report["classes"], report["accuracy"]
    trained, tested = (sum(entry[rows] for entry in classes) for rows in ("train_rows", "test_rows"))
    lines = [f"{trained} rows of {len(classes)} classes to train on, {tested} held out ({how})"]
    if accuracy is None:
        lines.append("no class has a row to spare, so nothing says how good it is")
    else:
        lines.append(f"balanced accuracy  {accuracy['balanced']:.4f} (overall {accuracy['overall']:.4f})")
        lines.append(f"worst class        {accuracy['worst']:.4f} (class {accuracy['worst_class']})")
        if len(classes) <= _MOST_CLASSES:
            width = max(len(str(entry["name"])) for entry in classes)
            for entry in classes:
                right = "   -  " if entry["accuracy"] is None else f"{entry['accuracy']:.4f}"
                lines.append(
                    f"  {entry['name']!s:<{width}}  {right}  of {entry['test_rows']} ({entry['train_rows']} trained on)"
                )
    for part, told in (("training rows", report["geometry"]["train"]), ("rows held out", report["geometry"]["test"])):
        if told is not None:
            lines.append(f"{part:<19}Delta_GM {_number(told['delta_of'])}. {told['verdict']}")
    lines.append(
        "Delta_GM is the distance of the class means to an orthogonal frame: 0 is a frame, in which every class,"
    )
    lines.append("however rare, is at a right angle to all others; up to 0.05 counts as one.")
    return lines


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _classify(table: EmbeddingTable, place: Path, features: Path) -> int:
    """Print the class of each row, and its cosines to all class means."""
    from orthoframe.sklearn import FrameClassifier

    path = place / CLASSIFIER if os.path.isdir(place) else place
    with bad_input():
        try:
            classifier = FrameClassifier.load(path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
    if table.rows.shape[1] != classifier.n_features_in_:
        dims = f"{table.rows.shape[1]} dimensions, and the classifier needs {classifier.n_features_in_}"
        raise InputError(f"{features}: features of {dims}; embed with the same backbone")
    scores = _scores(classifier, table.rows)
    winners = scores.argmax(1).tolist()
    classes = classifier.classes_.tolist()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["row", "class", *classes])
    for name, winner, cosines in zip(table.names, winners, scores.tolist(), strict=True):
        writer.writerow([name, classes[winner], *(round(value, 6) + 0.0 for value in cosines)])
    return 0
