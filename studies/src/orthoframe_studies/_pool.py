"""Jobs on the cores of this machine: one process per core, and one that dies takes only its own job with it."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from orthoframe_studies._jobs import Job
from orthoframe_studies._store import JobOutcome, Store, compute

_CONTEXT = multiprocessing.get_context("spawn")  # a fork would inherit the threads of torch
_SIGKILL = 9  # which `signal` does not have on Windows
_PATIENCE = 5.0  # seconds in which a training that is told to end can save its state


def run_jobs(
    jobs: Mapping[str, Job],
    store: Store,
    data_dir: Path | None,
    workers: int | None,
    on_done: Callable[[str, JobOutcome], None],
    on_start: Callable[[str], None],
) -> None:
    """Run jobs in the order given, and keep their results; both functions are told the key of a job.

    A job that raises, or whose process dies, fails alone. However this function is left, no process stays; results
    that are there are kept, and a training that was stopped goes on the next time.
    """
    waiting = deque(jobs)
    crew, busy = list[_Worker](), dict[Any, tuple[_Worker, str]]()
    try:
        for _ in range(min(workers or os.cpu_count() or 1, len(jobs))):
            crew.append(_Worker(store, data_dir))
        idle = list(crew)
        while waiting or busy:
            while waiting and idle:
                worker, key = idle.pop(), waiting.popleft()
                busy[worker.begin(key, jobs[key])] = worker, key
                on_start(key)
            for line in wait(list(busy)):
                worker, key = busy.pop(line)
                done = worker.end()
                idle.append(worker)
                if done is None:
                    waiting.append(key)  # another process has it; those that nobody has come first
                else:
                    on_done(key, done)
    finally:
        _stop(crew)


class _Worker:
    """A process that runs one job after the other, and is replaced when it has died."""

    def __init__(self, store: Store, data_dir: Path | None) -> None:
        self._given = store, data_dir
        self._start()

    def _start(self) -> None:
        self.line, theirs = _CONTEXT.Pipe()
        self.process: BaseProcess = _CONTEXT.Process(target=_serve, args=(theirs, *self._given), daemon=True)
        with _quiet_start():
            self.process.start()
        theirs.close()  # or its end would not be heard when the process dies

    def begin(self, key: str, job: Job) -> Connection:
        """Hand it a job; what is returned is ready when the job has ended."""
        try:
            self.line.send((key, job))
        except OSError:  # it died while it had nothing to do
            self._replace()
            self.line.send((key, job))
        self._began = time.perf_counter()
        return self.line

    def end(self) -> JobOutcome | None:
        """How the job ended; None if another process is at it."""
        try:
            done: JobOutcome | None = self.line.recv()
        except (EOFError, OSError):
            return JobOutcome(None, time.perf_counter() - self._began, _death(self._replace()))
        return done

    def _replace(self) -> int | None:
        """Start another process; the status of the one that died."""
        self.line.close()
        self.process.join(_PATIENCE)
        status = self.process.exitcode
        self.process.kill()
        self._start()
        return status


def _death(status: int | None) -> str:
    if status == -_SIGKILL:
        return "its process was killed; if memory ran out, use fewer workers"
    if status is not None and status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process ended with status {status}"


def _stop(crew: list[_Worker]) -> None:
    """End all processes: a training may save its state first."""
    try:
        for worker in crew:
            worker.process.terminate()
            worker.line.close()
        deadline = time.monotonic() + _PATIENCE
        for worker in crew:
            worker.process.join(max(0.0, deadline - time.monotonic()))
    finally:  # also when Ctrl-C comes a second time
        for worker in crew:
            worker.process.kill()
            worker.process.join()


@contextmanager
def _quiet_start() -> Iterator[None]:
    """A process that is started here has one thread, and ignores Ctrl-C, which the first process answers.

    A terminal sends the signal to all its processes, perhaps before this one could ask to ignore it.
    """
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    masks = hasattr(signal, "pthread_sigmask")  # not on Windows
    if masks:
        resource_tracker.ensure_running()  # it would undo the mask when it starts
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if masks:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def _serve(line: Connection, store: Store, data_dir: Path | None) -> None:
    """What a process does: job after job, until the process that wants them is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            key, job = line.recv()
            line.send(compute(key, job, store, data_dir))
        except (EOFError, BrokenPipeError):
            return


def _end_with_parent() -> None:
    """Without this, a job would run on after a kill -9 of the process that wanted it."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is not the first process
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os._exit(1)
