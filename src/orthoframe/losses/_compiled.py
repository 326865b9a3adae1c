"""The terms of the loss as an operator for torch.compile, which must not look inside: its loops would be unrolled."""

from typing import Any

import torch
from torch import Tensor

from orthoframe.losses._batch import Batch
from orthoframe.losses._core import Form, Terms, backward, count_positives, forward
from orthoframe.losses._unit import unit_rows


@torch.library.custom_op("orthoframe::supcon_terms", mutates_args=())
def terms_operator(
    rows: Tensor,
    labels: Tensor,
    anchors: int,
    temperature: float,
    denominator: str,
    forbid_singletons: bool,
    normalize: bool,
    key_gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    form = Form(temperature, denominator, forbid_singletons, normalize, key_gradient)
    _, _, terms = forward(rows, labels, anchors, form, keep_bytes=0)
    return terms.value, terms.missing, terms.state


@terms_operator.register_fake
def _(rows: Tensor, labels: Tensor, anchors: int, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return rows.new_empty(anchors), rows.new_empty(anchors, dtype=torch.bool), rows.new_empty(anchors)


@torch.library.custom_op("orthoframe::supcon_terms_backward", mutates_args=())
def _backward_operator(
    rows: Tensor,
    labels: Tensor,
    grad: Tensor,
    missing: Tensor,
    state: Tensor,
    anchors: int,
    temperature: float,
    denominator: str,
    normalize: bool,
    key_gradient: bool,
) -> Tensor:
    form = Form(temperature, denominator, False, normalize, key_gradient)
    rows, inverse = unit_rows(rows) if normalize else (rows, None)
    batch = Batch.of(rows, labels, anchors)
    positives, _, others = count_positives(batch, form)
    terms = Terms(grad, missing, state, positives, others, [], int(missing.sum()))
    return backward(rows, batch, inverse, form, grad, terms)


@_backward_operator.register_fake
def _(rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    rows, labels, anchors, temperature, denominator, _, normalize, key_gradient = inputs
    _, missing, state = output
    ctx.save_for_backward(rows, labels, missing, state)
    ctx.form = anchors, temperature, denominator, normalize, key_gradient


def _operator_gradient(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    rows, labels, missing, state = ctx.saved_tensors
    return _backward_operator(rows, labels, grad, missing, state, *ctx.form), *(None,) * 7


terms_operator.register_autograd(_operator_gradient, setup_context=_setup_context)
