"""Jobs that note each time they are run, and then behave in a given way."""

import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from orthoframe_studies import JobResult, compute, key

_LONG = 60.0


@dataclass(frozen=True)
class Noted:
    """Appends its number, process and node to a file.

    Attributes:
        act: `raise`, `kill` (itself, with SIGKILL), or `wait` until the file `go` stands beside the log.
    """

    log: str
    number: int
    act: str = ""

    def to_dict(self):
        return {"kind": "noted", **asdict(self)}

    def run(self, folder, data_dir):
        with open(self.log, "a") as file:
            file.write(f"{self.number} {os.getpid()} {_node()}\n")
        if self.act == "raise":
            raise ValueError("the moon\nis full")
        if self.act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        deadline = time.monotonic() + _LONG
        while self.act == "wait" and not Path(self.log).with_name("go").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        import torch

        final = {"value": float(self.number), "threads": float(torch.get_num_threads()), "lost": float("nan")}
        return JobResult(final, {})


def _node():
    import sys

    ray = sys.modules.get("ray")
    return ray.get_runtime_context().get_node_id() if ray is not None and ray.is_initialized() else "here"


def run_here(jobs, store, data_dir, workers, on_done, on_start):
    """An engine without processes: a worker takes seconds to load torch, and tests of the pool have them."""
    for name, job in jobs.items():
        on_start(name)
        on_done(name, compute(name, job, store, data_dir))


def by_key(*jobs):
    return {key(job): job for job in jobs}


def notes(log):
    """Number, process and node of each time that a job was run."""
    if not Path(log).exists():
        return []
    return [
        (int(number), int(process), node)
        for number, process, node in (line.split() for line in Path(log).read_text().splitlines())
    ]


def numbers(log):
    return sorted(number for number, _, _ in notes(log))


def until(holds, seconds=30):
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)


def is_alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
