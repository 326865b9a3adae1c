"""Labels and features that come in, checked line by line, and files that go out, whole or not at all."""

import csv
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from orthoframe import _atomic
from orthoframe.errors import InputError, Option, OrthoframeError

if TYPE_CHECKING:
    from torch import Tensor

_LABELS = (".npy", ".npz", ".safetensors", ".txt", ".csv")
_FEATURES = (".npy", ".npz", ".safetensors", ".csv")
_ROWS = 8192  # that are in memory at a time
# As numpy names them, in either byte order, and as safetensors does.
_DTYPES = {f"{order}f{size}" for order in "<>" for size in (2, 4, 8)} | {"float16", "float32", "float64"}
_DTYPES |= {"F16", "BF16", "F32", "F64"}


def read_labels(path: Path, column: str | None) -> NDArray[Any]:
    """Read labels from `.npy`, `.npz`, `.safetensors`, `.txt` (one per line) or `.csv` (a column with a name)."""
    from orthoframe._rows import label_array

    if path.suffix not in _LABELS:
        raise InputError(f"{path}: labels must be a file {', '.join(_LABELS)}")
    if column is not None and path.suffix != ".csv":
        raise InputError(Option("column"), f" is for .csv files, which {path} is not")
    with _reading(path):
        if path.suffix == ".txt":
            labels = _numbers_or_names(path.read_text(encoding="utf-8-sig").split("\n"), path)
        elif path.suffix == ".csv":
            labels = _csv_labels(path, column)
        elif path.suffix == ".safetensors":
            with safe_open(path, framework="np") as tensors:
                labels = tensors.get_tensor(_pick(path, None, "labels", list(tensors.keys())))
        else:
            labels = _numpy_labels(path)
    try:
        return label_array(labels)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}") from error


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
        if header is None:
            raise InputError(f"{path}: the file is empty; its first line must name the columns")
        if column is None and len(header) > 1:
            one = f" with one of {', '.join(header)}"
            raise InputError(f"{path}: which column has the labels? Use ", Option("column"), one)
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


@dataclass(frozen=True)
class FeatureFile:
    """Rows of features in a file, which need not fit into memory; `parts()` reads them in order, from the start."""

    rows: int
    dim: int
    parts: Callable[[], Iterator["Tensor"]]


def open_features(path: Path, key: str | None) -> FeatureFile:
    """Open features: `.npy` (mapped), `.npz`, `.safetensors` (read as needed) or `.csv` (numbers, header or not)."""
    kinds = dict(zip(_FEATURES, (_npy, _npz, _safetensors, _csv), strict=True))
    if path.suffix not in kinds:
        raise InputError(f"{path}: features must be a file {', '.join(_FEATURES)}")
    if key is not None and path.suffix not in (".npz", ".safetensors"):
        raise InputError(Option("key"), f" is for .npz and .safetensors files, which {path} is not")
    if not path.is_file():
        raise InputError(f"{path}: No such file")
    with _reading(path):
        return kinds[path.suffix](path, key)


def _npy(path: Path, _: str | None) -> FeatureFile:
    array = np.lib.format.open_memmap(path, mode="r")
    rows, dim = _checked(path, array.shape, array.dtype)

    def parts() -> Iterator["Tensor"]:
        for start in range(0, rows, _ROWS):
            yield _tensor(array[start : start + _ROWS])

    return FeatureFile(rows, dim, parts)


def _npz(path: Path, key: str | None) -> FeatureFile:
    """Streamed out of the archive, so that a compressed one needs no memory either."""

    @contextmanager
    def member() -> Iterator[tuple[IO[bytes], tuple[int, ...], Any]]:
        with _reading(path), zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            with archive.open(_pick(path, key, "features", names) + ".npy") as file:
                first = np.lib.format.read_magic(file) == (1, 0)
                read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
                shape, fortran, dtype = read(file)
                if fortran and len(shape) > 1:
                    raise InputError(f"{path}: features are stored by columns; save np.ascontiguousarray(features)")
                yield file, shape, dtype

    with member() as (_, shape, dtype):
        rows, dim = _checked(path, shape, dtype)

    def parts() -> Iterator["Tensor"]:
        with member() as (file, _, dtype):
            size = dim * dtype.itemsize
            for start in range(0, rows, _ROWS):
                count = min(_ROWS, rows - start)
                data = file.read(count * size)
                if len(data) < count * size:
                    raise InputError(f"{path}: the file ends in row {start + len(data) // size} of {rows}")
                yield _tensor(np.frombuffer(data, dtype=dtype).reshape(count, dim))

    return FeatureFile(rows, dim, parts)


def _safetensors(path: Path, key: str | None) -> FeatureFile:
    file: Any = safe_open(path, framework="pt")
    tensor = file.get_slice(_pick(path, key, "features", list(file.keys())))
    rows, dim = _checked(path, tuple(tensor.get_shape()), tensor.get_dtype())

    def parts() -> Iterator["Tensor"]:
        for start in range(0, rows, _ROWS):
            yield tensor[start : start + _ROWS]

    return FeatureFile(rows, dim, parts)


def _csv(path: Path, _: str | None) -> FeatureFile:
    def lines() -> Iterator[tuple[int, list[str]]]:
        with _reading(path), path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            for fields in rows:
                if any(field.strip() for field in fields):
                    yield rows.line_num, fields

    first = next(lines(), None)
    if first is None:
        raise InputError(f"{path}: the file is empty")
    dim, header = len(first[1]), not all(map(_is_number, first[1]))

    def parts() -> Iterator["Tensor"]:
        waiting: list[list[float]] = []
        for number, fields in lines():
            if header and number == first[0]:
                continue
            if len(fields) != dim:
                raise InputError(f"{path}, line {number}: {len(fields)} fields, and the first line has {dim}")
            wrong = next((field for field in fields if not _is_number(field)), None)
            if wrong is not None:
                raise InputError(f"{path}, line {number}: {wrong.strip()!r} is not a number")
            waiting.append([float(field) for field in fields])
            if len(waiting) == _ROWS:
                yield _tensor(np.array(waiting))
                waiting = []
        if waiting:
            yield _tensor(np.array(waiting))

    return FeatureFile(sum(1 for _ in lines()) - header, dim, parts)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _checked(path: Path, shape: tuple[int, ...], dtype: Any) -> tuple[int, int]:
    if len(shape) != 2 or str(dtype) not in _DTYPES:
        raise InputError(f"{path}: features must be floating point of shape [rows, dim], not {dtype} of {list(shape)}")
    return shape[0], shape[1]


def _tensor(array: NDArray[Any]) -> "Tensor":
    import torch

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
    """Refuse a file that cannot be written, before any work is done.

    Args:
        path: The file; None is fine.
        option: The option that names it.
        suffixes: How its name may end; any way by default.
    """
    if path is None:
        return
    if suffixes and path.suffix not in suffixes:
        endings = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise InputError(Option(option), f" must end in {endings}, not {path}")
    try:
        possible = path.parent.is_dir() and not path.is_dir() and os.access(path.parent, os.W_OK)
    except OSError:  # a name that is too long, say
        possible = False
    if not possible:
        raise InputError(f"{path}: cannot be written; its folder must exist and be writable")


def check_figure(path: Path | None) -> None:
    """Refuse a picture that cannot be written."""
    check_output(path, "plot", ".png", ".pdf", ".svg")


def write_figure(path: Path, figure: Any) -> None:
    """Write a matplotlib figure in the format that the file name asks for."""
    write_atomic(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=160))


def write_atomic(path: Path, content: bytes | str | Callable[[IO[bytes]], object]) -> None:
    """Write a file whole or not at all; an InputError if the system refuses."""
    try:
        _atomic.write_atomic(path, content)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
