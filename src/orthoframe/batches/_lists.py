"""Batches as lists of sample indices: from any iterable or a file of JSON lines, checked, and joined into chunks."""

import codecs
import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
from scipy.sparse import csr_array

from orthoframe._rows import AnyLabels, Integers, Labels
from orthoframe.batches._pairs import check_table
from orthoframe.errors import InputError, brief
from orthoframe.files import LARGEST_TEXT, open_file, reading

# Memberships that are looked at together: a few first, because most class pairs meet early, then many.
_FIRST_CHUNK, _LARGEST_CHUNK = 2**11, 2**18
_BATCH = msgspec.json.Decoder(list[int])
_PIECE = 2**20  # bytes of a line that are decoded at a time


def read_batches(
    path: str | os.PathLike[str], num_samples: int | None = None, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Integers]:
    """Read batches from a file of JSON lines, one list of sample indices per line; empty lines are skipped.

    Args:
        path: The file.
        num_samples: Number of labels. If given, indices must be smaller.
        on_bytes: Called with the length of each line that was read, for a progress bar.

    Yields:
        The indices of each batch.

    Raises:
        InputError: If the file cannot be read, or a line is not a list of valid indices; it names the file and the
            line.
    """
    with reading(Path(path), "a file of JSON lines"), open_file(Path(path)) as file:
        for number, line in enumerate(iter(partial(file.readline, LARGEST_TEXT), b""), start=1):
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if text.strip():
                yield _parsed(text, f"{path}, line {number}", num_samples)
            if on_bytes is not None:
                on_bytes(len(line))


def _parsed(line: bytes, where: str, num_samples: int | None) -> Integers:
    if len(line) > 2 * _PIECE:
        return np.concatenate([_parsed(piece, where, num_samples) for piece in _pieces(line.strip(), where)])
    try:
        values = _BATCH.decode(line)
    except msgspec.ValidationError:
        raise InputError(f"{where}: a batch must be a list of whole numbers, such as [0, 5, 2]") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{where}: not JSON ({brief(error)})") from None
    limit = 2**63 if num_samples is None else num_samples
    for value in values:
        if not 0 <= value < limit:
            raise InputError(f"{where}: index {brief(value, 30)}; {_valid_range(num_samples)}")
    return np.array(values, dtype=np.int64)


def _pieces(line: bytes, where: str) -> Iterator[bytes]:
    """A long list as short ones: the numbers of all of it, as objects of Python, would take ten times its memory."""
    start, end = 1, len(line) - 1
    while start <= end:
        comma = line.find(b",", start + _PIECE, end)
        stop = end if comma < 0 else comma
        if not line.startswith(b"[") or not line.endswith(b"]") or not line[start:stop].strip():
            raise InputError(f"{where}: a batch must be a list of whole numbers, such as [0, 5, 2]")
        yield b"[" + line[start:stop] + b"]"
        start = stop + 1


def _valid_range(num_samples: int | None) -> str:
    if num_samples is None:
        return "indices start at 0 and fit into 64 bits"
    return f"there are {num_samples} labels, so indices go from 0 to {num_samples - 1}"


def write_batches(file: IO[bytes], batches: Iterable[Any]) -> None:
    """Write batches as JSON lines, to a file that is open in binary mode; the inverse of `read_batches`.

    Examples:
        >>> import io
        >>> write_batches(file := io.BytesIO(), [[0, 1], np.array([2])])
        >>> file.getvalue().splitlines()
        [b'[0, 1]', b'[2]']
    """
    for batch in index_lists(batches):
        file.write(json.dumps(batch.tolist()).encode() + b"\n")


def index_lists(batches: Iterable[Any], num_samples: int | None = None) -> Iterator[Integers]:
    """Convert batches, lists of indices or the path of a file of JSON lines, to arrays one at a time.

    With `num_samples`, the number of labels, indices are checked too. Raises a ValueError or TypeError that names the
    batch; for a file, an InputError that names the line.
    """
    if isinstance(batches, str | os.PathLike):
        yield from read_batches(batches, num_samples)
        return
    for number, batch in enumerate(batches):
        array = np.asarray(batch.cpu() if hasattr(batch, "cpu") else batch)  # a torch tensor may be on a device
        if array.ndim != 1:
            raise ValueError(f"batch {number} must be a list of indices, not an array of shape {list(array.shape)}")
        if len(array) and array.dtype.kind not in "iu":
            raise TypeError(f"batch {number} must hold integers of at most 64 bits, not {array.dtype}")
        array = array.astype(np.intp, copy=False)  # what numpy indexes with
        if num_samples is not None:
            _check_range(array, np.full(len(array), number), num_samples)
        yield array


class Chunk(NamedTuple):
    """Consecutive batches, end to end."""

    samples: Integers  # [memberships]
    batches: Integers  # [memberships], 0..num_batches-1
    num_batches: int


def chunks(batches: Iterable[Any], num_samples: int) -> Iterator[Chunk]:
    """Join batches into chunks of growing size, and check every index."""
    from_file = isinstance(batches, str | os.PathLike)  # whose errors name the line
    arrays = index_lists(batches, num_samples if from_file else None)
    limit, number = _FIRST_CHUNK, 0
    while taken := _take(arrays, limit):
        chunk = end_to_end(taken)
        _check_range(chunk.samples, number + chunk.batches, num_samples)
        yield chunk
        limit, number = min(2 * limit, _LARGEST_CHUNK), number + len(taken)


def _take(arrays: Iterator[Integers], rows: int) -> list[Integers]:
    """The next arrays: as many as it takes to have this number of rows, or all that are left."""
    taken = []
    for array in arrays:
        taken.append(array)
        rows -= len(array)
        if rows <= 0:
            break
    return taken


def end_to_end(batches: list[Integers]) -> Chunk:
    """Join one or more batches into a chunk."""
    lengths = np.fromiter(map(len, batches), dtype=np.int64, count=len(batches))
    return Chunk(np.concatenate(batches), np.repeat(np.arange(len(batches)), lengths), len(batches))


def _check_range(samples: Integers, numbers: Integers, num_samples: int) -> None:
    if len(samples) and (samples.min() < 0 or samples.max() >= num_samples):
        position = int(np.flatnonzero((samples < 0) | (samples >= num_samples))[0])
        raise ValueError(
            f"batch {int(numbers[position])} holds index {int(samples[position])}; {_valid_range(num_samples)}"
        )


def meeting_counts(labels: AnyLabels, batches: Iterable[Any]) -> Integers:
    """Count the batches that each pair of classes shares.

    Args:
        labels: `[samples]`, integers or strings.
        batches: Lists of sample indices.

    Returns:
        `[k, k]`, classes in the order of their names; the diagonal counts the batches that hold each class.

    Raises:
        OptionError: For more than 4,096 classes.

    Examples:
        >>> meeting_counts(["a", "a", "b"], [[0, 2], [1, 2], [0, 1]])
        array([[3, 2],
               [2, 2]])
    """
    numbered = Labels.of(labels)
    k = len(numbered.names)
    check_table(k, "meeting_counts", "count the pairs that never meet with certify")
    counts = np.zeros((k, k), dtype=np.int64)
    for chunk in chunks(batches, len(numbered.classes)):
        pairs = np.unique(chunk.batches.astype(np.int64) * k + numbered.classes[chunk.samples])
        held = csr_array((np.ones(len(pairs), np.int64), np.divmod(pairs, k)), shape=(chunk.num_batches, k))
        counts += (held.T @ held).toarray()
    return counts
