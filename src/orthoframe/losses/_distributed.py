"""Rows of the other processes; their gradients return to the process that owns them.

What talks to other processes is an operator, so that torch.compile does not look inside: the number of rows of the
others has to be read.
"""

import functools
import warnings
import zlib
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

Group = dist.ProcessGroup | None  # None: all processes

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_UNSAFE = (torch.Tag.cudagraph_unsafe,)


class Header(NamedTuple):
    """What each process says of its batch before any rows are sent."""

    rows: int = 0
    dim: int = 0
    dtype: int = 0  # index into _DTYPES
    learns: int = 0  # whether a gradient will come back through the rows
    options: int = 0  # a checksum of the options of the loss
    refused: int = 0  # whether the process refuses its own batch
    total: int = 0  # the bits of the sum of all rows and labels, by which replicas are found


def exchange_headers(features: Tensor, labels: Tensor, numbers: list[float], words: str, group: Group) -> Tensor:
    """`[processes, fields]`, the headers of all processes, on the CPU.

    Raises on every process if they do not fit together, or if one of them refuses its batch: the others must not wait
    for its rows. `numbers` and `words` are the options of the loss.
    """
    learns = features.requires_grad and torch.is_grad_enabled()
    headers: Tensor = _exchange(features.detach(), labels, learns, numbers, words, _name(group))
    return headers


@torch.library.custom_op("orthoframe::exchange_headers", mutates_args=(), tags=_UNSAFE)
def _exchange(features: Tensor, labels: Tensor, learns: bool, numbers: list[float], words: str, group: str) -> Tensor:
    checksum = zlib.crc32(repr((numbers, words)).encode())
    total = (features.sum(dtype=torch.float64) + labels.sum()).nan_to_num(0.0, 0.0, 0.0)
    header = Header(
        rows=len(features),
        dim=features.shape[1],
        dtype=_DTYPES.index(features.dtype),
        learns=int(learns),
        options=checksum,
    )
    sent = torch.tensor(header, device=features.device)
    sent[-1:] = total.view(torch.int64)
    gathered = torch.stack(_all_gather(sent, _group(group))).cpu()  # the one transfer of a step
    headers = [Header(*header) for header in gathered.tolist()]
    _check_headers(headers)
    _warn_of_replicas(headers)
    return gathered


@_exchange.register_fake
def _(features: Tensor, labels: Tensor, learns: bool, numbers: list[float], words: str, group: str) -> Tensor:
    return torch.empty(dist.get_world_size(_group(group)), len(Header._fields), dtype=torch.int64)


def refuse_batch(features: Any, group: Group) -> None:
    """Tell the other processes that this one has no batch for them."""
    # A refused batch may not be a tensor at all, and NCCL takes only tensors of its own device.
    usual = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    device = features.device if isinstance(features, Tensor) else torch.device(usual)
    _all_gather(torch.tensor(Header(refused=1), device=device), group)


def gather_others(features: Tensor, labels: Tensor, headers: Tensor, group: Group) -> tuple[Tensor, Tensor]:
    """Rows and labels of all other processes, in the order of ranks; batches may differ in size."""
    rows, row_labels = _gather(features, labels, headers, _name(group))
    return rows, row_labels


@torch.library.custom_op("orthoframe::gather_others", mutates_args=(), tags=_UNSAFE)
def _gather(features: Tensor, labels: Tensor, headers: Tensor, group: str) -> tuple[Tensor, Tensor]:
    among, sizes = _group(group), headers[:, 0].tolist()
    padding = max(sizes) - len(features)
    rows = _all_gather(F.pad(features, (0, 0, 0, padding)), among)
    row_labels = _all_gather(F.pad(labels, (0, padding)), among)
    others = [(rank, size) for rank, size in enumerate(sizes) if rank != dist.get_rank(among)]
    other_rows, other_labels = ([each[rank][:size] for rank, size in others] for each in (rows, row_labels))
    return torch.cat(other_rows), torch.cat(other_labels)


@_gather.register_fake
def _(features: Tensor, labels: Tensor, headers: Tensor, group: str) -> tuple[Tensor, Tensor]:
    others = torch.library.get_ctx().new_dynamic_size()
    return features.new_empty(others, features.shape[1]), labels.new_empty(others)


@torch.library.custom_op("orthoframe::return_gradients", mutates_args=(), tags=_UNSAFE)
def _return_gradients(grad: Tensor, headers: Tensor, rows: int, group: str) -> Tensor:
    """Each gradient to the owner of its row: `[rows, dim]`, sums over the other processes."""
    among, sizes = _group(group), headers[:, 0].tolist()
    this_rank, sent = dist.get_rank(among), grad.new_zeros(len(sizes), max(sizes), grad.shape[1])
    start = 0
    for rank, size in enumerate(sizes):
        if rank != this_rank:
            sent[rank, :size] = grad[start : start + size]
            start += size
    dist.all_reduce(sent, group=among)  # older versions of gloo have no reduce-scatter
    return sent[this_rank, :rows].clone()


@_return_gradients.register_fake
def _(grad: Tensor, headers: Tensor, rows: int, group: str) -> Tensor:
    return grad.new_empty(rows, grad.shape[1])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    features, _, headers, ctx.group = inputs
    ctx.save_for_backward(headers)
    ctx.rows = features.shape[0]


_gather.register_autograd(
    lambda ctx, grad, _: (_return_gradients(grad, *ctx.saved_tensors, ctx.rows, ctx.group), None, None, None),
    setup_context=_save,
)


def sum_over_processes(values: Tensor, group: Group, headers: Tensor | None = None) -> Tensor:
    """Sums over the processes of a group, on the device, after the headers were exchanged; no gradient.

    NaN says that a process refuses its batch, and raises on the others, where that can be seen without waiting.
    """
    total: Tensor = _sum(values.detach(), headers, _name(group))
    return total


@torch.library.custom_op("orthoframe::sum_over_processes", mutates_args=(), tags=_UNSAFE)
def _sum(values: Tensor, headers: Tensor | None, group: str) -> Tensor:
    total = values.clone()
    dist.all_reduce(total, group=_group(group))
    if total.device.type == "cpu" and not values.isnan().numpy().any() and total.isnan().numpy().any():
        raise RuntimeError("the batch of another rank was refused; its own error says why")
    return total


@_sum.register_fake
def _(values: Tensor, headers: Tensor | None, group: str) -> Tensor:
    return torch.empty_like(values)


def _name(group: Group) -> str:
    """The name of a group, as operators take it."""
    return "" if group is None else group.group_name


def _group(name: str) -> Group:
    """The group of that name; without a name, all processes are supposed to share a batch."""
    if name:
        return next(group for group in _groups() if group.group_name == name)
    sizes = {group.size() for group in _groups()}
    smaller = sorted(size for size in sizes if 1 < size < dist.get_world_size())
    if smaller:
        _warn_once(
            f"this process is also in groups of {smaller} processes, and the loss compares the rows of all "
            f"{dist.get_world_size()}; if gradients are averaged over one of these groups, give it as group=... to the "
            "loss, else torch.distributed.group.WORLD, which says that all share a batch"
        )
    return None


def _groups() -> list[dist.ProcessGroup]:
    """The groups that this process is in."""
    return list(dist.distributed_c10d._world.pg_map)  # torch has no public list of them


def _check_headers(headers: list[Header]) -> None:
    refusing = [rank for rank, header in enumerate(headers) if header.refused]
    if refusing:
        raise RuntimeError(f"the batch of rank {refusing[0]} was refused; the error of that rank says why")
    _check_equal("dimension of features", [header.dim for header in headers])
    _check_equal("dtype of features", [_DTYPES[header.dtype] for header in headers])
    _check_equal("requires_grad of features", [bool(header.learns) for header in headers])
    if len({header.options for header in headers}) > 1:
        raise ValueError("the options of the loss must be the same on every rank")


def _check_equal(what: str, values: list[Any]) -> None:
    if len(set(values)) > 1:
        raise ValueError(f"the {what} must be the same on every rank; ranks 0, 1, ... have {values}")


def _warn_of_replicas(headers: list[Header]) -> None:
    """Tensor-parallel ranks have the same rows, which must not be compared with their own copies."""
    seen: dict[tuple[int, int], int] = {}
    for rank, header in enumerate(headers):
        if header.rows and header.total:  # zeros and NaN are equal without being copies
            first = seen.setdefault((header.rows, header.total), rank)
            if first != rank:
                _warn_once(
                    f"ranks {first} and {rank} of the group gave the same rows and labels. If they are replicas "
                    "(tensor parallelism), give the loss the group of the data dimension as group=...; if not, they "
                    "should have read different data"
                )
                return


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=3)


def _all_gather(tensor: Tensor, group: Group) -> list[Tensor]:
    tensor = tensor.contiguous()
    received = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
    dist.all_gather(received, tensor, group=group)
    return received
