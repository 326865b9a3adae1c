"""Many cases, in processes that have little memory and are watched: one that dies or hangs is a failure, too."""

import json
import os
import resource
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tests.fuzz.cases import TARGETS, Failure, scratch, tried
from tests.processes import forked

MEMORY = 512 * 2**20
"""Bytes that a process may take beside what it has once the valid inputs are made."""
SECONDS = 20.0
"""That a case may take."""
_TOGETHER = 5000  # cases of a process at most


@dataclass(frozen=True)
class Part:
    """Consecutive cases of a target."""

    target: str
    seed: int
    first: int
    count: int


def parts_of(target, seed, count, most=_TOGETHER):
    return [Part(target, seed, first, min(most, count - first)) for first in range(0, count, most)]


def run_parts(parts, processes=2):
    """Run parts side by side; the failures."""
    waiting, failures = deque(parts), []
    running: list[_Worker] = []
    with scratch() as folder:
        while waiting or running:
            while waiting and len(running) < processes:
                running.append(_Worker(waiting.popleft(), folder))
            time.sleep(0.05)
            for worker in list(running):
                fault = worker.fault()
                if fault is None and worker.process.is_alive():
                    continue
                running.remove(worker)
                failures += worker.end()
                if fault is not None:  # the cases after it are still to be tried
                    part, done = worker.part, worker.done
                    failures.append(Failure(part.target, part.seed, part.first + done, fault, worker.said()))
                    rest = part.count - done - 1
                    waiting.extendleft([Part(part.target, part.seed, part.first + done + 1, rest)] if rest > 0 else [])
    return failures


class _Worker:
    """A process that is at a part."""

    def __init__(self, part, folder):
        self.part = part
        self.number = forked().Value("q", -1, lock=False)  # of the case, counted from the first; -1 while it prepares
        self.log = folder / f"{part.target}-{part.first}.jsonl"
        self.process = forked().Process(target=_work, args=(part, self.number, str(self.log)))
        self.process.start()
        self.seen, self.since = -1, time.monotonic()

    @property
    def done(self):
        return max(self.number.value, 0)

    def fault(self):
        """Why it has to be ended, or did not end by itself."""
        if self.number.value != self.seen:
            self.seen, self.since = self.number.value, time.monotonic()
        if self.process.exitcode:
            return f"the process died with status {self.process.exitcode}"
        late = time.monotonic() - self.since > SECONDS * (3 if self.seen < 0 else 1)
        return f"no end after {SECONDS:g} s" if late and self.process.is_alive() else None

    def said(self):
        """The last that it printed."""
        return self.log.with_suffix(".txt").read_text(errors="replace")[-5000:]

    def end(self):
        self.process.kill()
        self.process.join()
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [Failure(**json.loads(line)) for line in lines]


def _work(part, number, log):
    torch.set_num_threads(1)
    with open(Path(log).with_suffix(".txt"), "w") as printed:  # by libraries in C, too
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    with scratch() as folder, open(log, "w") as file:
        (folder / "valid").mkdir()
        valid = TARGETS[part.target].prepare(folder / "valid")
        limit_memory()
        (folder / "case").mkdir()
        for place in range(part.count):
            number.value = place
            failure = tried(part.target, part.seed, part.first + place, valid, folder / "case")
            if failure is not None:
                file.write(json.dumps(asdict(failure)) + "\n")
                file.flush()
        number.value = part.count


def limit_memory(more=MEMORY):
    """Let this process have so many more bytes than it has now, and no core dump."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now = int(status["VmData"].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (now + more, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
