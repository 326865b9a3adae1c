"""Rows of the other processes; their gradients return to the process that owns them."""

import zlib
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Header(NamedTuple):
    """What each process says of its batch before any rows are sent."""

    rows: int
    dim: int
    dtype: int  # index into _DTYPES
    learns: int  # whether a gradient will come back through the rows
    options: int  # a checksum of the options of the loss
    refused: int  # whether the process refuses its own batch


def exchange_headers(features: Any, options: dict[str, Any], refused: bool) -> list[Header]:
    """The headers of all processes, in the order of ranks; raises on every process if they do not fit together.

    A batch that one process refuses stops every process: the others raise instead of waiting for its rows.
    """
    mine = Header(0, 0, 0, 0, 0, refused=1)
    if not refused:
        learns = features.requires_grad and torch.is_grad_enabled()
        checksum = zlib.crc32(repr(options).encode())
        mine = Header(len(features), features.shape[1], _DTYPES.index(features.dtype), int(learns), checksum, refused=0)
    # A refused batch may not be a tensor at all, and NCCL takes only tensors of its own device.
    own = "cuda" if dist.get_backend() == "nccl" else "cpu"
    device = features.device if isinstance(features, Tensor) else torch.device(own)
    headers = [Header(*header.tolist()) for header in _all_gather(torch.tensor(mine, device=device))]
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
    """Rows and labels of all other processes, in the order of ranks; batches may differ in size."""
    padding = max(header.rows for header in headers) - len(features)
    rows: Tensor = _AllGather.apply(F.pad(features, (0, 0, 0, padding)))  # type: ignore[no-untyped-call]
    row_labels = _all_gather(F.pad(labels, (0, padding)))
    others = [(rank, header.rows) for rank, header in enumerate(headers) if rank != dist.get_rank()]
    other_rows, other_labels = ([each[rank][:count] for rank, count in others] for each in (rows, row_labels))
    return torch.cat(other_rows), torch.cat(other_labels)


def sum_over_processes(*values: Tensor | int, device: torch.device) -> list[int]:
    """Integer sums over all processes, in one exchange."""
    total = torch.tensor([int(value) for value in values], device=device)
    dist.all_reduce(total)
    return total.tolist()


def _check_equal(what: str, values: list[Any]) -> None:
    if len(set(values)) > 1:
        raise ValueError(f"the {what} must be the same on every rank; ranks 0, 1, ... have {values}")


def _all_gather(tensor: Tensor) -> list[Tensor]:
    tensor = tensor.contiguous()
    received = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(received, tensor)
    return received


# Written with the public collectives alone.
class _AllGather(torch.autograd.Function):
    """`[rows, dim]` of each process to `[processes, rows, dim]` on all; a gradient returns to the owner of its row."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        return torch.stack(_all_gather(rows))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # An all-reduce: gloo has no reduce-scatter.
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad[dist.get_rank()]
