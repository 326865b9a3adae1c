"""Image files, decoded by other processes and processed in threads."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from orthoframe.data import Decoded, Preparation

_BATCH, _BATCH_BYTES = 64, 2**22  # at most, because batches pass through shared memory
_FEW = 64  # images, which are decoded sooner than other processes have started
_T = TypeVar("_T")


def decode_and(
    work: "Callable[[Decoded], _T]", paths: Sequence[Path], preparation: "Preparation", workers: int
) -> Iterator[_T]:
    """Call `work` on batches of decoded files, in several threads; its results come in the order of the files.

    The threads of torch spin while they wait for each other, which takes the cores from the processes that decode: two
    batches with one thread each take less time than one after the other with two.
    """
    import torch

    from orthoframe.data import PreparedFiles, available_cores, decode

    size = max(1, min(_BATCH, _BATCH_BYTES // math.prod(preparation.image_shape)))
    batches = [range(start, min(start + size, len(paths))) for start in range(0, len(paths), size)]
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
