"""Jobs on a Ray cluster: an existing one, or one of this machine.

Nodes need no common disk: a job runs in a folder of its node that is thrown away, its result comes back through Ray,
and the process that started the study keeps it. Every node must have orthoframe-studies installed, in the same
version. Data is looked for on the node, in the folder that was given or in the node's usual place.
"""

import logging
import math
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from orthoframe.errors import Option
from orthoframe_studies._jobs import Job, StudyError
from orthoframe_studies._store import JobOutcome, Store, attempt, sentence

_RETRIES = 3  # of a job whose process or node died
_POLL_SECONDS = 1.0
_QUEUED = 2  # jobs handed to Ray per core: those that wait make an autoscaler add nodes


def run_jobs(
    jobs: Mapping[str, Job],
    store: Store,
    data_dir: Path | None,
    workers: int | None,
    on_done: Callable[[str, JobOutcome], None],
    on_start: Callable[[str], None],
) -> None:
    """Run jobs in the order given, as the local pool does; a StudyError says why Ray or its cluster is not there.

    A job that raises fails alone. A job whose process or node died is run again, elsewhere if need be.
    """
    with _cluster(workers) as ray:
        gpus = 1 if ray.cluster_resources().get("GPU", 0) >= 1 else 0
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=_RETRIES)(_on_node)
        waiting, running = deque(jobs), dict[Any, tuple[str, ExitStack]]()
        with ExitStack() as claims:
            while waiting or running:
                # Nodes come and go, and so does the room that there is.
                room = workers or max(1, math.ceil(_QUEUED * ray.cluster_resources().get("CPU", 1)))
                for _ in range(min(len(waiting), room - len(running))):
                    key = waiting.popleft()
                    claim = claims.enter_context(ExitStack())
                    if not claim.enter_context(store.claimed(key)):
                        claim.close()
                        waiting.append(key)  # another process has it; those that nobody has come first
                    elif (done := store.get(key)) is not None:
                        claim.close()
                        on_done(key, done)
                    else:
                        running[task.remote(jobs[key], data_dir)] = key, claim
                        on_start(key)
                if not running:
                    time.sleep(_POLL_SECONDS)  # other processes have all that is left
                    continue
                for reference in ray.wait(list(running), timeout=_POLL_SECONDS)[0]:
                    key, claim = running.pop(reference)
                    with claim:
                        done = _kept(ray, reference, store, key, jobs[key])
                    on_done(key, done)


def _on_node(job: Job, data_dir: Path | None) -> JobOutcome:
    """What a node does; errors come back as sentences, so that Ray repeats only what was lost with a machine."""
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="orthoframe.") as folder:
        return attempt(job, Path(folder), data_dir)


def _kept(ray: Any, reference: Any, store: Store, key: str, job: Job) -> JobOutcome:
    """How a job ended; its result is in the store."""
    try:
        done: JobOutcome = ray.get(reference)
        store.put(key, job, done)
    except ray.exceptions.RayError as error:
        words = " ".join(str(error).split(". ")[0].split())
        return JobOutcome(None, 0.0, f"its process died {_RETRIES + 1} times, or Ray lost it: {words}")
    except OSError as error:
        return JobOutcome(None, 0.0, sentence(error))
    return done


@contextmanager
def _cluster(workers: int | None) -> Iterator[Any]:
    """Ray, connected to the cluster that `RAY_ADDRESS` names, or to one that lives as long as this context."""
    # Ray would repeat for ever a job that needs more memory than there is.
    os.environ.setdefault("RAY_task_oom_retries", str(_RETRIES))
    try:
        import ray
    except ImportError:
        raise StudyError(
            Option("engine", "ray"), " needs the package ray: pip install 'orthoframe-studies[ray]'"
        ) from None
    if ray.is_initialized():  # by the caller, who also ends it
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address:
            ray.init(address="auto", **quiet)
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody has been asked
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        words = " ".join(str(error).split())
        where = f"the Ray cluster at RAY_ADDRESS={address}" if address else "a Ray cluster on this machine"
        local = Option("engine", "local")
        raise StudyError(f"{where} cannot be reached: {words}; use ", local, ", or repair the cluster") from None
    with redirect_stdout(sys.stderr):  # where Ray may tell of nodes that died; our output is for tables
        try:
            yield ray
        finally:
            ray.shutdown()
