"""The pixels of image files, decoded by other processes, and what is made of them."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from orthoframe.data import Decoded, Preparation

_TOGETHER, _BYTES = 64, 2**22  # images of a batch, and bytes of their pixels: batches pass through shared memory
_FEW = 64  # images that are decoded sooner than other processes are started
_T = TypeVar("_T")


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
    threads, waiting = torch.get_num_threads(), deque[Future[_T]]()
    torch.set_num_threads(1)
    try:
        if len(paths) <= _FEW or not workers:
            yield from map(work, parts)
            return
        with ThreadPoolExecutor(available_cores()) as pool:
            for part in parts:
                waiting.append(pool.submit(work, part))
                if len(waiting) > available_cores():
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        torch.set_num_threads(threads)
