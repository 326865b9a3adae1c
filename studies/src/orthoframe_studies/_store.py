"""Results by the hash of their job, so that nothing is computed twice; and one job, computed."""

import json
import os
import subprocess
import time
import warnings
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import msgspec

from orthoframe.errors import OrthoframeError, reason_of, unwritable
from orthoframe.files import locked, parsed, read_small, write_atomic
from orthoframe_studies._jobs import BegunAnew, Job, JobResult, StudyError

_WAIT_SECONDS = 1.0  # for another process that has the job


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended."""

    result: JobResult | None  # what it computed; None if it failed
    seconds: float  # how long it took
    failure: str | None = None  # why it failed, in a sentence; None if it did not
    commit: str | None = None  # the commit of the source that computed it; None if it is not known
    note: str | None = None  # what a reader should know of this time, which is not kept


def store_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of all results: the one given, else `ORTHOFRAME_STORE`, else `studies` in the user's cache."""
    chosen = folder or os.environ.get("ORTHOFRAME_STORE")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("orthoframe") / "studies"


@dataclass(frozen=True)
class Store:
    """Results by the key of their job, each in a folder of its own.

    The job also runs in that folder, so that what a killed process left there is used.
    """

    path: Path

    def check(self) -> None:
        """Raise a `StudyError` for a folder that cannot be written to, before any work."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError("it must be writable")
        except OSError as error:
            raise StudyError(*unwritable(self.path, error, "store")) from None

    def folder(self, key: str) -> Path:
        """The folder of a job; it need not exist."""
        return self.path / key

    def get(self, key: str) -> JobOutcome | None:
        """A result; None if there is none, or one that cannot be read."""
        try:
            return parsed(_read_done, self.folder(key) / "result.json")
        except (OSError, ValueError):
            return None

    def put(self, key: str, job: Job, done: JobOutcome) -> None:
        """Keep a result, but no failure; a reader finds all of it or nothing."""
        if done.result is None:
            return
        # NaN is written as `NaN`, which Python reads: a result is the same before and after.
        kept = {"job": job.to_dict(), "result": asdict(done.result), "seconds": done.seconds, "commit": done.commit}
        self.folder(key).mkdir(parents=True, exist_ok=True)
        write_atomic(self.folder(key) / "result.json", json.dumps(kept) + "\n")

    def claimed(self, key: str, seconds: float = 0.0) -> AbstractContextManager[bool]:
        """Keep other processes from a job, as `locked` does; yields whether the job is ours."""
        self.folder(key).mkdir(parents=True, exist_ok=True)
        return locked(self.folder(key), seconds)


def _read_done(path: Path) -> JobOutcome:
    data = json.loads(read_small(path))
    result = msgspec.convert(data["result"], JobResult)
    return JobOutcome(result, float(data["seconds"]), commit=msgspec.convert(data.get("commit"), str | None))


def compute(key: str, job: Job, store: Store, data_dir: Path | None) -> JobOutcome | None:
    """Take the result of a job from the store, or run it and keep the result; None while another process is at it."""
    try:
        with store.claimed(key, _WAIT_SECONDS) as ours:
            if not ours:
                return None
            done = store.get(key)  # of a process that had it before us
            if done is None:
                done = attempt(job, store.folder(key), data_dir)
                store.put(key, job, done)
            return done
    except OSError as error:
        return JobOutcome(None, 0.0, sentence(error))


def attempt(job: Job, folder: Path, data_dir: Path | None) -> JobOutcome:
    """Run a job in its folder, which exists; whatever it raises becomes a sentence."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("ignore")  # they would be printed into the progress of many jobs; numbers tell
            warnings.simplefilter("always", BegunAnew)
            result = job.run(folder, data_dir)
    except Exception as error:
        return JobOutcome(None, time.perf_counter() - start, sentence(error))
    note = "; ".join(str(each.message) for each in said) or None
    return JobOutcome(result, time.perf_counter() - start, commit=source_commit()[0], note=note)


def sentence(error: Exception) -> str:
    """What an error says, in one line."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {reason_of(error)}"
    words, kind = " ".join(str(error).split()), type(error).__name__
    if not words:
        return f"unexpected {kind}"
    # Errors of this package, and values that are refused, are written for a reader.
    return words if isinstance(error, OrthoframeError | ValueError) else f"unexpected {kind}: {words}"


@cache
def source_commit() -> tuple[str | None, bool | None]:
    """The commit of this source, and whether files differ from it; None if it is not in a repository of its own."""
    here = Path(__file__)

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here.parent, capture_output=True, check=True, text=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)
        description = git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return description.removesuffix("-dirty"), description.endswith("-dirty")
