"""Rows of the other processes; their gradients return to the process that owns them."""

import zlib
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

Group = dist.ProcessGroup | None  # None: all processes

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Header(NamedTuple):
    """What each process says of its batch before any rows are sent."""

    rows: int
    dim: int
    dtype: int  # index into _DTYPES
    learns: int  # whether a gradient will come back through the rows
    options: int  # a checksum of the options of the loss
    refused: int  # whether the process refuses its own batch


def exchange_headers(features: Any, options: dict[str, Any], group: Group, *, refused: bool) -> list[Header]:
    """The headers of all processes, in the order of ranks; raises on every process if they do not fit together.

    A batch that one process refuses stops every process: the others raise instead of waiting for its rows.
    """
    mine = Header(0, 0, 0, 0, 0, refused=1)
    if not refused:
        learns = features.requires_grad and torch.is_grad_enabled()
        checksum = zlib.crc32(repr(options).encode())
        mine = Header(len(features), features.shape[1], _DTYPES.index(features.dtype), int(learns), checksum, refused=0)
    # A refused batch may not be a tensor at all, and NCCL takes only tensors of its own device.
    own = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    device = features.device if isinstance(features, Tensor) else torch.device(own)
    gathered = torch.stack(_all_gather(torch.tensor(mine, device=device), group))
    headers = [Header(*header) for header in gathered.tolist()]  # the one transfer of a step
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


def gather_others(features: Tensor, labels: Tensor, headers: list[Header], group: Group) -> tuple[Tensor, Tensor]:
    """Rows and labels of all other processes, in the order of ranks; batches may differ in size."""
    padding = max(header.rows for header in headers) - len(features)
    rows: Tensor = _AllGather.apply(F.pad(features, (0, 0, 0, padding)), group)  # type: ignore[no-untyped-call]
    row_labels = _all_gather(F.pad(labels, (0, padding)), group)
    others = [(rank, header.rows) for rank, header in enumerate(headers) if rank != dist.get_rank(group)]
    other_rows, other_labels = ([each[rank][:count] for rank, count in others] for each in (rows, row_labels))
    return torch.cat(other_rows), torch.cat(other_labels)


def sum_over_processes(values: Tensor, group: Group) -> Tensor:
    """Sums over the processes of a group, on the device; no gradient."""
    total = values.detach().clone()
    dist.all_reduce(total, group=group)
    return total


def num_processes(group: Group) -> int:
    """How many processes there are in a group; 1 without `torch.distributed`."""
    return dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1


def sub_groups() -> list[int]:
    """Sizes of the groups of several, but not all processes that this process is in."""
    groups = dist.distributed_c10d._world.pg_map  # torch has no public list of them
    sizes = {group.size() for group in groups}  # of those that this process is in
    return sorted(size for size in sizes if 1 < size < dist.get_world_size())


def _check_equal(what: str, values: list[Any]) -> None:
    if len(set(values)) > 1:
        raise ValueError(f"the {what} must be the same on every rank; ranks 0, 1, ... have {values}")


def _all_gather(tensor: Tensor, group: Group) -> list[Tensor]:
    tensor = tensor.contiguous()
    received = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
    dist.all_gather(received, tensor, group=group)
    return received


# Written with the public collectives alone.
class _AllGather(torch.autograd.Function):
    """`[rows, dim]` of each process to `[processes, rows, dim]` on all; a gradient returns to the owner of its row."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return torch.stack(_all_gather(rows, group))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # An all-reduce: gloo has no reduce-scatter.
        grad = grad.contiguous().clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad[dist.get_rank(ctx.group)], None
