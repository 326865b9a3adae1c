"""Streamed pixels: worker processes decode images whenever they are needed."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
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
from orthoframe.options import check_count

_AHEAD = 4  # batches that each worker prepares ahead
_FEW = 512  # images, which are decoded sooner than a worker has started
_USUAL_MEMORY = 2**33  # bytes, where the system does not say how many there are
_MEMORY_SHARE = 4  # images are held if they take at most a quarter of the memory


@dataclass(frozen=True, eq=False)
class PreparedFiles:
    """Image files as pixels, by their position."""

    paths: tuple[Path, ...]
    preparation: Preparation
    stamps: NDArray[np.int64] | None = None  # of `file_stamps`; an image that has another one now is refused

    def __getitem__(self, position: int) -> Tensor:
        path = self.paths[position]
        pixels = self.preparation(path)
        if self.stamps is not None and (file_stamps([path]) != self.stamps[position]).any():
            raise DataError(f"{path}: it has changed since it was listed; start again")
        return pixels


def file_stamps(paths: Sequence[Path]) -> NDArray[np.int64]:
    """`[n, 2]`, size in bytes and time of the last change in ns; -1 for a file that reading will complain about."""
    stamps = np.full((len(paths), 2), -1, dtype=np.int64)
    for stamp, path in zip(stamps, paths, strict=True):
        with suppress(OSError, ValueError):
            status = path.stat()
            stamp[:] = status.st_size, status.st_mtime_ns
    return stamps


@dataclass(frozen=True, eq=False)
class StreamedPixels:
    """Some items of a data set, uint8 pixels each, which are decoded again every time."""

    items: Any  # gives the pixels at a position
    positions: NDArray[np.int64]  # [n], the positions of these items
    image_shape: tuple[int, int, int]  # channels, height and width of each
    workers: int  # processes that decode; 0 for this one

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape that one tensor of all pixels would have."""
        return (len(self.positions), *self.image_shape)

    def subset(self, index: NDArray[np.int64]) -> "StreamedPixels":
        return StreamedPixels(self.items, self.positions[index], self.image_shape, self.workers)

    def batches(self, batches: Sequence[NDArray[np.int64]]) -> Iterator[Tensor]:
        """The pixels of one batch of positions after another, `[b, channels, height, width]`.

        Raises:
            DataError: For the first image that cannot be read.
        """
        for part in decode(self.items, [self.positions[batch].tolist() for batch in batches], self.workers):
            if part.problems:
                raise DataError(part.problems[0])
            yield part.pixels

    def held(self, progress: Callable[[int], None]) -> Tensor:
        """All pixels as one tensor; `progress` is called with the number of images that are read."""
        whole = torch.empty(self.shape, dtype=torch.uint8)
        parts = np.array_split(np.arange(len(whole)), max(1, len(whole) // 64)) if len(whole) else []
        done = 0
        for part in self.batches(parts):
            whole[done : done + len(part)] = part
            done += len(part)
            progress(done)
        return whole


@dataclass(frozen=True, eq=False)
class Decoded:
    """The pixels of a batch, without the images that could not be read."""

    positions: list[int]
    pixels: Tensor  # uint8, [n, channels, height, width]
    problems: tuple[str, ...]  # a sentence for each image that could not be read


def decode(items: Any, batches: Sequence[Sequence[int]], workers: int) -> Iterator[Decoded]:
    """The pixels of batches of positions, in their order, decoded by other processes; 0 `workers` for this one.

    This process also decodes a few images, sooner than others start.
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
    """Turns errors into sentences, because an error in a worker would come with its traceback."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __getitem__(self, position: int) -> tuple[int, Tensor | str]:
        try:
            return position, self.items[position]
        except DataError as error:
            return position, str(error)


def _collected(items: list[tuple[int, Tensor | str]]) -> Decoded:
    decoded = [(position, item) for position, item in items if isinstance(item, Tensor)]
    # In a worker, default_collate writes straight into shared memory.
    pixels = default_collate([item for _, item in decoded]) if decoded else torch.empty(0, dtype=torch.uint8)
    problems = tuple(item for _, item in items if isinstance(item, str))
    return Decoded([position for position, _ in decoded], pixels, problems)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def decoding_processes(workers: int | None) -> int:
    """How many processes decode: one per core unless a number is asked for; 0 for this one."""
    return available_cores() if workers is None else check_count("workers", workers, 0)


def fits_in_memory(size: int, memory: float | None) -> bool:
    """Whether `size` bytes of pixels fit into `memory` GiB (default: a quarter of what machine and limits allow)."""
    return size <= (_default_memory() if memory is None else memory * 2**30)


def _default_memory() -> int:
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _USUAL_MEMORY]
    with suppress(ImportError):  # Windows has neither
        import resource

        kinds = resource.RLIMIT_AS, resource.RLIMIT_DATA
        limits += [soft for kind in kinds if (soft := resource.getrlimit(kind)[0]) > 0]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(limits) // _MEMORY_SHARE
