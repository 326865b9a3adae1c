"""Compare estimated probabilities of coverage with simulated reshuffling, over random settings; and time the largest.

Settings: 2 to 6 classes of 1 to 30 samples, batches of 3 to 30, and the number of epochs whose probability, in a few
simulations, is nearest to a random one, so that all ranges occur. Each is then simulated many times. A setting counts
as one of single classes if a batch of a single class is expected to turn up; the estimate takes that batch for a
connection.

    python benchmarks/coverage.py --json docs/results/coverage.json
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from numpy.typing import NDArray

from orthoframe import __version__, coverage

FEW_RUNS = 400
EPOCHS = (1, 2, 3, 4, 5, 6, 8, 10, 14, 20)
LARGE = {
    "1,000 classes of 5,000": [5000] * 1000,
    "classes of 1 to 1,000": list(range(1, 1001)),
    "classes of 11 to 1,010": list(range(11, 1011)),
}
# What must hold; a figure that is missed is printed with an exclamation mark.
SECONDS, MEDIAN_ERROR = 5.0, 0.02


def settings(number: int, seed: int) -> Iterator[tuple[list[int], int, int]]:
    """Class counts, batch sizes and epochs."""
    random = np.random.default_rng(seed)
    while number:
        counts = np.exp(random.uniform(0, np.log(31), random.integers(2, 7))).astype(int).tolist()
        batch_size = int(np.exp(random.uniform(np.log(3), np.log(31))))
        goal = random.uniform()
        shares = {
            epochs: coverage(counts, batch_size, epochs, simulations=FEW_RUNS, seed=seed).probability
            for epochs in EPOCHS
        }
        epochs = min(shares, key=lambda epochs: abs(shares[epochs] - goal))
        if 0 < shares[epochs] < 1:  # near 0 and 1 there is nothing to get wrong
            number -= 1
            yield counts, batch_size, epochs


def compare(counts: list[int], batch_size: int, epochs: int, runs: int) -> dict[str, Any]:
    """One setting: the estimate, and the simulation with its interval."""
    simulated = coverage(counts, batch_size, epochs, simulations=runs, seed=1)
    rows = np.array([batch_size] * (sum(counts) // batch_size) + [sum(counts) % batch_size])
    single = epochs * sum(
        np.prod((count - np.arange(size)) / (sum(counts) - np.arange(size)))
        for count in counts
        for size in rows[rows > 2]
        if size <= count
    )
    return {
        "class_counts": counts,
        "batch_size": batch_size,
        "epochs": epochs,
        "estimated": coverage(counts, batch_size, epochs).probability,
        "simulated": simulated.probability,
        "interval": simulated.interval,
        "single_class_batches": float(single),
    }


def errors_of(rows: list[dict[str, Any]]) -> NDArray[np.float64]:
    """How far the estimates are from the simulations."""
    return np.array([abs(row["estimated"] - row["simulated"]) for row in rows])


def table(rows: list[dict[str, Any]]) -> None:
    """Print the errors by range of probability."""
    print(f"{'simulated':>12}{'settings':>10}{'median error':>14}{'mean':>9}{'largest':>9}")
    for low, high in ((0.0, 0.05), (0.05, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.01)):
        inside = [row for row in rows if low <= row["simulated"] < high]
        if inside:
            errors = errors_of(inside)
            between = f"{low:.2f}-{min(high, 1):.2f}"
            print(f"{between:>12}{len(inside):>10}{np.median(errors):>14.4f}{errors.mean():>9.4f}{errors.max():>9.4f}")


def main() -> None:
    """Compare, print and perhaps write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--runs", type=int, default=20_000, help="simulations of each setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    seconds = {}
    for name, counts in LARGE.items():
        begun = time.process_time()
        coverage(counts, 128, 10)
        seconds[name] = time.process_time() - begun
        print(
            f"{name:<26}{seconds[name]:6.2f} s of CPU  (at most {SECONDS:g}){'' if seconds[name] <= SECONDS else ' !'}"
        )
    rows = []
    for number, setting in enumerate(settings(options.settings, options.seed), start=1):
        rows.append(compare(*setting, options.runs))
        print(f"\r{number} of {options.settings} settings", end="", flush=True)
    errors = errors_of(rows)
    missed = "" if np.median(errors) < MEDIAN_ERROR else " !"
    print(f"\nmedian error {np.median(errors):.4f}  (below {MEDIAN_ERROR:g}){missed}, mean {errors.mean():.4f}")
    few = [row for row in rows if row["single_class_batches"] < 0.5]
    print(f"{len(few)} settings in which a batch of a single class is rare")
    table(few)
    print(f"{len(rows) - len(few)} settings in which it is not")
    table([row for row in rows if row["single_class_batches"] >= 0.5])
    if options.json:
        about = {"orthoframe": __version__, "python": platform.python_version(), "numpy": np.__version__}
        figures = {"about": about, "runs": options.runs, "seconds": seconds, "settings": rows}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
