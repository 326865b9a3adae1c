"""Seconds of the shortest real training on a quiet machine, and with four busy processes beside it.

The command trains as a user would, with no variable that limits threads. Quiet and busy runs take turns, and the
fastest of each counts. The busy processes compute all the time, with one thread each.

    python benchmarks/busy.py --json docs/results/busy.json
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from orthoframe import __version__

COMMAND = [sys.executable, "-c", "import sys; from orthoframe.cli import main; sys.exit(main())", "train"]
BUSY = 4  # processes
GOAL = 4.0  # times the quiet seconds
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def seconds() -> float:
    """Of the demonstration, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in _THREADS}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(COMMAND, cwd=folder, env=environment, check=False, capture_output=True)
    return time.perf_counter() - start


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Processes that compute until the block ends."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


def main() -> None:
    """Measure, print and perhaps write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    quiet, beside = [], []
    for _ in range(options.repeats):
        quiet.append(seconds())
        with busy(BUSY):
            beside.append(seconds())
        print(f"quiet {quiet[-1]:.1f} s, with {BUSY} busy processes {beside[-1]:.1f} s", flush=True)
    ratio = min(beside) / min(quiet)
    print(f"ratio {ratio:.2f} (at most {GOAL:g}){'' if ratio <= GOAL else ' !'}")
    if options.json:
        versions = {"orthoframe": __version__, "torch": torch.__version__, "python": platform.python_version()}
        data = {"quiet": quiet, "busy": beside, "busy_processes": BUSY, "ratio": ratio, "goal": GOAL}
        options.json.write_text(json.dumps({**data, "versions": versions, "cores": os.cpu_count()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
