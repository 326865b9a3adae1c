"""Labels and features that come in, checked line by line, and files that go out, whole or not at all."""

import csv
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from orthoframe import _atomic
from orthoframe.errors import InputError, Option, OrthoframeError, unwritable

if TYPE_CHECKING:
    from torch import Tensor

PICTURES = (".png", ".pdf", ".svg")
_LABELS = (".npy", ".npz", ".safetensors", ".txt", ".csv")
_ROWS = 8192  # that are in memory at a time
# As numpy names them, with or without a byte order, and as safetensors does.
_DTYPES = ("f2", "f4", "f8", "float16", "float32", "float64", "F16", "BF16", "F32", "F64")


def read_labels(path: Path, column: str | None) -> NDArray[Any]:
    """Read labels from `.npy`, `.npz`, `.safetensors`, `.txt` (one per line) or `.csv` (a column with a name)."""
    from orthoframe._rows import label_array

    if path.suffix not in _LABELS:
        raise InputError(f"{path}: labels must be a file {', '.join(_LABELS)}")
    if column is not None and path.suffix != ".csv":
        raise InputError(Option("column"), f" is for .csv files, which {path} is not")
    with _reading(path):
        if path.suffix == ".txt":
            text = path.read_text(encoding="utf-8-sig").rstrip()
            labels = _numbers_or_names(text.split("\n") if text else [], path)
        elif path.suffix == ".csv":
            labels = _csv_labels(path, column)
        elif path.suffix == ".safetensors":
            with safe_open(path, framework="np") as tensors:
                labels = tensors.get_tensor(_pick(path, None, "labels", list(tensors.keys())))
        else:
            labels = _numpy_labels(path)
    try:
        labels = label_array(labels)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}") from error
    if not len(labels):
        raise InputError(f"{path}: there are no labels")
    return labels


def _numpy_labels(path: Path) -> Any:
    with path.open("rb") as file:
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray) != (path.suffix == ".npy"):
            other = ".npz" if path.suffix == ".npy" else ".npy"
            raise InputError(f"{path}: not a {path.suffix} file; rename it to {path.with_suffix(other)}")
        return content if path.suffix == ".npy" else content[_pick(path, None, "labels", content.files)]


def _csv_labels(path: Path, column: str | None) -> NDArray[Any]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        header = next(rows, None)
        if not header:
            raise InputError(f"{path}: there is no header; the first line must name the columns")
        if column is None and len(header) > 1:
            names = ", ".join(header)
            raise InputError(f"{path}: which column has the labels? Use ", Option("column"), f" with one of {names}")
        name = header[0] if column is None else column
        if name not in header:
            raise InputError(f"{path}: there is no column {name!r}; columns are {', '.join(header)}")
        values = []
        for row in rows:
            if len(row) != len(header):
                raise InputError(f"{path}, line {rows.line_num}: {len(row)} fields, and the header has {len(header)}")
            values.append(row[header.index(name)])
    return _numbers_or_names(values, path, first_line=2)


def _numbers_or_names(values: list[str], path: Path, first_line: int = 1) -> NDArray[Any]:
    values = [value.strip() for value in values]
    if "" in values:
        raise InputError(f"{path}, line {values.index('') + first_line}: the label is missing")
    with suppress(ValueError, OverflowError):
        numbers = [int(value) for value in values]
        if [str(number) for number in numbers] == values:  # 01 and 1 are two names
            return np.array(numbers, dtype=np.int64)
    return np.array(values)


@dataclass(frozen=True)
class FeatureFile:
    """Rows of features in a file, which need not fit into memory; `parts()` reads them in order, from the start."""

    rows: int
    dim: int
    parts: Callable[[], Iterator["Tensor"]]


def open_features(path: Path, key: str | None) -> FeatureFile:
    """Open features: `.npy` (mapped), `.npz`, `.safetensors` (read as needed) or `.csv` (numbers, header or not)."""
    kinds = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".csv": _csv}
    if path.suffix not in kinds:
        raise InputError(f"{path}: features must be a file {', '.join(kinds)}")
    if key is not None and path.suffix not in (".npz", ".safetensors"):
        raise InputError(Option("key"), f" is for .npz and .safetensors files, which {path} is not")
    with _reading(path):
        return kinds[path.suffix](path, key)


def _npy(path: Path, _: str | None) -> FeatureFile:
    array = np.lib.format.open_memmap(path, mode="r")
    return _sliced(path, array, array.shape, array.dtype)


def _safetensors(path: Path, key: str | None) -> FeatureFile:
    file: Any = safe_open(path, framework="pt")
    tensor = file.get_slice(_pick(path, key, "features", list(file.keys())))
    return _sliced(path, tensor, tuple(tensor.get_shape()), tensor.get_dtype())


def _sliced(path: Path, array: Any, shape: tuple[int, ...], dtype: Any) -> FeatureFile:
    rows, dim = _checked(path, shape, dtype)
    return FeatureFile(rows, dim, lambda: (_tensor(array[start : start + _ROWS]) for start in range(0, rows, _ROWS)))


def _npz(path: Path, key: str | None) -> FeatureFile:
    """Streamed out of the archive, so that a compressed one needs no memory either."""
    archive = zipfile.ZipFile(path)
    names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    name = _pick(path, key, "features", names) + ".npy"

    def header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        first = np.lib.format.read_magic(file) == (1, 0)
        return (np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0)(file)

    with archive.open(name) as file:
        shape, by_columns, dtype = header(file)
    if by_columns and len(shape) > 1:
        raise InputError(f"{path}: features are stored by columns; save np.ascontiguousarray(features)")
    rows, dim = _checked(path, shape, dtype)

    def parts() -> Iterator["Tensor"]:
        with _reading(path), archive.open(name) as file:
            header(file)
            size = dim * dtype.itemsize
            for start in range(0, rows, _ROWS):
                count = min(_ROWS, rows - start)
                data = file.read(count * size)
                if len(data) < count * size:
                    raise InputError(f"{path}: the file ends in row {start + len(data) // size} of {rows}")
                yield _tensor(np.frombuffer(data, dtype=dtype).reshape(count, dim))

    return FeatureFile(rows, dim, parts)


def _csv(path: Path, _: str | None) -> FeatureFile:
    def lines() -> Iterator[tuple[int, list[str]]]:
        with _reading(path), path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            for fields in rows:
                if any(field.strip() for field in fields):
                    yield rows.line_num, fields

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
                raise InputError(f"{path}, line {line}: {fields[values.index(None)].strip()!r} is not a number")
            yield values

    def parts() -> Iterator["Tensor"]:
        rows = numbers()
        while part := list(islice(rows, _ROWS)):
            yield _tensor(np.array(part, dtype=np.float64))

    return FeatureFile(sum(1 for _ in lines()) - header, dim, parts)


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None


def _checked(path: Path, shape: tuple[int, ...], dtype: Any) -> tuple[int, int]:
    if len(shape) != 2 or str(dtype).lstrip("<>") not in _DTYPES:
        raise InputError(f"{path}: features must be floating point of shape [rows, dim], not {dtype} of {list(shape)}")
    return shape[0], shape[1]


def _tensor(array: Any) -> "Tensor":
    import torch

    if isinstance(array, torch.Tensor):
        return array
    # A copy in the byte order of this machine: a mapped array is read-only.
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))


def _pick(path: Path, wanted: str | None, usual: str, names: list[str]) -> str:
    """Choose an array of a file: the one that was named, the only one, or the one with the usual name."""
    name = wanted or (names[0] if len(names) == 1 else usual)
    if name not in names:
        raise InputError(f"{path}: there is no array {name!r}; it has {', '.join(names) or 'none'}")
    return name


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into a sentence about the file."""
    try:
        path.open("rb").close()  # not every reader says what is wrong with a path
        yield
    except OrthoframeError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except (ValueError, TypeError, EOFError, csv.Error, zipfile.BadZipFile, zlib.error, SafetensorError) as error:
        raise InputError(f"{path}: not a {path.suffix} file that can be read ({error})") from error


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


@contextmanager
def writing(path: Path, option: str) -> Iterator[None]:
    """Turn the system's refusal to write into a sentence that names the option."""
    try:
        yield
    except OSError as error:
        raise InputError(*unwritable(path, error, option)) from error


def write_atomic(path: Path, option: str, content: Callable[[IO[bytes]], object]) -> None:
    """Write a file whole or not at all, with a function that gets the open file."""
    with writing(path, option):
        _atomic.write_atomic(path, content)


def write_figure(path: Path, figure: Any) -> None:
    """Write a matplotlib figure in the format that the file name asks for."""
    write_atomic(path, "plot", lambda file: figure.savefig(file, format=path.suffix[1:], dpi=160))
