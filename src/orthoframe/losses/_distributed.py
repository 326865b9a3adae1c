"""Rows of the other processes; their gradients return to the process that owns them."""

import zlib
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from orthoframe._rows import rank_and_world_size

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Header(NamedTuple):
    """What each process says of its batch before any rows are sent."""

    rows: int
    dim: int
    dtype: int  # index into _DTYPES
    learns: int  # whether a gradient will come back through the rows
    options: int  # a checksum of the options of the loss
    refused: int  # whether the process refuses its own batch


def exchange_headers(features: Tensor, options: tuple[object, ...], refused: bool) -> list[Header]:
    """Exchange headers, so that a batch which one process refuses stops every process instead of hanging the others.

    Args:
        features: The rows of this process.
        options: What must be the same on all processes.
        refused: Whether this process has refused its own batch.

    Returns:
        The headers of all processes, in the order of ranks.

    Raises:
        ValueError: On every process, if the batches of two processes do not fit together.
        RuntimeError: On the processes whose own batch is sound, if another process refused its own.
    """
    mine = Header(0, 0, 0, 0, 0, refused=1)
    if not refused:
        learns = features.requires_grad and torch.is_grad_enabled()
        checksum = zlib.crc32(repr(options).encode())
        mine = Header(len(features), features.shape[1], _DTYPES.index(features.dtype), int(learns), checksum, refused=0)
    headers = [Header(*header.tolist()) for header in _all_gather(torch.tensor(mine, device=_device(features)))]
    refusing = [rank for rank, header in enumerate(headers) if header.refused]
    if refusing and not refused:
        raise RuntimeError(f"the batch of rank {refusing[0]} was refused; the error of that rank says why")
    if not refusing:
        _check_equal("dimension of features", [header.dim for header in headers])
        _check_equal("dtype of features", [_DTYPES[header.dtype] for header in headers])
        _check_equal("requires_grad of features", [bool(header.learns) for header in headers])
        if len({header.options for header in headers}) > 1:
            raise ValueError("the options of the loss must be the same on every rank")
    return headers


def gather_others(features: Tensor, labels: Tensor, headers: list[Header]) -> tuple[Tensor, Tensor]:
    """Rows and labels of all other processes, in the order of ranks.

    Batches may differ in size: each is padded to the largest to be sent. The gradient of a row that was used elsewhere
    is summed over the processes and returned to the process that owns the row.
    """
    rank, longest = dist.get_rank(), max(header.rows for header in headers)
    padding = longest - len(features)
    rows: Tensor = _AllGather.apply(F.pad(features, (0, 0, 0, padding)))  # type: ignore[no-untyped-call]
    row_labels = _all_gather(F.pad(labels, (0, padding)))
    others = [(other, header.rows) for other, header in enumerate(headers) if other != rank]
    return (
        torch.cat([rows[other, :count] for other, count in others]),
        torch.cat([row_labels[other][:count] for other, count in others]),
    )


def sum_over_processes(*values: Tensor | int, device: torch.device) -> list[int]:
    """Integer sums over all processes, in one exchange."""
    total = torch.tensor([int(value) for value in values], device=device)
    dist.all_reduce(total)
    return [int(value) for value in total]


def _device(features: object) -> torch.device:
    # A refused batch may not be a tensor at all, and NCCL takes only tensors of its own device.
    if isinstance(features, Tensor):
        return features.device
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def _check_equal(what: str, values: list[Any]) -> None:
    if len(set(values)) > 1:
        raise ValueError(f"the {what} must be the same on every rank; ranks 0, 1, ... have {values}")


def _all_gather(tensor: Tensor) -> list[Tensor]:
    tensor = tensor.contiguous()
    received = [torch.empty_like(tensor) for _ in range(rank_and_world_size()[1])]
    dist.all_gather(received, tensor)
    return received


class _AllGather(torch.autograd.Function):
    """`[rows, dim]` of each process to `[processes, rows, dim]` on all; written with the public collectives alone."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        return torch.stack(_all_gather(rows))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # An all-reduce: gloo has no reduce-scatter.
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad[dist.get_rank()]
