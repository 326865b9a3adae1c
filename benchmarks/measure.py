"""Time the statistics of classes beside the one matrix product that they need, and beside masks in torch.

500,000 rows of dimension 512 in float32, 100 classes: the second moment alone is a float64 product of 512 x rows x 512.

    python benchmarks/measure.py --json docs/results/measure.json
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orthoframe import ClassStatistics

DIM, CLASSES, ROWS, THREADS = 512, 100, 500_000, 2
SIZES = [10**4, 10**5, 10**6]
# What must hold; a figure that is missed is printed with an exclamation mark.
PRODUCT, MASKS = 2.0, 5.0


def ours(features: Tensor, labels: Tensor) -> Tensor:
    """Counts, means, spreads and scatter in one pass."""
    statistics = ClassStatistics(CLASSES, features.shape[1])
    statistics.update(features, labels)
    assert statistics.within is not None
    return statistics.within


def product(features: Tensor, labels: Tensor) -> Tensor:
    """The one product, in float64, of parts that are cast and nothing else."""
    total = torch.zeros(features.shape[1], features.shape[1], dtype=torch.float64)
    for part in torch.split(features, 4096):
        rows = part.double()
        total.addmm_(rows.T, rows)
    return total


def masks(features: Tensor, labels: Tensor) -> Tensor:
    """The same numbers as ours, class by class: select its rows, and take their mean and scatter."""
    total = torch.zeros(features.shape[1], features.shape[1], dtype=torch.float64)
    for c in range(CLASSES):
        rows = torch.where((labels == c)[:, None], features, 0.0).double()
        count = (labels == c).sum()
        mean = rows.sum(0) / count
        total += rows.T @ rows - count * torch.outer(mean, mean)
    return total


def select(features: Tensor, labels: Tensor) -> Tensor:
    """The best that masks can do: rows are selected, so that each is multiplied once."""
    total = torch.zeros(features.shape[1], features.shape[1], dtype=torch.float64)
    for c in range(CLASSES):
        rows = features[labels == c].double()
        rows = rows - rows.mean(0)
        total.addmm_(rows.T, rows)
    return total


def data(rows: int) -> tuple[Tensor, Tensor]:
    """Features and labels of a size."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(rows, DIM, generator=generator), torch.randint(CLASSES, (rows,), generator=generator)


def seconds(step: Callable[[Tensor, Tensor], Tensor], *inputs: Tensor) -> float:
    """The duration of one call."""
    start = time.perf_counter()
    step(*inputs)
    return time.perf_counter() - start


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write every figure here")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    report: dict[str, Any] = {"linear": {}}
    print(f"{platform.machine()}, {THREADS} threads, torch {torch.__version__}\n")
    print("| rows | seconds | rows a second |\n|---|---|---|")
    for rows in SIZES:
        inputs = data(rows)
        best = min(seconds(ours, *inputs) for _ in range(3))
        report["linear"][str(rows)] = best
        print(f"| {rows:,} | {best:.3f} | {rows / best:,.0f} |", flush=True)
    inputs = data(ROWS)
    rounds = [{step.__name__: seconds(step, *inputs) for step in (ours, product, select)} for _ in range(3)]
    best_of = {name: min(times[name] for times in rounds) for name in rounds[0]}
    # Masks over all rows are so slow that a part of the rows tells enough.
    part = [values[: ROWS // 25] for values in inputs]
    best_of["masks, a part of the rows"] = seconds(masks, *part)
    best_of["ours, a part of the rows"] = min(seconds(ours, *part) for _ in range(3))
    report["seconds"] = best_of
    to_product = best_of["ours"] / best_of["product"]
    faster = best_of["masks, a part of the rows"] / best_of["ours, a part of the rows"]
    print(f"\n{ROWS:,} rows: {best_of['ours']:.2f} s")
    print(f"- {to_product:.2f} of the product alone (at most {PRODUCT}){'' if to_product <= PRODUCT else ' !'}")
    print(f"- {faster:.1f} times faster than masks over all rows (at least {MASKS}){'' if faster >= MASKS else ' !'}")
    print(f"- {best_of['select'] / best_of['ours']:.2f} times faster than selecting the rows of each class")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
