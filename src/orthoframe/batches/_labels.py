"""Labels and batches as arrays, checked."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[Any]  # of any integer dtype
# Memberships that are looked at together: a few first, because most class pairs meet early, then many.
_FIRST_CHUNK, _LARGEST_CHUNK = 2**11, 2**18


@dataclass(frozen=True)
class Labels:
    """Classes numbered 0..k-1, with the names that the user gave them."""

    classes: Integers  # [samples]
    names: tuple[Any, ...]  # [k], int or str

    @classmethod
    def of(cls, labels: Sequence[Any] | NDArray[Any]) -> "Labels":
        """Number any integer or string labels."""
        if hasattr(labels, "cpu"):  # a torch tensor, wherever it is
            labels = labels.cpu().numpy()
        array = _plain(np.asarray(labels))
        if array.ndim != 1:
            raise ValueError(f"labels must be one-dimensional, not of shape {list(array.shape)}")
        if len(array) == 0:
            return cls(np.empty(0, np.int32), ())
        if array.dtype.kind not in "biuU":
            raise TypeError(f"labels must be integers or strings, not {array.dtype}")
        if array.dtype.kind in "iu" and array.min() >= 0 and array.max() < max(1024, len(array)):
            present = np.bincount(array) > 0  # small integers need no sorting
            names = np.flatnonzero(present)
            return cls((np.cumsum(present, dtype=np.int32) - 1)[array], tuple(names.tolist()))
        found, inverse = np.unique(array, return_inverse=True)
        return cls(inverse.astype(np.int32), tuple(found.tolist()))

    @property
    def counts(self) -> Integers:
        """Samples of each class."""
        return np.bincount(self.classes, minlength=len(self.names))


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Strings as numpy's own, where they come as bytes or as objects (a column of a data frame, say)."""
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat):
        return array.astype(str)
    if array.dtype.kind == "O" and all(isinstance(value, int | np.integer) for value in array.flat):
        return array.astype(np.int64)
    return array


@dataclass(frozen=True)
class Chunk:
    """Consecutive batches, end to end."""

    samples: Integers  # [memberships]
    batches: Integers  # [memberships], 0..num_batches-1
    num_batches: int


def as_indices(batch: Any) -> Integers:
    """One batch as an array of indices, whatever it came as: also a line of JSON."""
    if hasattr(batch, "cpu"):
        batch = batch.cpu().numpy()
    if isinstance(batch, str | bytes):
        batch = json.loads(batch)
    array = np.asarray(batch)
    if array.ndim != 1:
        raise ValueError(f"a batch must be a list of indices, not of shape {list(array.shape)}")
    if len(array) == 0:
        return np.empty(0, np.intp)
    if array.dtype.kind not in "iu":
        raise TypeError(f"a batch must hold integers, not {array.dtype}")
    return array.astype(np.intp, copy=False)  # what numpy indexes with


def index_lists(batches: Iterable[Any], num_samples: int | None = None) -> Iterator[Integers]:
    """Batches as arrays, one after the other; those of a file, if `batches` is the path of one with JSON lines.

    Args:
        batches: Lists of sample indices.
        num_samples: If given, indices are checked against it.

    Yields:
        The indices of a batch.

    Raises:
        ValueError: For a batch that is no list, or an index outside 0..num_samples-1, named by its number.
        TypeError: For a batch that holds something else than integers.
    """
    if isinstance(batches, str | os.PathLike):
        with open(batches, encoding="utf-8-sig") as file:
            yield from index_lists((line for line in file if line.strip()), num_samples)
        return
    for number, batch in enumerate(batches):
        try:
            array = as_indices(batch)
        except TypeError as error:
            raise TypeError(f"batch {number}: {error}") from None
        except ValueError as error:
            raise ValueError(f"batch {number}: {error}") from None
        if num_samples is not None:
            _check_range(array, np.full(len(array), number), num_samples)
        yield array


def whole_number(name: str, value: Any, least: int) -> int:
    """Check an option that counts something."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number from {least}, not {value!r}")
    return int(value)


def chunks(batches: Iterable[Any], num_samples: int) -> Iterator[Chunk]:
    """Batches in chunks of growing size, every index checked.

    Raises:
        ValueError: For an index outside 0..num_samples-1, named by the number of its batch.
    """
    limit, number = _FIRST_CHUNK, 0
    pending: list[Integers] = []
    rows = 0
    for array in index_lists(batches):
        pending.append(array)
        rows += len(array)
        if rows >= limit:
            yield _joined(pending, number, num_samples)
            number, pending, rows = number + len(pending), [], 0
            limit = min(2 * limit, _LARGEST_CHUNK)
    if pending:
        yield _joined(pending, number, num_samples)


def _joined(pending: list[Integers], number: int, num_samples: int) -> Chunk:
    samples = np.concatenate(pending)
    lengths = np.fromiter(map(len, pending), dtype=np.int64, count=len(pending))
    owners = np.repeat(np.arange(len(pending)), lengths)
    _check_range(samples, number + owners, num_samples)
    return Chunk(samples, owners, len(pending))


def _check_range(samples: Integers, numbers: Integers, num_samples: int) -> None:
    if len(samples) and (samples.min() < 0 or samples.max() >= num_samples):
        position = int(np.flatnonzero((samples < 0) | (samples >= num_samples))[0])
        raise ValueError(
            f"batch {int(numbers[position])} holds index {int(samples[position])}, and the labels have "
            f"{num_samples} samples: indices go from 0 to {num_samples - 1}"
        )
