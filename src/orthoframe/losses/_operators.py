"""The terms as operators for torch.compile, which must not look inside: it would unroll the loops over tiles.

On a GPU they read no value, so that CUDA graphs can record them; only the one that refuses singletons must.
"""

from typing import Any

import torch
from torch import Tensor

from orthoframe.losses._batch import LossSpec
from orthoframe.losses._terms import FIELDS, Inputs, all_gradients, all_terms, refuse_missing

_INPUTS = (
    "Tensor rows, Tensor? temperatures, Tensor labels, Tensor? class_weights, Tensor? anchor_weights, SymInt anchors"
)
_SPEC = "float? temperature, str denominator, float margin, str compare, bool normalize, bool key_gradient"  # LossSpec
_UNSAFE = (torch.Tag.cudagraph_unsafe,)


terms_operator = torch.library.custom_op(
    "orthoframe::supcon_terms", all_terms, mutates_args=(), schema=f"({_INPUTS}, {_SPEC}) -> (Tensor, Tensor, Tensor)"
)
_gradients_operator = torch.library.custom_op(
    "orthoframe::supcon_gradients",
    all_gradients,
    mutates_args=(),
    schema=f"(Tensor grad, Tensor denominators, {_INPUTS}, {_SPEC}) -> (Tensor, Tensor)",
)


@torch.library.custom_op("orthoframe::refuse_singletons", mutates_args=(), tags=_UNSAFE)
def refuse_operator(values: Tensor, missing: Tensor, labels: Tensor, compare: str) -> Tensor:
    refuse_missing(missing, labels, compare)
    return values.clone()


@refuse_operator.register_fake
def _(values: Tensor, missing: Tensor, labels: Tensor, compare: str) -> Tensor:
    return torch.empty_like(values)


refuse_operator.register_autograd(lambda _, grad: (grad, None, None, None))


@terms_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    inputs, spec = Inputs(*arguments[:FIELDS]), LossSpec(*arguments[FIELDS:])
    rows, anchors = inputs.rows, inputs.num_anchors
    shape = (2, anchors) if spec.denominator == "sincere" else (anchors,)
    return rows.new_empty(anchors), rows.new_empty(anchors, dtype=torch.bool), rows.new_empty(shape)


@_gradients_operator.register_fake
def _(grad: Tensor, denominators: Tensor, rows: Tensor, temperatures: Tensor | None, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(rows), grad.new_empty(0) if temperatures is None else torch.empty_like(temperatures)


def _operator_gradient(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    *tensors, denominators = ctx.saved_tensors
    of_rows, of_temperatures = _gradients_operator(grad, denominators, *tensors, *ctx.rest)
    learnt = None if tensors[1] is None else of_temperatures
    return of_rows, learnt, *(None,) * len(tensors[2:] + ctx.rest)


def save_inputs(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Tensors for the backward pass, and the rest of the inputs."""
    ctx.save_for_backward(*inputs[: FIELDS - 1], output[2])
    ctx.rest = list(inputs[FIELDS - 1 :])


terms_operator.register_autograd(_operator_gradient, setup_context=save_inputs)
