"""One term of the loss for each anchor, or their sum, as differentiable operations."""

from dataclasses import astuple
from typing import Any, Literal

import torch
from torch import Tensor

from orthoframe.losses import _symmetric
from orthoframe.losses._batch import Batch
from orthoframe.losses._compiled import terms_operator
from orthoframe.losses._core import Form, Terms, backward, forward

Average = Literal["none", "present", "all"]


def supcon_terms(rows: Tensor, labels: Tensor, anchors: int, form: Form) -> tuple[Tensor, Tensor]:
    """Term of each anchor, and whether it has none.

    Args:
        rows: `[rows, dim]` in float32 or float64; the first `anchors` are anchors, the others only compared with.
        labels: `[rows]`, integers.
        anchors: Number of anchors.
        form: Which loss.

    Returns:
        `(value, missing)`, both `[anchors]`.
    """
    if torch.compiler.is_compiling():
        value, missing, _ = terms_operator(rows, labels, anchors, *astuple(form))
    else:
        value, missing = _SupConTerms.apply(rows, labels, anchors, form)  # type: ignore[no-untyped-call]
    return value, missing


def supcon_total(
    rows: Tensor, labels: Tensor, anchors: int, form: Form, average: Average
) -> tuple[Tensor, Tensor | int]:
    """Sum of the terms, or their mean; faster than `supcon_terms` and a sum, because the gradient is known at once.

    Args:
        rows: As in `supcon_terms`.
        labels: As in `supcon_terms`.
        anchors: As in `supcon_terms`.
        form: As in `supcon_terms`.
        average: Divide by nothing, by the anchors that have a term, or by all anchors.

    Returns:
        `(value, missing)`: a scalar, and how many anchors have no term.
    """
    if torch.compiler.is_compiling():
        terms, without = supcon_terms(rows, labels, anchors, form)
        missing = without.sum()
        if average == "none":
            return terms.sum(), missing
        count = anchors - missing if average == "present" else anchors + 0 * missing
        return terms.sum() / count.clamp(min=1), missing
    absent: list[int] = []  # a second result that is no tensor
    value = _SupConTotal.apply(rows, labels, anchors, form, average, absent)  # type: ignore[no-untyped-call]
    return value, absent[0]


class _SupConTerms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, labels: Tensor, anchors: int, form: Form) -> tuple[Tensor, Tensor]:
        keep_bytes = _symmetric.KEEP_BYTES if ctx.needs_input_grad[0] else 0
        batch, inverse, terms = forward(rows, labels, anchors, form, keep_bytes)
        ctx.save_for_backward(batch.rows, inverse, batch.classes, batch.counts, *terms[1:5], *terms.kept)
        ctx.anchors, ctx.form, ctx.absent = anchors, form, terms.absent
        ctx.mark_non_differentiable(terms.missing)
        return terms.value, terms.missing

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, None, None, None]:
        _refuse_second_derivative()
        rows, inverse, classes, counts, missing, state, positives, others, *kept = ctx.saved_tensors
        batch = Batch(rows, classes, counts, ctx.anchors)
        terms = Terms(grad, missing, state, positives, others, kept, ctx.absent)
        return backward(rows, batch, inverse, ctx.form, grad, terms), None, None, None


class _SupConTotal(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, labels: Tensor, anchors: int, form: Form, average: Average, absent: list[int]
    ) -> Tensor:
        learns = ctx.needs_input_grad[0]
        batch, inverse, terms = forward(rows, labels, anchors, form, _symmetric.KEEP_BYTES if learns else 0)
        weight = 1.0
        if average != "none":
            weight = 1.0 / max(1, anchors - (terms.absent if average == "present" else 0))
        if learns:  # every anchor has the same weight, so there is nothing to wait for
            ctx.save_for_backward(backward(batch.rows, batch, inverse, form, weight, terms))
        absent.append(terms.absent)
        return terms.value.sum().mul_(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        _refuse_second_derivative()
        return ctx.saved_tensors[0] * grad, None, None, None, None, None


def _refuse_second_derivative() -> None:
    if torch.is_grad_enabled():  # only with create_graph=True, and then a silent constant would be wrong
        raise RuntimeError("the supervised contrastive loss has no second derivative; use create_graph=False")
