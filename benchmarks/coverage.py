"""Compare computed probabilities of coverage with simulated reshuffling, over random settings; and time the largest.

Settings: 2 to 6 classes of 1 to 30 samples, batches of 3 to 30, and the number of epochs whose probability is nearest
to a random one, so that all ranges occur. Each is simulated many times. A setting counts as one of single classes if
a batch of a single class is expected to turn up; there the computed probability takes that batch for a connection.

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
from scipy.stats import binomtest

from orthoframe import __version__, coverage

EPOCHS = (1, 2, 3, 4, 5, 6, 8, 10, 14, 20)
LARGE = {
    "1,000 classes of 5,000": [5000] * 1000,
    "classes of 1 to 1,000": list(range(1, 1001)),
    "classes of 11 to 1,010": list(range(11, 1011)),
}
# What must hold; a figure that is missed is printed with an exclamation mark.
SECONDS, ERROR = 5.0, 0.07


def settings(number: int, seed: int) -> Iterator[tuple[list[int], int, int]]:
    """Class counts, batch sizes and epochs."""
    random = np.random.default_rng(seed)
    while number:
        counts = np.exp(random.uniform(0, np.log(31), random.integers(2, 7))).astype(int).tolist()
        batch_size = int(np.exp(random.uniform(np.log(3), np.log(31))))
        wanted = random.uniform()
        found = {epochs: coverage(counts, batch_size, epochs).probability for epochs in EPOCHS}
        epochs = min(found, key=lambda epochs: abs(found[epochs] - wanted))
        if 1e-3 < found[epochs] < 1 - 1e-3:  # near 0 and 1 there is nothing to get wrong
            number -= 1
            yield counts, batch_size, epochs


def compare(counts: list[int], batch_size: int, epochs: int, runs: int) -> dict[str, Any]:
    """One setting: computed, simulated, the bounds, and whether they agree."""
    found = coverage(counts, batch_size, epochs)
    drawn = coverage(counts, batch_size, epochs, simulations=runs)
    low, high = binomtest(round(drawn.probability * runs), runs).proportion_ci(0.9999)
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
        "computed": found.probability,
        "simulated": drawn.probability,
        "bounds": found.bounds,
        "single_class_batches": float(single),
        # The interval of the simulation, and the bounds of the computation, have a value in common.
        "agrees": bool(low <= found.bounds[1] and high >= found.bounds[0]),
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Print the errors by range of probability."""
    print(f"{'simulated':>12}{'settings':>10}{'mean error':>12}{'largest':>9}{'outside bounds':>16}")
    for low, high in ((0.0, 0.05), (0.05, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.01)):
        inside = [row for row in rows if low <= row["simulated"] < high]
        if inside:
            errors = [abs(row["computed"] - row["simulated"]) for row in inside]
            missed = sum(not row["agrees"] for row in inside)
            mark = " !" if max(errors) > ERROR or missed else ""
            between = f"{low:.2f}-{min(high, 1):.2f}"
            print(f"{between:>12}{len(inside):>10}{np.mean(errors):>12.4f}{max(errors):>9.4f}{missed:>16}{mark}")


def main() -> None:
    """Compare, print and perhaps write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--runs", type=int, default=100_000, help="simulations of each setting")
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
    few = [row for row in rows if row["single_class_batches"] < 0.5]
    print(f"\n{len(few)} settings in which a batch of a single class is rare")
    table(few)
    print(f"{len(rows) - len(few)} settings in which it is not")
    table([row for row in rows if row["single_class_batches"] >= 0.5])
    if options.json:
        about = {"orthoframe": __version__, "python": platform.python_version(), "numpy": np.__version__}
        figures = {"about": about, "runs": options.runs, "seconds": seconds, "settings": rows}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
