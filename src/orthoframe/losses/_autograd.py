"""One term of the loss for each anchor, or their sum, as differentiable operations.

`l_i = log D_i - mean over positives of s_ij/tau`. The positives need no matrix: their similarities to row i add up to
`h_i . (S_c - h_i)`, where S_c is the sum of the rows of its class. The denominators D_i come from `_kernels`.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from orthoframe.losses import _kernels
from orthoframe.losses._kernels import Batch, LossSpec, class_sums, first

Average = Literal["none", "present", "all"]
"""What a sum of terms is divided by: nothing, the anchors that have a term, or all anchors."""


class Terms(NamedTuple):
    """What the forward pass found."""

    values: Tensor  # [anchors], l_i, 0 where the anchor has no term
    denominators: Tensor  # [anchors], for the backward pass
    tiles: list[Tensor]  # kept for the backward pass
    num_missing: int  # how many anchors have no term


def supcon_terms(rows: Tensor, labels: Tensor, anchors: int, spec: LossSpec) -> Tensor:
    """Term of each anchor, 0 where it has none; the first rows are the anchors, the others are keys."""
    if torch.compiler.is_compiling():
        values: Tensor = terms_operator(rows, labels, anchors, *spec)[0]
    else:
        values = _SupConTerms.apply(rows, labels, anchors, spec)  # type: ignore[no-untyped-call]
    return values


def supcon_total(
    rows: Tensor, labels: Tensor, anchors: int, spec: LossSpec, average: Average
) -> tuple[Tensor, Tensor | int]:
    """Sum or mean of the terms, and how many anchors have none; faster than summing `supcon_terms`."""
    if torch.compiler.is_compiling():
        values, missing, _ = terms_operator(rows, labels, anchors, *spec)
        num_missing = missing.sum()
        if average == "none":
            return values.sum(), num_missing
        count = anchors - num_missing if average == "present" else anchors + 0 * num_missing
        return values.sum() / count.clamp(min=1), num_missing
    total: tuple[Tensor, int] = _SupConTotal.apply(rows, labels, anchors, spec, average)  # type: ignore[no-untyped-call]
    return total


def _forward(rows: Tensor, labels: Tensor, anchors: int, spec: LossSpec, keep_bytes: int) -> tuple[Batch, Terms]:
    with _full_precision(rows):
        batch = Batch.of(rows, labels, anchors, spec)
        num_missing = int(torch.count_nonzero(batch.missing))
        if spec.forbid_singletons and num_missing:
            _refuse_singleton(labels, batch)
        logs, denominators, tiles = _kernels.forward(batch, spec, keep_bytes)
        attraction = torch.linalg.vecdot(first(batch.rows, anchors), batch.positive_sums)
        values = logs.addcdiv(attraction, batch.positives, value=-1.0 / spec.temperature)
        if num_missing:
            values.masked_fill_(batch.missing, 0.0)
        return batch, Terms(values, denominators, tiles, num_missing)


def _backward(
    batch: Batch, spec: LossSpec, weights: Tensor, denominators: Tensor, tiles: list[Tensor], *, uniform: bool = False
) -> Tensor:
    """Gradient of sum_i w_i l_i with respect to the rows.

    The weights `[anchors]` are 0 where an anchor has no term, and are written over. `uniform` says that the others are
    all equal.
    """
    rows, anchors = batch.rows, batch.num_anchors
    with _full_precision(rows):
        # Positives: each anchor pulls the others of its class, and is pulled by them.
        alike = uniform and anchors == rows.shape[0]  # equally strongly, both ways
        pull = (weights / batch.positives).mul_((-2.0 if alike else -1.0) / spec.temperature)[:, None]
        if alike:
            gradient = batch.positive_sums * pull
        else:
            pulled = pull * first(rows, anchors)
            sums = class_sums(pulled, first(batch.classes, anchors), len(batch.counts))
            gradient = sums.index_select(0, batch.classes)
            first(gradient, anchors).sub_(pulled).addcmul_(pull, batch.positive_sums)
        _kernels.backward(gradient, batch, spec, weights, denominators, tiles)
        if batch.inverse_norms is None:
            return gradient
        # To the rows before they were divided by their norms: the part along a row is lost, and a zero row gets zero.
        radial = torch.linalg.vecdot(rows, gradient)[:, None]
        return gradient.addcmul_(rows, radial, value=-1).mul_(batch.inverse_norms)


def _full_precision(rows: Tensor) -> AbstractContextManager[Any]:
    device = rows.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _refuse_singleton(labels: Tensor, batch: Batch) -> None:
    position = int(batch.missing.nonzero()[0, 0])
    label, size = int(labels[position]), int(batch.counts[batch.classes[position]])
    if size > 1:
        raise ValueError(
            f'every row of the batch is of class {label}, so denominator="negatives" has nothing to sum over, and '
            'singletons="error"; use "skip" or another denominator, or put a second class into the batch'
        )
    raise ValueError(
        f"class {label} has 1 row in the batch (position {position}) and therefore no positive, and "
        'singletons="error"; use "skip", or bind the class so that each batch has two of its rows'
    )


class _SupConTerms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, labels: Tensor, anchors: int, spec: LossSpec) -> Tensor:
        batch, terms = _forward(rows, labels, anchors, spec, _kernels.KEEP_BYTES if ctx.needs_input_grad[0] else 0)
        ctx.save_for_backward(*batch, terms.denominators, *terms.tiles)
        ctx.spec = spec
        return terms.values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        _refuse_second_derivative()
        fields = len(Batch._fields)
        batch, (denominators, *tiles) = Batch(*ctx.saved_tensors[:fields]), ctx.saved_tensors[fields:]
        weights = grad.masked_fill(batch.missing, 0.0)
        return _backward(batch, ctx.spec, weights, denominators, tiles), None, None, None


class _SupConTotal(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, labels: Tensor, anchors: int, spec: LossSpec, average: Average
    ) -> tuple[Tensor, int]:
        learns = ctx.needs_input_grad[0]
        batch, terms = _forward(rows, labels, anchors, spec, _kernels.KEEP_BYTES if learns else 0)
        count = {"none": 1, "all": anchors, "present": anchors - terms.num_missing}[average]
        weight = 1.0 / max(1, count)
        if learns:  # the gradient is known at once, up to a factor
            weights = rows.new_full((anchors,), weight)
            if terms.num_missing:
                weights.masked_fill_(batch.missing, 0.0)
            ctx.save_for_backward(_backward(batch, spec, weights, terms.denominators, terms.tiles, uniform=True))
        return terms.values.sum().mul_(weight), terms.num_missing

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: None) -> tuple[Tensor, None, None, None, None]:
        _refuse_second_derivative()
        return ctx.saved_tensors[0] * grad, None, None, None, None


def _refuse_second_derivative() -> None:
    if torch.is_grad_enabled():  # only with create_graph=True, and then a silent constant would be wrong
        raise RuntimeError("the supervised contrastive loss has no second derivative; use create_graph=False")


# The same as operators for torch.compile, which must not look inside: it would unroll the loops over tiles.

_SPEC = "float temperature, str denominator, bool normalize, bool key_gradient, bool forbid_singletons"  # LossSpec
_TERMS = f"(Tensor rows, Tensor labels, SymInt anchors, {_SPEC}) -> (Tensor, Tensor, Tensor)"
_GRADIENT = f"(Tensor rows, Tensor labels, Tensor weights, Tensor denominators, {_SPEC}) -> Tensor"


@torch.library.custom_op("orthoframe::supcon_terms", mutates_args=(), schema=_TERMS)
def terms_operator(rows: Tensor, labels: Tensor, anchors: int, *spec: Any) -> tuple[Tensor, Tensor, Tensor]:
    batch, terms = _forward(rows, labels, anchors, LossSpec(*spec), keep_bytes=0)
    return terms.values, batch.missing, terms.denominators


@terms_operator.register_fake
def _(rows: Tensor, labels: Tensor, anchors: int, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return rows.new_empty(anchors), rows.new_empty(anchors, dtype=torch.bool), rows.new_empty(anchors)


@torch.library.custom_op("orthoframe::supcon_terms_backward", mutates_args=(), schema=_GRADIENT)
def _backward_operator(rows: Tensor, labels: Tensor, weights: Tensor, denominators: Tensor, *options: Any) -> Tensor:
    spec = LossSpec(*options)
    with _full_precision(rows):
        batch = Batch.of(rows, labels, len(weights), spec)
    return _backward(batch, spec, weights.masked_fill(batch.missing, 0.0), denominators, tiles=[])


@_backward_operator.register_fake
def _(rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)


def _save_for_operator(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    rows, labels, _, *ctx.spec = inputs
    ctx.save_for_backward(rows, labels, output[2])


def _operator_gradient(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    rows, labels, denominators = ctx.saved_tensors
    return _backward_operator(rows, labels, grad, denominators, *ctx.spec), *(None,) * 7


terms_operator.register_autograd(_operator_gradient, setup_context=_save_for_operator)
