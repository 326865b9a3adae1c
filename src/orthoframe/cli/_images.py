"""Image files that were named on the command line, and their pixels, decoded by other processes."""

import glob
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from orthoframe.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.data import Preparation

_TOGETHER, _BYTES = 64, 2**22  # images of a batch, and bytes of their pixels: batches pass through shared memory
_FEW = 64  # images that are decoded sooner than other processes are started
_T = TypeVar("_T")


@dataclass(frozen=True)
class Found:
    """Image files in the order of the command line, and a sentence for each name that has none."""

    paths: tuple[Path, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Decoded:
    """Pixels of some files."""

    paths: tuple[Path, ...]
    pixels: "Tensor"  # uint8, [n, channels, height, width]
    problems: tuple[str, ...]  # a sentence for each file that could not be read


def find_images(names: Sequence[str]) -> Found:
    """The files that are meant by files, folders (with all that is below, sorted) and patterns such as `scans/*.png`.

    In a folder hidden files and those without the ending of an image are left out; a file that is named is taken as it
    is.
    """
    paths: list[Path] = []
    problems: list[str] = []
    for name in names:
        matches = [name]
        if glob.has_magic(name) and not os.path.lexists(name):
            matches = sorted(glob.glob(name, recursive=True))
            if not matches:
                problems.append(f"{name}: no file has such a name")
        for match in matches:
            if not os.path.isdir(match):
                paths.append(Path(match))
                continue
            found, unread = _below(match)
            paths += found
            problems += unread
            if not found and not unread:
                problems.append(f"{match}: there are no images in this folder")
    return Found(tuple(paths), tuple(problems))


def _below(folder: str) -> tuple[list[Path], list[str]]:
    """All images of a folder and of the folders in it; and what cannot be looked into."""
    from orthoframe.data import IMAGE_ENDINGS

    unread: list[OSError] = []
    found: list[Path] = []
    for where, inside, files in os.walk(folder, onerror=unread.append):
        inside[:] = [each for each in inside if not each.startswith(".")]
        named = (each for each in files if each.lower().endswith(IMAGE_ENDINGS) and not each.startswith("."))
        found += [Path(where, each) for each in named]
    return sorted(found), [f"{error.filename}: {error.strerror}" for error in unread]


def decode_and(
    work: Callable[[Decoded], _T], paths: Sequence[Path], preparation: "Preparation", workers: int
) -> Iterator[_T]:
    """What `work` makes of the pixels of files, in their order; it is called by several threads at a time.

    The threads of torch wait for each other by turning in circles, which takes the cores from the processes that
    decode: two batches with one thread each are done sooner than one after the other with two.
    """
    import torch

    from orthoframe.data import available_cores

    parts = decode(paths, preparation, workers)
    if len(paths) <= _FEW or not workers:
        yield from map(work, parts)
        return
    threads, waiting = torch.get_num_threads(), deque[Future[_T]]()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(available_cores()) as pool:
            for part in parts:
                waiting.append(pool.submit(work, part))
                if len(waiting) > available_cores():
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        torch.set_num_threads(threads)


def decode(paths: Sequence[Path], preparation: "Preparation", workers: int) -> Iterator[Decoded]:
    """The pixels of files, some at a time, in their order.

    Args:
        paths: The files.
        preparation: What makes pixels of a file.
        workers: Processes that decode.
    """
    from torch.utils.data import DataLoader

    together = max(1, min(_TOGETHER, _BYTES // math.prod(preparation.image_shape)))
    workers = 0 if len(paths) <= _FEW else min(workers, math.ceil(len(paths) / together))
    files: Any = _Files(tuple(paths), preparation)
    yield from DataLoader(files, together, num_workers=workers, collate_fn=_collected)


@dataclass(frozen=True)
class _Files:
    """Pixels by position; what cannot be read becomes a sentence."""

    paths: tuple[Path, ...]
    preparation: "Preparation"

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, position: int) -> "tuple[Path, Tensor | str]":
        path = self.paths[position]
        try:
            return path, self.preparation(path)
        except DataError as error:
            return path, str(error)


def _collected(items: "list[tuple[Path, Tensor | str]]") -> Decoded:
    import torch

    good = [(path, pixels) for path, pixels in items if not isinstance(pixels, str)]
    problems = tuple(said for _, said in items if isinstance(said, str))
    pixels = torch.stack([pixels for _, pixels in good]) if good else torch.empty(0, dtype=torch.uint8)
    return Decoded(tuple(path for path, _ in good), pixels, problems)
