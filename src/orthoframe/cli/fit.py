"""`orthoframe fit`: a classifier of embeddings, and how good it is."""

import csv
import math
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro
from numpy.typing import NDArray

from orthoframe._arrays import ArrayArchive, labelled_parts
from orthoframe.cli._files import cell, checked_labels, open_features, read_labels, reading_file
from orthoframe.cli._terminal import bad_input
from orthoframe.errors import InputError, Option, brief, reason_of
from orthoframe.options import FRAME_DISTANCE

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.geometry import Geometry
    from orthoframe.sklearn import FrameClassifier

CLASSIFIER, REPORT = "classifier.safetensors", "report.json"
_SPLITS = ("train", "validation", "test")
_HELD_OUT = 0.2  # of each class, if no rows are marked for testing
_MOST_CLASSES = 20  # that are printed one by one


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """Rows of features with their labels."""

    rows: NDArray[Any]  # float32 or float64, [n, dim]
    labels: NDArray[Any] | None  # [n], numbers or names; None without labels
    names: NDArray[Any] | None = None  # [n], the path of each row; None where rows are numbered
    splits: NDArray[Any] | None = None  # [n], `train`, `test` or `validation`; None if rows are not divided


@dataclass(frozen=True)
class FitCommand:
    """Fit a classifier of embeddings whose classes end in an orthogonal frame, and say how good it is.

    Rows that are marked as test, or else 20 % of each class, are held out for testing. Writes classifier.safetensors
    and report.json. With --apply nothing is fitted: the rows are classified, as CSV with the cosine to each class mean.

    Exit status: 0 fitted or classified, 2 bad input. For example:

    orthoframe fit features --out classifier

    orthoframe fit new_features --apply classifier
    """

    features: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FEATURES")]
    """A folder of orthoframe embed; an .npz with x and y, or x_train, y_train, x_test, y_test; or as for measure."""
    labels: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="[LABELS]")] = None
    """The class of each row, as measure reads it, if FEATURES has none."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Write the classifier and the report to this folder."""
    apply: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Classify with the classifier in this folder of an earlier command, or with its classifier.safetensors."""
    seed: int = 0
    """Seed of the held-out rows and of the training: the same seed gives the same bytes."""
    epochs: int | None = None
    """Maximum number of epochs (default: about 20, more for few rows, fewer for very many)."""
    temperature: float | None = None
    """Temperature of the loss (default: 0.3)."""
    hidden: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="UNITS ...")] = None
    """Units of each hidden layer; no number for the linear path alone (default: 256 256 and a linear path, mixed by
    cross-fitting)."""
    batch_size: int | None = None
    """Rows per batch (default: 256)."""
    class_weight: Literal["square-root", "balanced", "none"] = "square-root"
    """How often rows of small classes are drawn: shares like the roots of class sizes, equal shares, or as they are."""
    adjust: Literal["cross-fit", "none"] = "cross-fit"
    """Make up for class sizes and calibrate confidences by rows that were held out of one half of the training."""
    device: str = "auto"
    """Train on this device: auto (a GPU if there is one), cpu, cuda and so on."""
    key: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The array of features in a .npz or .safetensors file (default: the only one, or the one called features)."""
    column: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The column of labels in a .csv file."""

    def run(self) -> int:
        """Fit and report, or classify."""
        if (self.out is None) == (self.apply is None):
            out, apply = Option("out", "FOLDER"), Option("apply", "FOLDER")
            raise InputError("give ", out, " to fit a classifier, or ", apply, " to use one")
        table = read_table(self.features, self.labels, key=self.key, column=self.column)
        if self.apply is not None:
            return self._classify(table, self.apply)
        assert self.out is not None
        return self._fit(table, self.out)

    def _fit(self, table: EmbeddingTable, out: Path) -> int:
        from orthoframe.files import write_json, writing
        from orthoframe.sklearn import FrameClassifier

        labels = table.labels
        if labels is None:
            raise InputError(f"{self.features}: there are no labels in it; name a file with the class of each row")
        splits = np.full(len(labels), "train") if table.splits is None else table.splits
        train, test, source = _split(splits, labels, self.seed)
        classifier = FrameClassifier(
            hidden=self.hidden,
            temperature=self.temperature,
            batch_size=self.batch_size,
            epochs=self.epochs,
            class_weight=None if self.class_weight == "none" else self.class_weight,
            adjust=None if self.adjust == "none" else self.adjust,
            device=self.device,
            random_state=self.seed,
        )
        with bad_input(self.features):
            classifier.fit(table.rows[train], labels[train])
        report = {
            "features": str(self.features),
            "held_out": source,
            "seed": self.seed,
            **_report(classifier, labels[train], table.rows[test], labels[test]),
        }
        with writing(out, "out"):
            out.mkdir(parents=True, exist_ok=True)
            classifier.save(out / CLASSIFIER)
            write_json(out / REPORT, report, digits=8)
        print("\n".join(_lines(report)))
        print(f"\nwritten to {out}: {CLASSIFIER}, {REPORT}")
        return 0

    def _classify(self, table: EmbeddingTable, place: Path) -> int:
        """Print the class of each row, and its cosines to all class means."""
        from orthoframe.sklearn import FrameClassifier

        path = place / CLASSIFIER if os.path.isdir(place) else place
        with bad_input():
            try:
                classifier = FrameClassifier.load(path)
            except OSError as error:
                raise InputError(f"{path}: {reason_of(error)}") from None
        rows, dim = table.rows, classifier.n_features_in_
        if rows.shape[1] != dim:
            dims = f"{rows.shape[1]} dimensions, and the classifier needs {dim}"
            raise InputError(f"{self.features}: features of {dims}; embed with the same backbone")
        scores = _scores(classifier, rows)
        classes = classifier.classes_.tolist()
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(map(cell, ["row", "class", *classes]))
        names = range(len(rows)) if table.names is None else table.names.tolist()
        for name, winner, cosines in zip(names, scores.argmax(1).tolist(), scores.tolist(), strict=True):
            writer.writerow([cell(name), cell(classes[winner]), *(round(value, 6) + 0.0 for value in cosines)])
        return 0


def read_table(
    features: Path, labels: Path | None = None, *, key: str | None = None, column: str | None = None
) -> EmbeddingTable:
    """Read features, with labels from a file of their own or from the same place."""
    if os.path.isdir(features):  # a name may be too long for a file
        if any(option is not None for option in (labels, key, column)):
            others = "other labels, ", Option("key"), " and ", Option("column"), " out"
            raise InputError(f"{features} is a folder of features, which has its labels; leave ", *others)
        from orthoframe.embedding import read_embedding

        stored = read_embedding(features)
        names = None if stored.labels is None else np.array(stored.classes, dtype=str)[stored.labels]
        return EmbeddingTable(stored.features, names, stored.paths, stored.splits)
    if labels is None and features.suffix == ".npz" and key is None:
        return _read_archive(features)
    parts = open_features(features, key).parts()
    rows = np.concatenate([part.numpy() if part.element_size() > 2 else part.float().numpy() for part in parts])
    return _checked(features, rows, None if labels is None else read_labels(labels, column))


def _read_archive(path: Path) -> EmbeddingTable:
    """Rows of an `.npz` file; labels that are numbers become names if it has `classes`."""
    with reading_file(path):
        archive = ArrayArchive(path)
        classes = archive["classes"].read() if "classes" in archive.names else None
        arrays = {
            part: (x.read(), None if y is None else y.read())
            for part, (x, y) in labelled_parts(archive, _SPLITS).items()
        }
    if not arrays:
        needed = "x and y, or x_train, y_train, x_test and y_test"
        raise InputError(f"{path}: it needs the arrays {needed}; it has {brief(', '.join(archive.names)) or 'none'}")
    tables = {
        part: _checked(path, rows, _named(path, f"y_{part}" if part else "y", labels, classes))
        for part, (rows, labels) in arrays.items()
    }
    if "" in tables:
        return tables[""]
    labels = [table.labels for table in tables.values() if table.labels is not None]
    if len({table.rows.shape[1] for table in tables.values()}) > 1 or len(labels) < len(tables):
        raise InputError(f"{path}: x_train, x_test and so on need equally many columns, and labels y_train, y_test")
    return EmbeddingTable(
        rows=np.concatenate([table.rows for table in tables.values()]),
        labels=np.concatenate(labels),
        splits=np.concatenate([np.full(len(table.rows), part) for part, table in tables.items()]),
    )


def _named(path: Path, name: str, labels: NDArray[Any] | None, classes: NDArray[Any] | None) -> NDArray[Any] | None:
    """Labels as names of classes, if they are numbers and the archive names its classes."""
    if labels is None or classes is None or classes.ndim != 1 or labels.dtype.kind not in "iu":
        return labels
    k = len(classes)
    if labels.size and not 0 <= labels.min() <= labels.max() < k:
        raise InputError(f"{path}: {name} must be from 0 to {k - 1}, because there are {k} classes")
    return np.asarray(classes[labels])


def _checked(path: Path, rows: NDArray[Any], labels: NDArray[Any] | None) -> EmbeddingTable:
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or 0 in rows.shape:
        actual = f"{rows.dtype} of shape {brief(list(rows.shape), 60)}"
        raise InputError(f"{path}: features must be numbers of shape [rows, dim], not {actual}")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64 if rows.dtype.itemsize > 2 else np.float32)
    if not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows).all(1))[0])
        raise InputError(f"{path}: row {row} has a value that is not finite")
    if labels is None:
        return EmbeddingTable(rows, None)
    if labels.shape != (len(rows),):
        raise InputError(f"{path}: there are {len(rows)} rows and labels of shape {brief(list(labels.shape), 40)}")
    return EmbeddingTable(rows, checked_labels(path, labels))


def _split(splits: NDArray[Any], labels: NDArray[Any], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], str]:
    """Rows to train on, rows to test on, and how they were chosen."""
    from orthoframe.data import hold_out

    train = np.flatnonzero(splits == "train")
    if not len(train):
        raise InputError("no row is marked as train")
    for part in ("test", "validation"):
        test = np.flatnonzero(splits == part)
        untrained = np.setdiff1d(labels[test], labels[train])
        if len(untrained):
            raise InputError(f"class {untrained[0]} has {part} rows and no training rows")
        if len(test):
            return train, test, f"rows marked as {part}"
    _, numbers = np.unique(labels[train], return_inverse=True)
    kept, held_out = hold_out(numbers, _HELD_OUT, seed)
    return train[kept], train[held_out], f"{_HELD_OUT:.0%} of each class"


def _report(
    classifier: "FrameClassifier", train_labels: NDArray[Any], test_rows: NDArray[Any], test_labels: NDArray[Any]
) -> dict[str, Any]:
    """Sizes and accuracies of classes, and the geometry of both parts."""
    from sklearn.metrics import f1_score

    from orthoframe.geometry import accuracy_of, measure

    names = classifier.classes_.tolist()
    train, test = (np.searchsorted(classifier.classes_, labels) for labels in (train_labels, test_labels))
    counts = [np.bincount(part, minlength=len(names)) for part in (train, test)]
    accuracy, rates, test_geometry = None, (None,) * len(names), None
    if len(test):
        scores = _scores(classifier, test_rows)
        accuracy = asdict(accuracy_of(scores, test, names, counts[0]))
        accuracy["macro_f1"] = float(f1_score(test, scores.argmax(1), labels=np.unique(test), average="macro"))
        rates = accuracy.pop("by_class")
        test_geometry = _geometry(measure(classifier.transform(test_rows), test_labels, normalize=False))
    fields, certificate = ("name", "train_rows", "test_rows", "accuracy"), classifier.certificate_
    return {
        "classes": [dict(zip(fields, values, strict=True)) for values in zip(names, *counts, rates, strict=True)],
        "accuracy": accuracy,
        "geometry": {"train": _geometry(classifier.geometry_), "test": test_geometry},
        "linear_share": classifier.linear_share_,
        "adjust": classifier.adjust_,
        "stopped": str(classifier.stopped_),
        "epochs": len(classifier.loss_curve_),
        "loss_gap": classifier.loss_gap_,  # NaN for a linear path alone, which has no batches to certify
        "certificate": None if certificate is None else certificate.sentence(),
    }


def _scores(classifier: "FrameClassifier", rows: NDArray[Any]) -> "Tensor":
    """Cosines to all class means, `[rows, k]`; adjusted for class sizes if the classifier is."""
    return classifier.rule_.scores(classifier.transform(rows.astype(np.float64)))


def _geometry(geometry: "Geometry") -> dict[str, Any]:
    names = ("delta_of", "beta_nc", "spread", "mean_cosine", "max_cosine", "dead_rows")
    return {"verdict": geometry.verdict(), **{name: getattr(geometry, name) for name in names}}


def _lines(report: dict[str, Any]) -> list[str]:
    """The report, for a person."""
    classes, accuracy = report["classes"], report["accuracy"]
    trained, tested = (sum(entry[rows] for entry in classes) for rows in ("train_rows", "test_rows"))
    lines = [f"{trained} training rows of {len(classes)} classes, {tested} held out ({report['held_out']})"]
    if accuracy is None:
        lines.append("no class has rows to hold out, so the accuracy is unknown")
    else:
        lines.append(f"balanced accuracy  {accuracy['balanced']:.4f} (overall {accuracy['overall']:.4f})")
        lines.append(f"macro F1           {accuracy['macro_f1']:.4f}")
        lines.append(f"worst class        {accuracy['worst']:.4f} (class {accuracy['worst_class']})")
        if len(classes) <= _MOST_CLASSES:
            width = max(len(str(entry["name"])) for entry in classes)
            for entry in classes:
                rate = "   -  " if entry["accuracy"] is None else f"{entry['accuracy']:.4f}"
                rows = f"{entry['test_rows']} ({entry['train_rows']} for training)"
                lines.append(f"  {entry['name']!s:<{width}}  {rate}  of {rows}")
    lines.append(f"linear path        {report['linear_share']:.0%} of the score, the rest is the network's")
    for part, geometry in zip(("training rows", "rows held out"), report["geometry"].values(), strict=True):
        if geometry is not None:
            delta = "unknown" if math.isnan(geometry["delta_of"]) else f"{geometry['delta_of']:.4f}"
            lines.append(f"{part:<19}Delta_GM {delta}. {geometry['verdict']}")
    about = "the distance of the class means to an orthogonal frame"
    limit = f"up to {FRAME_DISTANCE:g} counts as one, unless a pair or a class is out of place"
    return [*lines, f"Delta_GM is {about}: 0 is a frame, and {limit}."]
