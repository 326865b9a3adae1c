"""Time the certificate: one core, from 10^5 to 10^8 memberships, beside networkx and scipy.

The plan: 1000 classes, batches of 256, reshuffled and bound (256 + 1000 rows per batch). Batches are made while they
are certified, and the time to make them is not counted. Memory is what the process takes above labels and plan.

    python benchmarks/certify.py --json docs/results/certify.json
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import networkx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from orthoframe import certify

CLASSES, ROWS = 1000, 256
SIZES = [10**5, 10**6, 10**7, 10**8]
LARGE = 10**7  # samples
# What must hold; a figure that is missed is printed with an exclamation mark.
RATE, MEMORY, NETWORKX, SCIPY = 10e6, 1024, 100, 1


class Plan:
    """Batches of one epoch, made one at a time, with the time that this takes."""

    def __init__(self, samples: int, classes: int = CLASSES, rows: int = ROWS) -> None:
        random = np.random.default_rng(0)
        self.labels = random.integers(classes, size=samples, dtype=np.int32)
        self.labels[:classes] = np.arange(classes)
        self.order = random.permutation(samples).astype(np.int32)
        self.bound = np.arange(classes, dtype=np.int32)
        self.rows, self.seconds, self.memberships = rows, 0.0, 0

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for start in range(0, len(self.order), self.rows):
            begun = time.perf_counter()
            batch = np.concatenate([self.order[start : start + self.rows], self.bound])
            self.memberships += len(batch)
            self.seconds += time.perf_counter() - begun
            yield batch


def timed(plan: Plan, verdict: Callable[[NDArray[Any], Any], bool]) -> float:
    """Seconds of a verdict without those of making batches."""
    plan.seconds, plan.memberships = 0.0, 0
    start = time.perf_counter()
    assert verdict(plan.labels, plan)
    return time.perf_counter() - start - plan.seconds


def ours(labels: NDArray[Any], batches: Any) -> bool:
    """The certificate."""
    return certify(labels, batches).holds


def by_networkx(labels: NDArray[Any], batches: Any) -> bool:
    """The condition as stated, on the batch interaction graph as defined: an edge for each two rows of a batch."""
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(labels)))
    for batch in batches:
        members = batch.tolist()
        graph.add_edges_from((i, j) for place, i in enumerate(members) for j in members[:place])
    met = {(int(labels[i]), int(labels[j])) for i, j in graph.edges}
    names = np.unique(labels).tolist()
    return all((a, b) in met or (b, a) in met for a in names for b in names if a < b) and all(
        networkx.is_connected(graph.subgraph(np.flatnonzero(labels == name).tolist())) for name in names
    )


def by_networkx_stars(labels: NDArray[Any], batches: Any) -> bool:
    """The same with as few edges as possible: in each batch from the first row of a class to its others."""
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(labels)))
    met: set[tuple[int, int]] = set()
    for batch in batches:
        first: dict[int, int] = {}
        for i, y in zip(batch.tolist(), labels[batch].tolist(), strict=True):
            graph.add_edge(first.setdefault(y, i), i)
        met.update((a, b) for a in first for b in first if a < b)
    names = len(np.unique(labels))
    return len(met) == names * (names - 1) // 2 and networkx.number_connected_components(graph) == names


def by_scipy(labels: NDArray[Any], batches: Any) -> bool:
    """Components alone, without class pairs: an edge from each row to the first of its class in the batch."""
    every = list(batches)
    samples = np.concatenate(every)
    classes = int(labels.max()) + 1
    keys = np.repeat(np.arange(len(every), dtype=np.int64), [len(batch) for batch in every]) * classes + labels[samples]
    first = np.empty(len(every) * classes, dtype=samples.dtype)
    first[keys[::-1]] = samples[::-1]
    edges = csr_array((np.ones(len(samples), np.int8), (samples, first[keys])), shape=(len(labels), len(labels)))
    return bool(connected_components(edges, directed=False, return_labels=True)[0] == classes)


def peak() -> float:
    """Largest resident memory of this process so far, in MiB."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match.group(1)) / 1024 if match else float("nan")


def large() -> dict[str, float]:
    """Rate and memory at 10 million samples; to be run in a process of its own."""
    timed(Plan(20000), ours)
    plan = Plan(LARGE)
    before = peak()
    seconds = timed(plan, ours)
    memory = peak() - before
    seconds = min(seconds, timed(plan, ours))
    return {"memberships": plan.memberships, "rate": plan.memberships / seconds, "mebibytes": memory}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("--large", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.large:
        print(json.dumps(large()))
        return
    print(f"{platform.machine()}, one core\n\n| memberships | seconds | million per second |\n|---|---|---|")
    report: dict[str, Any] = {"linear": {}}
    for size in SIZES:
        plan = Plan(size * ROWS // (ROWS + CLASSES))
        seconds = min(timed(plan, ours) for _ in range(3 if size < 10**8 else 1))
        report["linear"][str(plan.memberships)] = seconds
        print(f"| {plan.memberships:.2e} | {seconds:.3f} | {plan.memberships / seconds / 1e6:.1f} |", flush=True)
        del plan

    def mark(good: bool) -> str:
        return "" if good else " !"

    child = subprocess.run([sys.executable, __file__, "--large"], capture_output=True, text=True, check=True)
    run = report["large"] = json.loads(child.stdout)
    print(
        f"\n10 million samples: {run['rate'] / 1e6:.1f} million memberships per second{mark(run['rate'] >= RATE)}",
        end=", ",
    )
    print(f"{run['mebibytes']:.0f} MiB above labels and plan{mark(run['mebibytes'] < MEMORY)}")

    plan = Plan(20000, classes=100)
    best = min(timed(plan, ours) for _ in range(5))
    contenders = (("networkx", by_networkx), ("networkx, fewest edges", by_networkx_stars))
    report["times faster"] = {name: timed(plan, verdict) / best for name, verdict in contenders}
    plan = Plan(2 * 10**6)
    pairs = [(timed(plan, ours), timed(plan, by_scipy)) for _ in range(3)]
    report["times faster"]["scipy"] = min(second for _, second in pairs) / min(first for first, _ in pairs)
    for name, factor in report["times faster"].items():
        goal = {"networkx": NETWORKX, "scipy": SCIPY}.get(name, 0)
        print(f"{factor:.1f} times faster than {name}{mark(factor >= goal)}")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
