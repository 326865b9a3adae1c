"""Where results are kept: by the hash of their job, so that nothing is computed twice."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orthoframe._atomic import write_atomic
from orthoframe.errors import StudyError
from orthoframe.studies._jobs import Job

_POLL_SECONDS = 0.2  # between two looks at a lock that another process holds


@dataclass(frozen=True)
class Done:
    """How a job ended.

    Attributes:
        result: What it computed; None if it failed.
        seconds: How long it took.
        failure: Why it failed, in a sentence; None if it did not.
        commit: Of the source that computed it; None if it is not known.
    """

    result: dict[str, Any] | None
    seconds: float
    failure: str | None = None
    commit: str | None = None


def store_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of all results: the one given, else `ORTHOFRAME_STORE`, else `studies` in the user's cache."""
    chosen = folder or os.environ.get("ORTHOFRAME_STORE")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("orthoframe")) / "studies"


@dataclass(frozen=True)
class Store:
    """Results by the key of their job, each in a folder of its own.

    The folder is also the one in which the job runs, so that what a killed process left there is used.
    """

    path: Path

    def check(self) -> None:
        """Refuse a place that cannot be written to, before any work.

        Raises:
            StudyError: If it cannot.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError("it must be writable")
        except OSError as error:
            raise StudyError(f"{self.path}: {error.strerror or error}; choose another --store") from None

    def folder(self, key: str) -> Path:
        """The folder of a job; it need not exist."""
        return self.path / key

    def get(self, key: str) -> Done | None:
        """A result; None if there is none, or one that cannot be read."""
        try:
            data = json.loads((self.folder(key) / "result.json").read_bytes())
            result, seconds, commit = data["result"], float(data["seconds"]), data.get("commit")
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Done(result, seconds, commit=commit) if isinstance(result, dict) else None

    def put(self, key: str, job: Job, done: Done) -> None:
        """Keep a result; whoever looks finds all of it or nothing.

        What is no number stays that (`NaN`, which Python reads): a result says the same before and after.

        Raises:
            OSError: If it cannot be written.
        """
        kept = {"job": job.to_dict(), "result": done.result, "seconds": done.seconds, "commit": done.commit}
        text = json.dumps(kept) + "\n"
        self.folder(key).mkdir(parents=True, exist_ok=True)
        write_atomic(self.folder(key) / "result.json", lambda file: file.write(text.encode()))

    @contextmanager
    def claimed(self, key: str, seconds: float = 0.0) -> Iterator[bool]:
        """Keep other processes from a job; a process that dies lets go.

        Args:
            key: Of the job.
            seconds: How long to wait for a process that has it.

        Yields:
            Whether the job is ours.
        """
        from filelock import FileLock, Timeout

        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        try:
            lock.acquire(timeout=seconds, poll_interval=_POLL_SECONDS)
        except Timeout:
            yield False
            return
        try:
            for leftover in folder.glob(".orthoframe.*"):  # of a process that was killed
                leftover.unlink()
            yield True
        finally:
            lock.release()
