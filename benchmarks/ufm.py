"""Time the solver for free features beside optimisers that a user would pick, and the predicted Gram matrix.

All contenders use the same loss and start, in float64; what differs is how they step. They stop once the class means
are within a distance of the orthogonal frame.

    python benchmarks/ufm.py --json docs/results/ufm.json
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from orthoframe import predict_gram, solve_ufm, supcon_loss
from orthoframe.geometry import distance_to_gram, frame_gram
from orthoframe.ufm import random_rows

LABELS = torch.tensor([c for c in range(10) for _ in range(50 if c < 5 else 5)])
SELECT = torch.nn.functional.one_hot(LABELS).double().T / torch.bincount(LABELS)[:, None]  # means of classes
DIM, GOALS, MOST = 32, (1e-3, 1e-6), 10_000
LARGE, CLASSES, LARGE_DIM = 10_000, 50, 64
# What must hold; a figure that is missed is printed with an exclamation mark.
SECONDS, BYTES, DELTA, GRAM_SECONDS = 60.0, 2**30, 1e-6, 10.0


class _Reached(Exception):
    pass


class Watch:
    """Counts evaluations of the loss, and notes when each distance to the frame was reached."""

    def __init__(self, temperature: float) -> None:
        self.temperature, self.evaluations = temperature, 0
        self.reached: dict[float, int] = {}

    def loss(self, features: Tensor) -> Tensor:
        """The loss of features of any length; they become non-negative and unit here."""
        self.evaluations += 1
        rows = torch.nn.functional.normalize(features.relu(), dim=1)
        means = SELECT @ rows.detach()
        distance = distance_to_gram(means @ means.T, frame_gram(len(means)))
        for goal in GOALS:
            if distance <= goal:
                self.reached.setdefault(goal, self.evaluations)
        if len(self.reached) == len(GOALS) or self.evaluations >= MOST:
            raise _Reached
        return supcon_loss(rows, LABELS, temperature=self.temperature, normalize=False)


def ours(watch: Watch) -> None:
    """Projected Barzilai-Borwein steps; evaluations are those that it counts itself."""
    for goal in GOALS:
        # The tolerance bounds cosines, and so the distance: ask for more than is needed.
        solution = solve_ufm(LABELS, DIM, temperature=watch.temperature, tolerance=goal / 10)
        if solution.geometry.delta_of <= goal:
            watch.reached[goal] = solution.evaluations


def gradient_descent(rate: float, momentum: float) -> Callable[[Watch], None]:
    """Stochastic gradient descent's step, with the whole batch."""
    return lambda watch: _steps(watch, lambda rows: torch.optim.SGD([rows], lr=rate, momentum=momentum))


def adam(rate: float) -> Callable[[Watch], None]:
    """Adam."""
    return lambda watch: _steps(watch, lambda rows: torch.optim.Adam([rows], lr=rate))


def _steps(watch: Watch, make: Callable[[Tensor], torch.optim.Optimizer]) -> None:
    rows = random_rows(len(LABELS), DIM, True, 0, 0).requires_grad_()
    optimizer = make(rows)
    while True:
        optimizer.zero_grad()
        watch.loss(rows).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def scipy_lbfgs(watch: Watch) -> None:
    """L-BFGS-B with its own bounds."""

    def slope(flat: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        rows = torch.from_numpy(flat.copy()).view(-1, DIM).requires_grad_()
        value = watch.loss(rows)
        (gradient,) = torch.autograd.grad(value, rows)
        return float(value.detach()), gradient.reshape(-1).numpy()

    start = random_rows(len(LABELS), DIM, True, 0, 0).reshape(-1).numpy()
    options = {"maxiter": MOST, "maxfun": MOST, "ftol": 0.0, "gtol": 1e-14, "maxcor": 20}
    minimize(slope, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start), options=options)


CONTENDERS: dict[str, Callable[[Watch], None]] = {
    "solve_ufm": ours,
    "L-BFGS-B (scipy)": scipy_lbfgs,
    "Adam, 0.01": adam(0.01),
    "Adam, 0.1": adam(0.1),
    "momentum 0.9, rate 10": gradient_descent(10.0, 0.9),
    "momentum 0.9, rate 100": gradient_descent(100.0, 0.9),
    "gradient descent, rate 100": gradient_descent(100.0, 0.0),
}


def race(temperature: float) -> Iterator[dict[str, Any]]:
    """Evaluations that each contender needs."""
    for name, contender in CONTENDERS.items():
        watch = Watch(temperature)
        with suppress(_Reached):
            contender(watch)
        yield {"name": name, "temperature": temperature, **{str(goal): watch.reached.get(goal) for goal in GOALS}}


def large() -> dict[str, Any]:
    """Ten thousand samples, timed, with the memory that they took."""
    labels = torch.arange(LARGE) % CLASSES
    before = _memory("VmRSS")
    start = time.perf_counter()
    solution = solve_ufm(labels, LARGE_DIM)
    return {
        "seconds": time.perf_counter() - start,
        "steps": solution.steps,
        "gap": solution.gap,
        "delta_of": solution.geometry.delta_of,
        "bytes": _memory("VmHWM"),
        "bytes_before": before,
    }


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def grams() -> Iterator[dict[str, Any]]:
    """Seconds that predictions take."""
    ten = [5000, 3000, 1800, 1080, 640, 390, 230, 140, 83, 50]
    for name, counts in (
        ("10 classes, 2 sizes", [5000] * 5 + [50] * 5),
        ("1000 classes, 10 sizes", [count for count in ten for _ in range(100)]),
        ("100 classes, long tail", [int(500 * 100 ** (-c / 99)) for c in range(100)]),
    ):
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            predict_gram(counts)
            seconds.append(time.perf_counter() - start)
        yield {"name": name, "sizes": len(set(counts)), "seconds": min(seconds)}


def main() -> None:
    """Run everything and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    peak = large()  # first: the peak of memory is that of the process
    good = peak["seconds"] < SECONDS and peak["bytes"] < BYTES and peak["delta_of"] < DELTA
    print(f"{LARGE:,} samples, {CLASSES} classes, {LARGE_DIM} dimensions: {peak['seconds']:.1f} s,", end=" ")
    print(f"{peak['steps']} steps, distance to the frame {peak['delta_of']:.1e},", end=" ")
    print(f"{peak['bytes'] / 2**20:.0f} MiB in all ({peak['bytes_before'] / 2**20:.0f} before){'' if good else ' !'}")
    predictions = list(grams())
    for row in predictions:
        print(f"predict_gram, {row['name']}: {row['seconds']:.3f} s{'' if row['seconds'] < GRAM_SECONDS else ' !'}")
    torch.set_num_threads(1)
    races = []
    for temperature in (1.0, 0.1):
        print(
            f"\nEvaluations of the loss at temperature {temperature}, to a distance of " + " and ".join(map(str, GOALS))
        )
        for row in race(temperature):
            races.append(row)
            shown = [f"{row[str(goal)]:,}" if row[str(goal)] else f"> {MOST:,}" for goal in GOALS]
            print(f"{row['name']:<28}" + "".join(f"{value:>12}" for value in shown), flush=True)
    if arguments.json:
        data = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
        text = json.dumps({**data, "large": peak, "predictions": predictions, "races": races}, indent=2)
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
