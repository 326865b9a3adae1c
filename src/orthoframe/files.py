"""Files: written whole or not at all, read up to a size, one sentence for any error; folders with one writer."""

import csv
import errno
import io
import json
import math
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from orthoframe.errors import DataError, InputError, OrthoframeError, reason_of, unwritable

if TYPE_CHECKING:
    from gzip import GzipFile

LARGEST_JSON = 2**22
"""Bytes of a file in JSON, or of a safetensors header; as objects of Python they may take 30 times as much memory."""
LARGEST_RECORDS = 2**30
"""Bytes of a file in JSON that grows with the classes and epochs of a run, or the cells of a study."""
LARGEST_TEXT = 2**30
"""Bytes of a text file of lines or rows, such as a .csv file."""
LONGEST_LINE = 2**23
"""Characters of a line in a text file."""
LARGEST_IMAGE = 2**29
"""Bytes of an image file: twice the pixels of the largest image, in four channels of 16 bits."""
LARGEST_FILE = 2**35
"""Bytes of any other file: arrays, tensors, checkpoints, lists of batches."""

_TEMPORARY = ".orthoframe."  # the start of the names of files that are not whole yet
_D = TypeVar("_D")
_T = TypeVar("_T")
_PIECE = 2**20  # bytes that are read at a time


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
    """Convert a value to types of JSON: lists for tuples, tensors and arrays, None for a number that is not finite.

    With `digits`, numbers are rounded to as many significant digits.

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
    """Keep other processes out of a folder, as `held` does; files that a killed process left half-written are removed.

    Yields whether the folder is ours.
    """
    with held(folder / ".lock", seconds) as ours:
        if ours:
            remove_leftovers(folder)
        yield ours


@contextmanager
def held(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold a lock, which a process that dies lets go; yields False if another has it for longer than `seconds`.

    On a file system without locks the file `path.held` stands for one: delete it if its process died elsewhere.
    """
    from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

    lock: BaseFileLock = FileLock(path)
    try:
        try:
            lock.acquire(timeout=seconds)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP):
                raise
            lock = SoftFileLock(f"{path}.held")
            lock.acquire(timeout=seconds)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(OSError):  # a folder that nobody may write to any more, or a system that keeps open files
            path.unlink(missing_ok=True)  # which waiting processes notice
        lock.release()


@contextmanager
def reading(path: Path, kind: str, error: type[OrthoframeError] = InputError) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one sentence about the file.

    Args:
        path: The file that the sentence names.
        kind: What it should have been, with its article: `a .csv file that can be read`.
        error: The class of the error; other errors of this package pass through.
    """
    try:
        yield
    except OrthoframeError:
        raise
    except OSError as reason:
        raise error(f"{path}: {reason_of(reason)}") from None
    except UnicodeDecodeError as reason:
        raise error(f"{path}: not UTF-8 text ({reason.reason} at byte {reason.start})") from None
    except Exception as reason:  # a broken file can fail in any way
        raise error(f"{path}: not {kind} ({reason_of(reason)})") from None


@contextmanager
def writing(path: Path, option: str) -> Iterator[None]:
    """Turn the system's refusal to write into a sentence that names the option."""
    try:
        yield
    except OSError as error:
        raise InputError(*unwritable(path, error, option)) from error


def parsed(parse: Callable[[_D], _T], data: _D) -> _T:
    """Parse data that may be broken; a `ValueError` of one line, whatever the parser raises.

    Errors of the system, and errors about data that a file only names, pass through.

    Examples:
        >>> import json
        >>> parsed(json.loads, "[" * 100000)
        Traceback (most recent call last):
        ValueError: maximum recursion depth exceeded while decoding a JSON array from a unicode string
    """
    try:
        return parse(data)
    except (OSError, DataError):
        raise
    except Exception as error:  # nesting too deep, numbers too large, too little memory: broken data fails in any way
        raise ValueError(reason_of(error)) from None


def read_up_to(file: "IO[bytes] | GzipFile", count: int) -> bytearray:
    """The next `count` bytes, or all there are; memory grows with the bytes that come, not with `count`."""
    data = bytearray()
    while len(data) < count and (piece := file.read(min(_PIECE, count - len(data)))):
        data += piece
    return data


def open_file(path: Path, most: int = LARGEST_FILE) -> IO[bytes]:
    """Open a file that a user names; a `ValueError` for a pipe or a device, or for more than `most` bytes."""
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):  # opening a folder says what it is
        raise ValueError("it is a pipe or a device")
    if status.st_size > most:
        raise ValueError(f"it has more than {most} bytes")
    return path.open("rb")


def read_small(path: Path, most: int = LARGEST_JSON) -> bytes:
    """All bytes of a file.

    Raises:
        ValueError: If there are more than `most`.
    """
    with open_file(path, most) as file:
        return file.read()


def open_tensors(path: Path, framework: str = "pt") -> Any:
    """Open a safetensors file.

    Raises:
        ValueError: If its header has more than `LARGEST_JSON` bytes.
    """
    from safetensors import safe_open

    with open_file(path) as file:
        if int.from_bytes(file.read(8), "little") > LARGEST_JSON:
            raise ValueError(f"its header has more than {LARGEST_JSON} bytes, or it is not a safetensors file")
    return safe_open(path, framework=framework)


def open_text(path: Path) -> IO[str]:
    """Open a text file in UTF-8, such as a .csv file; use it with `lines_of` or `csv_rows`.

    Raises:
        ValueError: If it has more than `LARGEST_TEXT` bytes.
    """
    return io.TextIOWrapper(open_file(path, LARGEST_TEXT), newline="", encoding="utf-8-sig")


def lines_of(file: IO[str]) -> Iterator[str]:
    """The lines of a text file; a `ValueError` for one that is longer than `LONGEST_LINE`."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(f"line {number} is longer than {LONGEST_LINE} characters")
        yield line


def csv_rows(file: IO[str], *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """The rows of a .csv file with the numbers of their lines; with `strict`, a `csv.Error` for wrong quotes."""
    reader = csv.reader(lines_of(file), strict=strict)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise csv.Error(f"line {reader.line_num}: {error}") from None
