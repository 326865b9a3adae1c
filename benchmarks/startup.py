"""CPU seconds of the help of the command and of the shortest training, beside those of importing torch.

Each command runs in a process of its own, several times; the fastest counts, because the first may have to compile what
it imports. CPU time is that of the user and of the system together, of all threads and processes.

    python benchmarks/startup.py --json docs/results/startup.json
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from orthoframe import __version__

_RUN = [sys.executable, "-c", "import sys; from orthoframe.cli import main; sys.exit(main())"]
COMMANDS = {
    'python -c "import torch"': [sys.executable, "-c", "import torch"],
    "orthoframe --help": [*_RUN, "--help"],
    "orthoframe train --help": [*_RUN, "train", "--help"],
    "orthoframe train --epochs 1": [*_RUN, "train", "--epochs", "1"],
}
# What must hold; a figure that is missed is printed with an exclamation mark.
GOALS = {"orthoframe --help": 0.6, "orthoframe train --epochs 1": 6.0}


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a process and its children."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # compiled once, not in each run
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return spent() - before


def main() -> None:
    """Measure, print and perhaps write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each command")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    seconds = {}
    for name, command in COMMANDS.items():
        seconds[name] = min(cpu_seconds(command) for _ in range(options.repeats))
        goal = GOALS.get(name)
        limit = "" if goal is None else f"  (at most {goal:g}){'' if seconds[name] <= goal else ' !'}"
        print(f"{name:<32}{seconds[name]:6.2f} s of CPU{limit}", flush=True)
    if options.json:
        versions = {"orthoframe": __version__, "torch": torch.__version__, "python": platform.python_version()}
        data = {"cpu_seconds": seconds, "goals": GOALS, "versions": versions, "cores": os.cpu_count()}
        options.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
