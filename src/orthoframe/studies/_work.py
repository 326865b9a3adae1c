"""One job, run: with a result that is kept, or with a sentence that says why there is none."""

import time
import warnings
from pathlib import Path

from orthoframe.errors import DataError, TrainingError
from orthoframe.studies._jobs import Job
from orthoframe.studies._source import source_commit
from orthoframe.studies._store import Done, Store

_WAIT_SECONDS = 1.0  # for another process that has the job


def attempt(job: Job, folder: Path, data_dir: Path | None) -> Done:
    """Run a job; whatever it raises becomes a sentence."""
    start = time.perf_counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would be printed into the progress of many jobs; numbers tell
            result = job.run(folder, data_dir)
    except Exception as error:
        return Done(None, time.perf_counter() - start, sentence(error))
    return Done(result, time.perf_counter() - start, commit=source_commit()[0])


def compute(key: str, job: Job, store: Store, data_dir: Path | None) -> Done | None:
    """Take the result of a job from the store, or run it and keep the result.

    Returns:
        How it ended; None if another process is at it, and has not ended yet.
    """
    try:
        with store.claimed(key, _WAIT_SECONDS) as ours:
            if not ours:
                return None
            done = store.get(key)  # of a process that had it before us
            if done is None:
                done = attempt(job, store.folder(key), data_dir)
                if done.failure is None:
                    store.put(key, job, done)
            return done
    except OSError as error:
        return Done(None, 0.0, sentence(error))


def sentence(error: Exception) -> str:
    """What an error says, in a line."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror or error}"
    words, kind = " ".join(str(error).split()), type(error).__name__
    if not words:
        return f"unexpected {kind}"
    told = (TrainingError, DataError, ValueError)  # these are written for a reader
    return words if isinstance(error, told) else f"unexpected {kind}: {words}"
