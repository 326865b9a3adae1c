"""Rows of the other processes, with gradients that find their way home."""

import zlib
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor


def world_size() -> int:
    """Number of processes; 1 without `torch.distributed`."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class Header(NamedTuple):
    """What each process says of its batch before any rows travel."""

    rows: int
    dim: int
    dtype: int  # index into _DTYPES
    learns: int  # whether a gradient will come back through the rows
    options: int  # a number that stands for the options of the loss
    failed: int  # whether the batch was refused


_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def agree(features: Tensor, options: tuple[object, ...], refused: bool) -> list[Header]:
    """Exchange headers, so that a batch which one process refuses stops every process instead of hanging the others.

    Args:
        features: This process's rows.
        options: What must be the same for all processes.
        refused: Whether this process has refused its own batch.

    Returns:
        The headers of all processes, in the order of ranks.

    Raises:
        ValueError: On every process, if the batches of two processes do not fit together.
        RuntimeError: On the processes whose own batch is sound, if another process refused its own.
    """
    device = _collective_device(features)
    mine = Header(0, 0, 0, 0, 0, failed=1)
    if not refused:
        learns = features.requires_grad and torch.is_grad_enabled()
        number = zlib.crc32(repr(options).encode())
        mine = Header(len(features), features.shape[1], _DTYPES.index(features.dtype), int(learns), number, failed=0)
    sent = torch.tensor(mine, device=device)
    received = [torch.empty_like(sent) for _ in range(world_size())]
    dist.all_gather(received, sent)
    headers = [Header(*map(int, header)) for header in received]
    failed = [rank for rank, header in enumerate(headers) if header.failed]
    if failed and not mine.failed:
        raise RuntimeError(f"the batch of rank {failed[0]} was refused; its own error says why")
    for name, what in (
        ("dim", "dimension of features"),
        ("dtype", "dtype of features"),
        ("learns", "requires_grad of features"),
        ("options", "options of the loss"),
    ):
        values = [getattr(header, name) for header in headers]
        if not failed and len(set(values)) > 1:
            shown = [_DTYPES[value] for value in values] if name == "dtype" else values
            seen = "" if name == "options" else f"; ranks 0, 1, ... have {shown}"
            raise ValueError(f"the {what} must be the same on every rank{seen}")
    return headers


def gather_others(features: Tensor, labels: Tensor, headers: list[Header]) -> tuple[Tensor, Tensor]:
    """Rows and labels of all other processes.

    Batches may differ in size: each is padded to the largest for the journey. The gradient of a row that was used
    elsewhere is summed over the processes and comes back to the process that owns the row.

    Args:
        features: `[rows, dim]` of this process.
        labels: `[rows]`.
        headers: What `agree` returned.

    Returns:
        `(rows, labels)` of the others, in the order of ranks.
    """
    rank, longest = dist.get_rank(), max(header.rows for header in headers)
    padding = longest - len(features)
    everything: Tensor = _AllGather.apply(F.pad(features, (0, 0, 0, padding)))  # type: ignore[no-untyped-call]
    sent = F.pad(labels, (0, padding))
    received = [torch.empty_like(sent) for _ in headers]
    dist.all_gather(received, sent)
    others = [other for other in range(len(headers)) if other != rank]
    rows = torch.cat([everything[other, : headers[other].rows] for other in others])
    return rows, torch.cat([received[other][: headers[other].rows] for other in others])


def sum_over_processes(*values: Tensor | int, device: torch.device) -> list[int]:
    """Integer sums over all processes, in one exchange."""
    total = torch.tensor([int(value) for value in values], device=device)
    dist.all_reduce(total)
    return [int(value) for value in total]


def _collective_device(features: object) -> torch.device:
    # A refused batch may be no tensor at all, and NCCL only takes tensors of its own device.
    if isinstance(features, Tensor):
        return features.device
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


class _AllGather(torch.autograd.Function):
    """`[rows, dim]` of each process to `[processes, rows, dim]` on all; written with the public collectives alone."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        rows = rows.contiguous()
        received = [torch.empty_like(rows) for _ in range(world_size())]
        dist.all_gather(received, rows)
        return torch.stack(received)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # An all-reduce: gloo has no reduce-scatter.
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad[dist.get_rank()]
