"""Features from a file, some rows at a time: the whole never has to fit into memory."""

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe.cli._files import pick
from orthoframe.errors import InputError

_ROWS = 8192
# As numpy names them, in either byte order, and as safetensors does.
_DTYPES = {f"{order}f{size}" for order in "<>" for size in (2, 4, 8)} | {"float16", "float32", "float64"}
_DTYPES |= {"F16", "BF16", "F32", "F64"}


@dataclass(frozen=True)
class FeatureFile:
    """Rows of features; `parts()` gives them in order, from the start each time."""

    rows: int
    dim: int
    parts: Callable[[], Iterator[Tensor]]


def open_features(path: Path, key: str | None) -> FeatureFile:
    """Features from `.npy` (mapped), `.npz`, `.safetensors` (read as needed) or `.csv` (numbers, header or not)."""
    kinds = {".npy": _npy, ".npz": _npz, ".safetensors": _safetensors, ".csv": _csv}
    if path.suffix not in kinds:
        raise InputError(f"{path}: features must be a file {', '.join(kinds)}")
    if key is not None and path.suffix not in (".npz", ".safetensors"):
        raise InputError(f"--key is for .npz and .safetensors files, and {path} is none")
    if not path.is_file():
        raise InputError(f"{path}: No such file")
    return kinds[path.suffix](path, key)


def _checked(path: Path, shape: tuple[int, ...], dtype: Any) -> tuple[int, int]:
    if len(shape) != 2 or str(dtype) not in _DTYPES:
        raise InputError(f"{path}: features must be floating point of shape [rows, dim], not {dtype} of {list(shape)}")
    return shape[0], shape[1]


def _npy(path: Path, _: str | None) -> FeatureFile:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path}: not a .npy file of numbers ({error})") from None
    rows, dim = _checked(path, array.shape, array.dtype)

    def parts() -> Iterator[Tensor]:
        for start in range(0, rows, _ROWS):
            yield _tensor(array[start : start + _ROWS])

    return FeatureFile(rows, dim, parts)


def _npz(path: Path, key: str | None) -> FeatureFile:
    """Streamed out of the archive, so that a compressed one needs no memory either."""

    @contextmanager
    def member() -> Iterator[tuple[IO[bytes], tuple[int, ...], Any]]:
        try:
            with zipfile.ZipFile(path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
                with archive.open(pick(path, key, "features", names) + ".npy") as file:
                    version = np.lib.format.read_magic(file)
                    read = (
                        np.lib.format.read_array_header_1_0
                        if version == (1, 0)
                        else np.lib.format.read_array_header_2_0
                    )
                    shape, fortran, dtype = read(file)
                    if fortran and len(shape) > 1:
                        raise InputError(f"{path}: features are stored by columns; save np.ascontiguousarray(features)")
                    yield file, shape, dtype
        except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{path}: not a .npz file of numbers ({error})") from None

    with member() as (_, shape, dtype):
        rows, dim = _checked(path, shape, dtype)

    def parts() -> Iterator[Tensor]:
        with member() as (file, _, dtype):
            for start in range(0, rows, _ROWS):
                count = min(_ROWS, rows - start)
                data = file.read(count * dim * dtype.itemsize)
                if len(data) < count * dim * dtype.itemsize:
                    raise InputError(
                        f"{path}: the file ends in row {start + len(data) // (dim * dtype.itemsize)} of {rows}"
                    )
                yield _tensor(np.frombuffer(data, dtype=dtype).reshape(count, dim))

    return FeatureFile(rows, dim, parts)


def _safetensors(path: Path, key: str | None) -> FeatureFile:
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="pt")
        tensor = file.get_slice(pick(path, key, "features", list(file.keys())))
    except SafetensorError as error:
        raise InputError(f"{path}: not a .safetensors file ({error})") from None
    rows, dim = _checked(path, tuple(tensor.get_shape()), tensor.get_dtype())

    def parts() -> Iterator[Tensor]:
        for start in range(0, rows, _ROWS):
            yield tensor[start : start + _ROWS]

    return FeatureFile(rows, dim, parts)


def _csv(path: Path, _: str | None) -> FeatureFile:
    def lines() -> Iterator[tuple[int, list[str]]]:
        try:
            with path.open(encoding="utf-8-sig") as file:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        yield number, line.split(",")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not a text in UTF-8 ({error.reason} at byte {error.start})") from None

    first = next(lines(), None)
    if first is None:
        raise InputError(f"{path}: the file is empty")
    dim, header = len(first[1]), not all(_is_number(field) for field in first[1])

    def parsed() -> Iterator[list[float]]:
        for number, fields in lines():
            if header and number == first[0]:
                continue
            if len(fields) != dim:
                raise InputError(f"{path}, line {number}: {len(fields)} fields, and the first line has {dim}")
            try:
                yield [float(field) for field in fields]
            except ValueError:
                wrong = next(field.strip() for field in fields if not _is_number(field))
                raise InputError(f"{path}, line {number}: {wrong!r} is no number") from None

    def parts() -> Iterator[Tensor]:
        waiting: list[list[float]] = []
        for row in parsed():
            waiting.append(row)
            if len(waiting) == _ROWS:
                yield torch.tensor(waiting, dtype=torch.float64)
                waiting = []
        if waiting:
            yield torch.tensor(waiting, dtype=torch.float64)

    return FeatureFile(sum(1 for _ in lines()) - header, dim, parts)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _tensor(array: NDArray[Any]) -> Tensor:
    # A copy in the byte order of this machine: what is mapped can only be read.
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))
