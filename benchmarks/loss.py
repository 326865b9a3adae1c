"""Time the loss, forward and backward with normalisation, beside what a user would pick instead.

All in one run, interleaved, best of several: float32, dimension 128, 10 classes, two threads. The limit is the three
bare matrix products of a batch (rows x rows x dim, into memory that is already there): similarities, and the two
products of their gradient. Every contender's gradient is compared before anything is timed.

    python benchmarks/loss.py --json docs/results/loss.json

A second table has the other members of the family at 4,096 rows, relative to `all`; the frame term; and anchors that
are compared with keys alone, relative to the bare formula.

The compiled contender needs a C++ compiler, and is left out where there is none.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pytorch_metric_learning.losses import SupConLoss as MetricLearningLoss
from torch import Tensor

from orthoframe import frame_loss, make_frame, supcon_loss
from orthoframe.options import TEMPERATURE

DIM, CLASSES, THREADS = 128, 10, 2
LARGE = 65536
# What must hold (rows: contender: largest ratio); a figure that is missed is printed with an exclamation mark.
LIMITS: dict[int, dict[str, float]] = {
    256: {"eager": 0.8, "compiled": 1.0},
    1024: {"eager": 0.6, "compiled": 0.9},
    4096: {"eager": 0.2, "compiled": 0.6, "products": 0.75},
    16384: {"products": 0.75},
}
# Of `all`, at this many rows; the frame term, too.
FAMILY_ROWS = 4096
FAMILY: dict[str, tuple[dict[str, object], float]] = {
    "margin": ({"margin": 0.5}, 1.3),
    "class weights": ({"class_weights": torch.linspace(0.5, 2.0, CLASSES)}, 1.3),
    "sincere": ({"denominator": "sincere"}, 1.3),
    "class-average": ({"denominator": "class-average"}, 1.3),
    "negatives": ({"denominator": "negatives"}, 1.3),
}
FRAME_LIMIT = 0.05
# Keys alone, of the bare formula.
ANCHORS, KEYS, KEYS_LIMIT = 256, 4096, 1.2


def textbook(features: Tensor, labels: Tensor) -> Tensor:
    """The loss as one writes it down: a matrix of logits, a mask, a log-sum-exp."""
    rows = F.normalize(features, dim=1)
    itself = torch.eye(len(rows), dtype=torch.bool)
    positives = (labels[:, None] == labels) & ~itself
    logits = (rows @ rows.T / TEMPERATURE).masked_fill(itself, -torch.inf)
    log_probability = logits - logits.logsumexp(1, keepdim=True)
    return -(torch.where(positives, log_probability, 0.0).sum(1) / positives.sum(1)).mean()


def lean_textbook(features: Tensor, labels: Tensor) -> Tensor:
    """The same as an expert in torch would write it: float masks, products instead of choices, fewer operations."""
    rows = F.normalize(features, dim=1)
    position = torch.arange(len(rows), dtype=torch.int32)
    other = (position[:, None] != position).float()
    positives = (labels[:, None] == labels).float() * other
    logits = rows @ rows.T * (1 / TEMPERATURE)
    logits = logits - logits.amax(1, keepdim=True).detach()
    log_sums = (logits.exp() * other).sum(1).log()
    return (log_sums - (positives * logits).sum(1) / positives.sum(1)).mean()


def ours(features: Tensor, labels: Tensor) -> Tensor:
    """The loss of this package."""
    return supcon_loss(features, labels, temperature=TEMPERATURE)


def contenders(rows: int) -> dict[str, Callable[[], object]]:
    """What is timed at a size: one step each."""
    features = torch.randn(rows, DIM, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.arange(rows) % CLASSES

    def step(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Tensor]:
        def run() -> Tensor:
            return torch.autograd.grad(loss(features, labels), features)[0]

        return run

    unit = F.normalize(features.detach(), dim=1)
    square, product = torch.empty(rows, rows), torch.empty(rows, DIM)

    def products() -> None:
        torch.mm(unit, unit.T, out=square)
        torch.mm(square, unit, out=product)
        torch.mm(square.T, unit, out=product)

    steps: dict[str, Callable[[], object]] = {"ours": step(ours), "products": products}
    if rows <= 4096:
        steps["textbook"], steps["lean textbook"] = step(textbook), step(lean_textbook)
        steps["pytorch-metric-learning"] = step(MetricLearningLoss(temperature=TEMPERATURE))
        if shutil.which("g++") or shutil.which("clang++"):
            steps["compiled textbook"] = step(torch.compile(textbook, dynamic=False))
            steps["compiled lean textbook"] = step(torch.compile(lean_textbook, dynamic=False))
        expected = steps["ours"]()
        for name in steps.keys() - {"ours", "products"}:
            torch.testing.assert_close(steps[name](), expected, rtol=1e-3, atol=1e-6)
    return steps


def family() -> dict[str, Callable[[], object]]:
    """Steps of the other members of the family."""
    features = torch.randn(FAMILY_ROWS, DIM, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels, frame = torch.arange(FAMILY_ROWS) % CLASSES, make_frame(CLASSES, DIM)

    def step(**options: Any) -> Callable[[], object]:
        return lambda: torch.autograd.grad(supcon_loss(features, labels, temperature=TEMPERATURE, **options), features)

    steps = {"all": step(), **{name: step(**options) for name, (options, _) in FAMILY.items()}}
    steps["frame term"] = lambda: torch.autograd.grad(frame_loss(features, labels, frame), features)
    return steps


def bare_keys(anchors: Tensor, labels: Tensor, keys: Tensor, key_labels: Tensor) -> Tensor:
    """Anchors against keys as one writes it down."""
    logits = F.normalize(anchors, dim=1) @ F.normalize(keys, dim=1).T / TEMPERATURE
    positives = (labels[:, None] == key_labels).float()
    return (logits.logsumexp(1) - (positives * logits).sum(1) / positives.sum(1)).mean()


def keys_alone() -> dict[str, Callable[[], object]]:
    """Steps of anchors against a queue that does not learn, and against keys that do."""
    generator = torch.Generator().manual_seed(0)
    anchors = torch.randn(ANCHORS, DIM, generator=generator).requires_grad_()
    keys = torch.randn(KEYS, DIM, generator=generator).requires_grad_()
    labels, key_labels = torch.arange(ANCHORS) % CLASSES, torch.arange(KEYS) % CLASSES

    def ours_alone(anchors: Tensor, labels: Tensor, keys: Tensor, key_labels: Tensor) -> Tensor:
        options: dict[str, Any] = {"compare": "keys", "temperature": TEMPERATURE}
        return supcon_loss(anchors, labels, keys=keys, key_labels=key_labels, **options)

    queue = keys.detach()

    def step(loss: Callable[..., Tensor], keys: Tensor) -> Callable[[], Any]:
        learning = [anchors, keys] if keys.requires_grad else [anchors]
        return lambda: torch.autograd.grad(loss(anchors, labels, keys, key_labels), learning)

    steps: dict[str, Callable[[], Any]] = {}
    for name, loss in (("ours", ours_alone), ("bare", bare_keys)):
        steps |= {f"{name}, queue": step(loss, queue), f"{name}, learning keys": step(loss, keys)}
    for kind in ("queue", "learning keys"):
        for one, other in zip(steps[f"ours, {kind}"](), steps[f"bare, {kind}"](), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
    return steps


def best_times(steps: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Milliseconds of the fastest call of each, taken in turns until the time is up."""
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        step()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, step in steps.items():
            # Several in a row, as in training: the first one finds the caches full of another's data.
            for _ in range(5):
                start = time.perf_counter()
                step()
                best[name] = min(best[name], 1e3 * (time.perf_counter() - start))
    return best


def ratios(best: dict[str, float]) -> dict[str, float]:
    """Our time over those of the others."""
    kinds = {
        "eager": ("textbook", "pytorch-metric-learning"),
        "compiled": ("compiled textbook",),
        "products": ("products",),
        "lean": ("lean textbook",),
        "compiled lean": ("compiled lean textbook",),
    }
    peers = {kind: [best[name] for name in names if name in best] for kind, names in kinds.items()}
    return {kind: best["ours"] / min(times) for kind, times in peers.items() if times}


def judged(ratio: float, limit: float | None) -> str:
    """A ratio beside what was asked of it."""
    return f"{ratio:.2f}" if limit is None else f"{ratio:.2f} (at most {limit}){'' if ratio <= limit else ' !'}"


def large(contender: str) -> str:
    """In a process of its own: seconds and MiB above the inputs at 65,536 rows, or why it cannot."""
    script = f"""
import re, resource, sys, time, torch
sys.path.insert(0, {str(Path(__file__).parent)!r})
import loss
from pytorch_metric_learning.losses import SupConLoss
torch.set_num_threads({THREADS})
def member(options):
    return lambda features, labels: loss.supcon_loss(features, labels, **options)
family = {{name: member(options) for name, (options, _) in loss.FAMILY.items()}}
peers = {{"textbook": loss.textbook, "pytorch-metric-learning": SupConLoss()}}
step = {{"ours": loss.ours, **family, **peers}}[{contender!r}]
def peak():  # ru_maxrss would be that of the process which started this one, if larger
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1)) / 1024
def run(rows):
    features = torch.randn(rows, {DIM}, requires_grad=True)
    labels = torch.arange(rows) % {CLASSES}
    before, start = peak(), time.perf_counter()
    step(features, labels).backward()
    return time.perf_counter() - start, peak() - before
run(64)
if {contender!r} in peers:
    resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30, 16 * 2**30))
try:
    print("%.1f s, %.0f MiB above the inputs" % run({LARGE}))
except (RuntimeError, MemoryError):
    print("needs more than 16 GiB")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> None:
    """Measure, print the table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each size")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    machine = (
        f"{platform.machine()}, {THREADS} threads, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"
    )
    print(machine, "\n")
    print(
        "| rows | ours, ms | of the fastest eager peer | of the compiled textbook | of three matrix products "
        "| of a lean textbook | of that, compiled |"
    )
    print("|---|---|---|---|---|---|---|")
    sizes: dict[str, dict[str, dict[str, float]]] = {}
    for rows in LIMITS:
        best = best_times(contenders(rows), arguments.seconds)
        of_peers = ratios(best)
        cells = []
        for name in ("eager", "compiled", "products", "lean", "compiled lean"):
            cells.append(judged(of_peers[name], LIMITS[rows].get(name)) if name in of_peers else "")
        print(f"| {rows} | {best['ours']:.2f} | {' | '.join(cells)} |", flush=True)
        sizes[str(rows)] = {"milliseconds": best, "ratios": of_peers}
    times = best_times(family(), arguments.seconds)
    limits = {**{name: limit for name, (_, limit) in FAMILY.items()}, "frame term": FRAME_LIMIT}
    print(f"\n| {FAMILY_ROWS} rows | ms | of `all` |\n|---|---|---|")
    for name, limit in limits.items():
        print(f"| {name} | {times[name]:.2f} | {judged(times[name] / times['all'], limit)} |", flush=True)
    alone = best_times(keys_alone(), arguments.seconds)
    print(f"\n| {ANCHORS} anchors, {KEYS} keys alone | ms | of the bare formula |\n|---|---|---|")
    for kind in ("queue", "learning keys"):
        ratio = alone[f"ours, {kind}"] / alone[f"bare, {kind}"]
        print(f"| {kind} | {alone[f'ours, {kind}']:.2f} | {judged(ratio, KEYS_LIMIT)} |", flush=True)
    print(f"\n{LARGE} rows:")
    at_large = {}
    for name in ("ours", *FAMILY, "textbook", "pytorch-metric-learning"):
        at_large[name] = large(name)
        print(f"- {name}: {at_large[name]}", flush=True)
    if arguments.json:
        report = {"machine": machine, "sizes": sizes, "family": times, "keys alone": alone, str(LARGE): at_large}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
