"""Files that are written whole or not at all, JSON that every reader understands, and folders with one writer."""

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_TEMPORARY = ".orthoframe."  # what the names of files that are not whole yet start with
_POLL_SECONDS = 0.2  # between two looks at a lock that another process holds


def write_atomic(path: Path, content: bytes | str | Callable[[IO[bytes]], object]) -> None:
    """Write a file under another name, and give it its own once it is whole and on the disk.

    `content` may be a function that gets the open file. After an error a file that had the name before is as it was.
    """
    name = ""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_TEMPORARY)
        with os.fdopen(handle, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)  # it can only be read by setting it
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    finally:
        if os.path.exists(name):
            os.unlink(name)


def json_ready(value: Any, digits: int | None = None) -> Any:
    """The same in types that JSON knows: lists for tuples, tensors and arrays, None for a number that is not finite.

    Numbers are rounded to as many significant digits, if these are given.

    Examples:
        >>> json_ready({"time": math.inf, "pair": (1, math.nan, 0.123456789)}, digits=6)
        {'time': None, 'pair': [1, None, 0.123457]}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): json_ready(entry, digits) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(entry, digits) for entry in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    return value


def write_json(path: Path, data: Any, *, digits: int | None = None, indent: int | None = 2) -> None:
    """Write `json_ready` data as JSON, whole or not at all."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(json_ready(data, digits), indent=indent, separators=separators, allow_nan=False)
    write_atomic(path, text + "\n")


def remove_leftovers(folder: Path) -> None:
    """Remove files that a killed process left half-written; nobody else may be writing to the folder."""
    for leftover in folder.glob(f"{_TEMPORARY}*"):
        leftover.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Keep other processes out of a folder; a process that dies lets go.

    Yields whether the folder is ours, or False if another process has it for longer than `seconds`. Files that a killed
    process left half-written are removed.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=seconds, poll_interval=_POLL_SECONDS)
    except Timeout:
        yield False
        return
    try:
        remove_leftovers(folder)
        yield True
    finally:
        lock.release()
