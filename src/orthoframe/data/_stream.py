"""Pixels that are decoded when they are needed, by worker processes, because not all of them fit into memory."""

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate

from orthoframe.data._preparation import Preparation
from orthoframe.errors import DataError

_AHEAD = 4  # batches that each worker prepares ahead
_FEW = 512  # images that are decoded sooner than a worker has started
_PART = 4  # the images that are held take at most this part of the memory


@dataclass(frozen=True)
class PreparedFiles:
    """Image files as pixels, by their position."""

    paths: tuple[Path, ...]
    preparation: Preparation

    def __getitem__(self, position: int) -> Tensor:
        return self.preparation(self.paths[position])


@dataclass(frozen=True, eq=False)
class StreamedPixels:
    """Some of the items of a data set, each of them uint8 pixels, which are asked for again every time.

    Args:
        items: Gives the pixels at a position.
        positions: int64, [n], those that are meant.
        image_shape: Channels, height and width of each.
        workers: Processes that decode; 0 for this one.
    """

    items: Any
    positions: NDArray[np.int64]
    image_shape: tuple[int, int, int]
    workers: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """As a tensor of all of them would have it."""
        return (len(self.positions), *self.image_shape)

    def subset(self, index: NDArray[np.int64]) -> "StreamedPixels":
        """Those at `index`."""
        return StreamedPixels(self.items, self.positions[index], self.image_shape, self.workers)

    def batches(self, batches: Sequence[NDArray[np.int64]]) -> Iterator[Tensor]:
        """The pixels of one batch of positions after another, `[b, channels, height, width]`.

        Raises:
            DataError: For the first that cannot be read.
        """
        for part in decode(self.items, [self.positions[batch].tolist() for batch in batches], self.workers):
            if part.problems:
                raise DataError(part.problems[0])
            yield part.pixels

    def held(self, progress: Callable[[int], None] | None = None) -> Tensor:
        """All of them as one tensor."""
        whole = torch.empty(self.shape, dtype=torch.uint8)
        parts = np.array_split(np.arange(len(whole)), max(1, len(whole) // 64)) if len(whole) else []
        done = 0
        for part in self.batches(parts):
            whole[done : done + len(part)] = part
            done += len(part)
            if progress is not None:
                progress(done)
        return whole


@dataclass(frozen=True, eq=False)
class Decoded:
    """The pixels of a batch, but for those that could not be read."""

    positions: list[int]
    pixels: Tensor  # uint8, [n, channels, height, width]
    problems: tuple[str, ...]  # a sentence for each image that could not be read


def decode(items: Any, batches: Sequence[Sequence[int]], workers: int) -> Iterator[Decoded]:
    """The pixels of batches, in their order, decoded by other processes.

    Args:
        items: Gives the pixels at a position, or raises a `DataError`.
        batches: Positions.
        workers: Processes that decode; 0 for this one, which also decodes a few images sooner than others start.
    """
    processes = 0 if sum(map(len, batches)) <= _FEW else min(workers, len(batches))
    yield from DataLoader(
        _Items(items),
        batch_sampler=[list(batch) for batch in batches],
        collate_fn=_collected,
        num_workers=processes,
        prefetch_factor=_AHEAD if processes else None,
    )


class _Items(Dataset[tuple[int, Tensor | str]]):
    """What cannot be read becomes a sentence: an error in a worker would come with its traceback."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __getitem__(self, position: int) -> tuple[int, Tensor | str]:
        try:
            return position, self.items[position]
        except DataError as error:
            return position, str(error)


def _collected(items: list[tuple[int, Tensor | str]]) -> Decoded:
    good = [(position, found) for position, found in items if isinstance(found, Tensor)]
    # Into memory that is shared already.
    pixels = default_collate([found for _, found in good]) if good else torch.empty(0, dtype=torch.uint8)
    problems = tuple(found for _, found in items if isinstance(found, str))
    return Decoded([position for position, _ in good], pixels, problems)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def may_hold(size: int, memory: float | None) -> bool:
    """Whether pixels of this size are held in memory.

    Args:
        size: The bytes.
        memory: GiB that they may take (default: a quarter of what the machine or the limits allow).
    """
    return size <= (_most_held() if memory is None else memory * 2**30)


def _most_held() -> int:
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limits += [soft for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA) if (soft := resource.getrlimit(kind)[0]) > 0]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(limits) // _PART
