"""Files that come in, checked line by line, and files that go out, whole or not at all."""

import csv
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from orthoframe import _atomic
from orthoframe.errors import InputError


def read_labels(path: Path, column: str | None) -> NDArray[Any]:
    """Labels from `.npy`, `.npz`, `.safetensors`, `.txt` (one a line) or `.csv` (a column with a name)."""
    readers: dict[str, Callable[[], NDArray[Any]]] = {
        ".npy": lambda: _read_npy(path),
        ".npz": lambda: _read_npz(path),
        ".safetensors": lambda: _read_safetensors(path),
        ".txt": lambda: _numbers_or_names(path.read_text(encoding="utf-8-sig").split("\n"), path),
        ".csv": lambda: _read_csv(path, column),
    }
    if path.suffix not in readers:
        raise InputError(f"{path}: labels must be a file {', '.join(readers)}")
    if column is not None and path.suffix != ".csv":
        raise InputError(f"--column is for .csv files, and {path} is none")
    try:
        return readers[path.suffix]()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text in UTF-8 ({error.reason} at byte {error.start})") from None
    except csv.Error as error:
        raise InputError(f"{path}: not a .csv file ({error})") from None


def pick(path: Path, wanted: str | None, usual: str, names: list[str]) -> str:
    """The array of a file that is meant: the one that was named, the only one, or the one with the usual name."""
    name = wanted or (names[0] if len(names) == 1 else usual)
    if name not in names:
        raise InputError(f"{path}: there is no array {name!r}; it has {', '.join(names) or 'none'}")
    return name


def _read_npz(path: Path) -> NDArray[Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return _checked_labels(path, arrays[pick(path, None, "labels", arrays.files)])
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: not a .npz file of numbers or strings ({error})") from None


def _read_safetensors(path: Path) -> NDArray[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as tensors:
            return _checked_labels(path, tensors.get_tensor(pick(path, None, "labels", list(tensors.keys()))))
    except (SafetensorError, TypeError) as error:
        raise InputError(f"{path}: not a .safetensors file ({error})") from None


def _read_npy(path: Path) -> NDArray[Any]:
    try:
        with path.open("rb") as file:
            array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a .npy file of numbers or strings ({error})") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: not a .npy file, but an archive of them; name it .npz")
    return _checked_labels(path, array)


def _checked_labels(path: Path, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.ndim != 1 or array.dtype.kind not in "biuUS":
        raise InputError(
            f"{path}: labels must be a list of integers or strings, not {array.dtype} of {list(array.shape)}"
        )
    return array


def _read_csv(path: Path, column: str | None) -> NDArray[Any]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        header = next(rows, None)
        if header is None:
            raise InputError(f"{path}: the file is empty; its first line must name the columns")
        if column is None and len(header) > 1:
            raise InputError(f"{path}: which column has the labels? Use --column with one of {', '.join(header)}")
        name = header[0] if column is None else column
        if name not in header:
            raise InputError(f"{path}: there is no column {name!r}; columns are {', '.join(header)}")
        place = header.index(name)
        values = []
        for row in rows:
            if len(row) != len(header):
                raise InputError(f"{path}, line {rows.line_num}: {len(row)} fields, and the header has {len(header)}")
            values.append(row[place])
    return _numbers_or_names(values, path, first_line=2)


def _numbers_or_names(values: list[str], path: Path, first_line: int = 1) -> NDArray[Any]:
    values = [value.strip() for value in values]
    while values and not values[-1]:
        values.pop()
    for number, value in enumerate(values):
        if not value:
            raise InputError(f"{path}, line {number + first_line}: the label is missing")
    try:
        numbers = [int(value) for value in values]
        if [str(number) for number in numbers] == values:  # 01 and 1 are two names
            return np.array(numbers, dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array(values)


def read_batches(path: Path, num_samples: int, advance: Callable[[int], None]) -> Iterator[NDArray[Any]]:
    """Batches from JSON lines, a list of indices a line; `advance` is told the bytes that were read."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield _batch(line, f"{path}, line {number}", num_samples)
                advance(len(line))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _batch(line: bytes, where: str, num_samples: int) -> NDArray[Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from None
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise InputError(f"{where}: a batch must be a list of whole numbers, such as [0, 5, 2]")
    for value in values:
        if not 0 <= value < num_samples:
            raise InputError(
                f"{where}: index {value}, and the labels have {num_samples} samples (0 to {num_samples - 1})"
            )
    return np.array(values, dtype=np.int64)


def check_output(path: Path | None) -> None:
    """Refuse a place that cannot be written to, before any work is done."""
    if path is None:
        return
    try:
        possible = path.parent.is_dir() and not path.is_dir() and os.access(path.parent, os.W_OK)
    except OSError:  # a name that is too long, say
        possible = False
    if not possible:
        raise InputError(f"{path}: cannot be written; its folder must exist and be writable")


def check_figure(path: Path | None) -> None:
    """Refuse a picture of a kind that cannot be drawn, or a place that cannot be written to."""
    if path is not None and path.suffix not in (".png", ".pdf", ".svg"):
        raise InputError(f"--plot must end in .png, .pdf or .svg, not {path}")
    check_output(path)


def write_figure(path: Path, figure: Any) -> None:
    """Write a matplotlib figure in the format that its name says."""
    write_atomic(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=160))


def write_atomic(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write a file whole or not at all; what the system refuses is the command's own error."""
    try:
        _atomic.write_atomic(path, write)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
