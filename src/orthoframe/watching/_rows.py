"""Each row of a data set once, shared between processes, without a trace in the training."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

# Rows of a batch that is only measured; no gradients are kept, so that it fits where a training batch does.
_ROWS = 128


def shared_rows(data: Any, collate: Callable[[list[Any]], Any] | None = None, workers: int = 0) -> DataLoader[Any]:
    """This process's share of the rows, in their order; no row twice, as a distributed sampler would have it.

    Args:
        data: A data set; or a DataLoader, which is taken as it is.
        collate: What makes a batch of samples.
        workers: Processes that load.

    Returns:
        A loader.

    Raises:
        TypeError: For data without a length.
        ValueError: For fewer rows than processes.
    """
    if isinstance(data, DataLoader):
        return data
    if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise TypeError(
            f"data must be a data set with a length, or a DataLoader, not {type(data).__name__}; "
            "give data=DataLoader(...) with the rows that this process measures"
        )
    several = dist.is_available() and dist.is_initialized()
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if several else (0, 1)
    if len(data) < world_size:
        raise ValueError(f"data has {len(data)} rows, too few for {world_size} processes; measure more rows")
    rows: Dataset[Any] = data if world_size == 1 else Subset(data, range(rank, len(data), world_size))
    return DataLoader(rows, batch_size=_ROWS, collate_fn=collate, num_workers=workers)


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Evaluate without gradients; modes and random numbers are then as they were."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        # A DataLoader draws a seed, and transforms may draw more; CUDA's stream is not touched by data.
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, training in modes:
            module.training = training
