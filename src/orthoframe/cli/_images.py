"""Image files that were named on the command line, and their pixels, decoded by other processes."""

import glob
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from orthoframe.data import Decoded, Preparation

_TOGETHER, _BYTES = 64, 2**22  # images of a batch, and bytes of their pixels: batches pass through shared memory
_FEW = 64  # images that are decoded sooner than other processes are started
_T = TypeVar("_T")


@dataclass(frozen=True)
class Found:
    """Image files in the order of the command line, and a sentence for each name that has none."""

    paths: tuple[Path, ...]
    problems: tuple[str, ...]


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
    work: "Callable[[Decoded], _T]", paths: Sequence[Path], preparation: "Preparation", workers: int
) -> Iterator[_T]:
    """What `work` makes of the pixels of files, in their order; it is called by several threads at a time.

    The threads of torch wait for each other by turning in circles, which takes the cores from the processes that
    decode: two batches with one thread each are done sooner than one after the other with two.
    """
    import torch

    from orthoframe.data import PreparedFiles, available_cores, decode

    together = max(1, min(_TOGETHER, _BYTES // math.prod(preparation.image_shape)))
    batches = [range(start, min(start + together, len(paths))) for start in range(0, len(paths), together)]
    parts = decode(PreparedFiles(tuple(paths), preparation), batches, workers)
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
