"""Arrays of numpy in files, read without trusting their headers; use it inside of `reading`."""

import io
import math
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from orthoframe.errors import brief
from orthoframe.files import open_file, read_up_to

_HEADER_BYTES = 2**14  # of an array at most; numpy accepts 10,000
_LONGEST_ENTRY = 2**16  # bytes: a string of 16,384 characters


@dataclass(frozen=True)
class StoredArray:
    """An array in a file of numpy, whose header agrees with the number of bytes that follow it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]  # numbers, booleans or strings
    by_columns: bool  # whether the first index changes fastest
    offset: int  # where the entries start
    stream: Callable[[], IO[bytes]]  # opens the file at its start

    def read(self) -> NDArray[Any]:
        """The whole array."""
        count = math.prod(self.shape) * self.dtype.itemsize
        with self.stream() as file:
            read_up_to(file, self.offset)
            data = read_up_to(file, count)
        if len(data) < count:
            raise ValueError(f"it ends after {len(data)} of {count} bytes")
        array = np.frombuffer(data, self.dtype).reshape(self.shape, order="F" if self.by_columns else "C")
        if self.dtype.kind == "U" and array.size:
            points = np.frombuffer(data, self.dtype.byteorder.replace("=", "") + "u4")
            if points.max() > 0x10FFFF or ((points >> 11) == 0x1B).any():  # beyond Unicode, or half a character
                raise ValueError("its strings are not Unicode text")
        return array

    def rows(self, together: int) -> Iterator[NDArray[Any]]:
        """The rows of an array `[rows, dim]` that is stored by rows, some at a time."""
        rows, dim = self.shape
        size = dim * self.dtype.itemsize
        with self.stream() as file:
            read_up_to(file, self.offset)
            for start in range(0, rows, together):
                count = min(together, rows - start)
                data = read_up_to(file, count * size)
                if len(data) < count * size:
                    raise ValueError(f"it ends in row {start + len(data) // size} of {rows}")
                yield np.frombuffer(data, self.dtype).reshape(count, dim)


def stored_array(stream: Callable[[], IO[bytes]], size: int) -> StoredArray:
    """Read the header of an array in a `.npy` file, or a member of an archive, of `size` bytes.

    Raises:
        ValueError: If it is not a plain array, or its size is not what the header says; nothing is allocated.
    """
    with stream() as file:
        head = io.BytesIO(file.read(min(size, _HEADER_BYTES)))
    try:
        shape, by_columns, dtype = _header(head)
    except Exception:  # of any kind, and numpy's words advise what cannot be done here
        raise ValueError("it does not start with the header of a plain array; save it with numpy.save") from None
    if dtype.hasobject or dtype.kind == "V":
        raise ValueError("its entries are Python objects or records; save an array of numbers or strings")
    if not 0 < dtype.itemsize <= _LONGEST_ENTRY:
        raise ValueError(f"its entries have {dtype.itemsize} bytes each, and 1 to {_LONGEST_ENTRY} are allowed")
    offset = head.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - offset:
        promised = f"{dtype} of shape {brief(list(shape), 60)}"
        raise ValueError(f"its header promises {promised}, which is not what the {size - offset} bytes after it hold")
    return StoredArray(shape=shape, dtype=dtype, by_columns=by_columns, offset=offset, stream=stream)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what the header says as a Python expression
        return readers[np.lib.format.read_magic(file)](file)


class ArrayArchive:
    """The arrays of an `.npz` file by name; a header is read when its array is asked for."""

    def __init__(self, path: Path) -> None:
        open_file(path).close()
        self._zip = zipfile.ZipFile(path)
        self.members = self._zip.namelist()
        self.names = [name.removesuffix(".npy") for name in self.members if name.endswith(".npy")]

    def __getitem__(self, name: str) -> StoredArray:
        """The array in the member `name.npy`; a `ValueError` if it is not a plain one."""
        member = self._zip.getinfo(f"{name}.npy")
        # Others may need any amount of memory to be unpacked, or a password.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
            raise ValueError(f"{brief(name)} is encrypted or packed in an unusual way; save it with numpy.savez")
        try:
            return stored_array(lambda: self._zip.open(member), member.file_size)
        except ValueError as error:
            raise ValueError(f"{brief(name)}: {error}") from None


def named_arrays(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an `.npz` file that have one of these names."""
    archive = ArrayArchive(path)
    return {name: archive[name].read() for name in names if name in archive.names}


def labelled_parts(archive: ArrayArchive, parts: Iterable[str]) -> dict[str, tuple[StoredArray, StoredArray | None]]:
    """The arrays `x_PART` and `y_PART` of each part that an archive has, or `x` and `y`, whose part is empty.

    Labels are None if there are none. Without `x_train`, `x` and `y` are read; without these too, nothing.
    """
    endings = {part: f"_{part}" for part in parts} if "x_train" in archive.names else {"": ""}
    return {
        part: (archive[f"x{end}"], archive[f"y{end}"] if f"y{end}" in archive.names else None)
        for part, end in endings.items()
        if f"x{end}" in archive.names
    }
