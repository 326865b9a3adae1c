"""Labels and features that come in, checked line by line, and files that go out, whole or not at all."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orthoframe import files
from orthoframe._arrays import ArrayArchive, StoredArray, named_arrays, stored_array
from orthoframe.errors import InputError, Option, brief
from orthoframe.files import csv_rows, lines_of, open_file, open_tensors, open_text, reading, writing

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.geometry import LinearClassifier

PICTURES = (".png", ".pdf", ".svg")
_LABELS = (".npy", ".npz", ".safetensors", ".txt", ".csv")
_ROWS, _VALUES = 8192, 2**22  # at most, that are in memory at a time
_MOST_NAMES = 2**20  # in a text, where each may take 200 bytes of memory, twenty times its line
_NAME_BYTES = 2**27  # that names from text may take as an array, in addition to twice their file
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# As numpy names them, with or without a byte order, and as safetensors does.
_DTYPES = ("f2", "f4", "f8", "float16", "float32", "float64", "F16", "BF16", "F32", "F64")


def read_labels(path: Path, column: str | None) -> NDArray[Any]:
    """Read labels from `.npy`, `.npz`, `.safetensors`, `.txt` (one per line) or `.csv` (a column with a name)."""
    if path.suffix not in _LABELS:
        raise InputError(f"{path}: labels must be a file {', '.join(_LABELS)}")
    if column is not None and path.suffix != ".csv":
        raise InputError(Option("column"), f" is for .csv files, which {path} is not")
    with reading_file(path):
        if path.suffix == ".txt":
            with open_text(path) as file:
                labels = _numbers_or_names(_text_labels(lines_of(file)), path)
        elif path.suffix == ".csv":
            with open_text(path) as file:
                labels = _numbers_or_names(_csv_labels(file, column, path), path)
        elif path.suffix == ".safetensors":
            with open_tensors(path, "np") as tensors:
                labels = tensors.get_tensor(_pick(path, None, "labels", list(tensors.keys())))
        else:
            labels = _stored(path, None, "labels").read()
    labels = checked_labels(path, labels)
    if not len(labels):
        raise InputError(f"{path}: there are no labels")
    return labels


def checked_labels(path: Path, labels: NDArray[Any]) -> NDArray[Any]:
    """The labels of a file, if they are integers or strings, in one dimension."""
    from orthoframe._rows import label_array

    try:
        return label_array(labels)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {brief(error)}") from error


def _text_labels(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Labels with the numbers of their lines; blank lines at the end are left out."""
    blank = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            blank = blank or number
            continue
        if blank:
            yield blank, ""
        yield number, line


def _csv_labels(lines: IO[str], column: str | None, path: Path) -> Iterator[tuple[int, str]]:
    """Labels with the numbers of their lines."""
    rows = csv_rows(lines)
    _, header = next(rows, (0, []))
    if not header:
        raise InputError(f"{path}: there is no header; the first line must name the columns")
    names = brief(", ".join(header))
    if column is None and len(header) > 1:
        raise InputError(f"{path}: which column has the labels? Use ", Option("column"), f" with one of {names}")
    name = header[0] if column is None else column
    if name not in header:
        raise InputError(f"{path}: there is no column {name!r}; columns are {names}")
    place = header.index(name)
    for number, row in rows:
        if len(row) != len(header):
            raise InputError(f"{path}, line {number}: {len(row)} fields, and the header has {len(header)}")
        yield number, row[place]


def _numbers_or_names(labels: Iterable[tuple[int, str]], path: Path) -> NDArray[Any]:
    """Labels from text. Each name is kept once, because millions of strings take far more memory than their file."""
    names: dict[str, str] = {}
    rows: list[str] = []
    for line, text in labels:
        label = text.strip()
        if not label:
            raise InputError(f"{path}, line {line}: the label is missing")
        rows.append(names.setdefault(label, label))
        if len(names) > _MOST_NAMES:
            raise InputError(f"{path}: more than {_MOST_NAMES} different labels, the limit for text; use a .npy file")
    with suppress(ValueError, OverflowError):
        numbers = {name: int(name) for name in names}
        if all(str(number) == name for name, number in numbers.items()):  # 01 and 1 are two names
            return np.array([numbers[row] for row in rows], dtype=np.int64)
    longest = max(names, key=len)
    # An array of strings has room for the longest in every row.
    if 4 * len(longest) * len(rows) > _NAME_BYTES + 2 * path.stat().st_size:
        much = f"{len(longest)} characters, too many for an array of {len(rows)} labels; shorten it"
        raise InputError(f"{path}: the label {brief(longest, 40)!r} has {much}")
    return np.array(rows)


@dataclass(frozen=True)
class FeatureFile:
    """Rows of features in a file, which need not fit into memory; `parts()` reads them in order, from the start."""

    rows: int
    dim: int
    parts: Callable[[], Iterator["Tensor"]]


def open_features(path: Path, key: str | None) -> FeatureFile:
    """Open features: `.npy` (mapped), `.npz`, `.safetensors` (read as needed) or `.csv` (numbers, header or not)."""
    kinds = {".npy": _numpy, ".npz": _numpy, ".safetensors": _safetensors, ".csv": _csv}
    if path.suffix not in kinds:
        raise InputError(f"{path}: features must be a file {', '.join(kinds)}")
    if key is not None and path.suffix not in (".npz", ".safetensors"):
        raise InputError(Option("key"), f" is for .npz and .safetensors files, which {path} is not")
    with reading_file(path):
        return kinds[path.suffix](path, key)


def read_classifier(path: Path, classes: int, dim: int) -> "LinearClassifier":
    """Read a linear layer: `weight` and, if it has one, `bias`, as torch calls them, in `.safetensors` or `.npz`."""
    from orthoframe.geometry import LinearClassifier

    if path.suffix not in (".safetensors", ".npz"):
        raise InputError(f"{path}: a classifier must be a file .safetensors or .npz, with the arrays weight and bias")
    names = ("weight", "bias")
    with reading_file(path):
        if path.suffix == ".npz":
            parts = {name: _tensor(array) for name, array in named_arrays(path, names).items()}
        else:
            tensors: Any = open_tensors(path)
            parts = {name: tensors.get_tensor(name) for name in names if name in tensors.keys()}  # noqa: SIM118
    if "weight" not in parts:
        raise InputError(f"{path}: there is no array 'weight'")
    if not all(part.is_floating_point() for part in parts.values()):
        raise InputError(f"{path}: weight and bias must be floating point")
    try:
        return LinearClassifier.of(parts["weight"], parts.get("bias"), classes, dim)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def _stored(path: Path, key: str | None, usual: str) -> StoredArray:
    """The array of an `.npy` file, or one of an `.npz` file."""
    with open_file(path) as file:
        kind = {b"PK\x03\x04": ".npz", b"\x93NUM": ".npy"}.get(file.read(4), path.suffix)
    if kind != path.suffix:
        raise InputError(f"{path}: not a {path.suffix} file; rename it to {path.with_suffix(kind)}")
    if kind == ".npy":
        return stored_array(lambda: path.open("rb"), path.stat().st_size)
    archive = ArrayArchive(path)
    members = [name.removesuffix(".npy") for name in archive.members]
    return archive[_pick(path, key, usual, archive.names, members)]


def _numpy(path: Path, key: str | None) -> FeatureFile:
    """A mapped array, or one that is streamed out of an archive, so that a compressed one needs no memory either."""
    stored = _stored(path, key, "features")
    if stored.by_columns and path.suffix == ".npz":
        raise InputError(f"{path}: features are stored by columns; save np.ascontiguousarray(features)")
    rows, dim = _checked(path, stored.shape, stored.dtype)
    if path.suffix == ".npy":
        order: Any = "F" if stored.by_columns else "C"
        array = np.memmap(path, stored.dtype, mode="r", offset=stored.offset, shape=stored.shape, order=order)
        return _sliced(array, rows, dim)

    def parts() -> Iterator["Tensor"]:
        with reading_file(path):
            yield from map(_tensor, stored.rows(_together(dim)))

    return FeatureFile(rows, dim, parts)


def _safetensors(path: Path, key: str | None) -> FeatureFile:
    file: Any = open_tensors(path)
    tensor = file.get_slice(_pick(path, key, "features", list(file.keys())))
    return _sliced(tensor, *_checked(path, tuple(tensor.get_shape()), tensor.get_dtype()))


def _sliced(array: Any, rows: int, dim: int) -> FeatureFile:
    step = _together(dim)
    return FeatureFile(rows, dim, lambda: (_tensor(array[start : start + step]) for start in range(0, rows, step)))


def _together(dim: int) -> int:
    """Rows that are in memory at a time."""
    return max(1, min(_ROWS, _VALUES // dim))


def _csv(path: Path, _: str | None) -> FeatureFile:
    def lines() -> Iterator[tuple[int, list[str]]]:
        with reading_file(path), open_text(path) as file:
            for number, fields in csv_rows(file):
                if any(field.strip() for field in fields):
                    yield number, fields

    first = next((fields for _, fields in lines()), [])
    if not first:
        raise InputError(f"{path}: the file is empty")
    dim, header = len(first), None in map(_number, first)

    def numbers() -> Iterator[list[float | None]]:
        for line, fields in islice(lines(), int(header), None):
            if len(fields) != dim:
                raise InputError(f"{path}, line {line}: {len(fields)} fields, and the first line has {dim}")
            values = [_number(field) for field in fields]
            if None in values:
                raise InputError(f"{path}, line {line}: {brief(fields[values.index(None)])!r} is not a number")
            yield values

    def parts() -> Iterator["Tensor"]:
        rows = numbers()
        while part := list(islice(rows, _together(dim))):
            yield _tensor(np.array(part, dtype=np.float64))

    return FeatureFile(sum(1 for _ in lines()) - header, dim, parts)


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def cell(value: object) -> object:
    """A value for a .csv file: control characters as backslashes, and a quote before what a spreadsheet would run."""
    if not isinstance(value, str):
        return value
    text = _CONTROL.sub(lambda match: repr(match[0])[1:-1], value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) and _number(text) is None else text


def _checked(path: Path, shape: tuple[int, ...], dtype: Any) -> tuple[int, int]:
    if len(shape) != 2 or str(dtype).lstrip("<>") not in _DTYPES or 0 in shape:
        actual = f"{dtype} of {brief(list(shape), 60)}"
        raise InputError(f"{path}: features must be floating point of shape [rows, dim], not {actual}")
    return shape[0], shape[1]


def _tensor(array: Any) -> "Tensor":
    import torch

    if isinstance(array, torch.Tensor):
        return array
    # A copy in the byte order of this machine: a mapped array is read-only.
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))


def _pick(path: Path, key: str | None, usual: str, names: list[str], members: list[str] | None = None) -> str:
    """Choose an array of a file: the one that was named, the only one, or the one with the usual name.

    `members` is what else the file has, for the error.
    """
    name = key or (names[0] if len(names) == 1 else usual)
    if name not in names:
        raise InputError(f"{path}: there is no array {name!r}; it has {brief(', '.join(members or names)) or 'none'}")
    return name


@contextmanager
def reading_file(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into a sentence about the file."""
    with reading(path, f"a {path.suffix} file that can be read"):
        open_file(path).close()  # not every reader says what is wrong with a path
        yield


def check_output(path: Path | None, option: str, *suffixes: str) -> None:
    """Refuse a file that cannot be written, or whose name does not end as it must, before any work is done."""
    if path is None:
        return
    if suffixes and path.suffix not in suffixes:
        endings = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise InputError(Option(option), f" must end in {endings}, not {path}")
    possible = False
    with suppress(OSError):  # a name that is too long, say
        possible = path.parent.is_dir() and not path.is_dir() and os.access(path.parent, os.W_OK)
    if not possible:
        raise InputError(f"{path}: cannot be written; its folder must exist and be writable")


def write_atomic(path: Path, option: str, content: Callable[[IO[bytes]], object]) -> None:
    """Write a file whole or not at all, with a function that gets the open file."""
    with writing(path, option):
        files.write_atomic(path, content)


def write_figure(path: Path, figure: Any) -> None:
    """Write a matplotlib figure in the format that the file name asks for."""
    write_atomic(path, "plot", lambda file: figure.savefig(file, format=path.suffix[1:], dpi=160))
