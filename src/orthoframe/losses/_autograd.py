"""The loss as differentiable operations: a term for each anchor, or their sum or mean."""

import inspect
from typing import Any, NoReturn

import torch
from torch import Tensor

from orthoframe.losses import _tiles
from orthoframe.losses._batch import LossSpec
from orthoframe.losses._operators import refuse_operator, save_inputs, terms_operator
from orthoframe.losses._terms import (
    FIELDS,
    Inputs,
    all_gradients,
    all_terms,
    anchor_shares,
    divisor,
    refuse_missing,
    terms_backward,
    terms_forward,
)


def supcon_terms(inputs: Inputs, spec: LossSpec) -> tuple[Tensor, Tensor]:
    """Term of each anchor, 0 where it has none, and whether it has none."""
    run = terms_operator if torch.compiler.is_compiling() else _SupConTerms.apply
    values, missing, _ = run(*inputs, *spec)  # type: ignore[no-untyped-call]
    return values, missing


def supcon_total(inputs: Inputs, spec: LossSpec, *, mean: bool, skip: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Sum or mean of the terms, the sum of weights that a mean divides by, and which anchors have no term.

    `skip` says that these are not counted. Faster than summing `supcon_terms`.
    """
    if torch.compiler.is_compiling():
        values, missing, _ = terms_operator(*inputs, *spec)
        count = anchor_shares(inputs, missing, skip, values).sum()
        return values.sum() / divisor(count) if mean else values.sum(), count, missing
    learns = torch.is_grad_enabled() and (inputs.rows.requires_grad or _learns(inputs.temperatures))
    found: tuple[Tensor, Tensor, Tensor] = _SupConTotal.apply(*inputs, *spec, mean, skip, learns)[:3]  # type: ignore[no-untyped-call]
    return found


def refuse_singletons(values: Tensor, missing: Tensor, labels: Tensor, spec: LossSpec) -> Tensor:
    """The values; a `ValueError` if an anchor has no term. This waits for the device."""
    if torch.compiler.is_compiling():
        checked: Tensor = refuse_operator(values, missing, labels, spec.compare)
        return checked
    refuse_missing(missing, labels, spec.compare)
    return values


def _learns(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.requires_grad


_ARGUMENTS = len(Inputs._fields + LossSpec._fields)


class _SupConTotal(torch.autograd.Function):
    """The sum or mean; its gradient is known at once, up to a factor."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        *given, mean, skip, learns = arguments
        inputs, spec = Inputs(*given[:FIELDS]), LossSpec(*given[FIELDS:])
        batch, terms = terms_forward(inputs, spec, _tiles.KEEP_BYTES if learns else 0)
        total = terms.values.sum()
        if batch.complete and inputs.anchor_weights is None:
            count = total.new_full((), inputs.num_anchors)
            weight = 1.0 / max(1, inputs.num_anchors) if mean else 1.0
            total *= weight
            weights = torch.full_like(terms.values, weight)
        else:
            weights = anchor_shares(inputs, batch.missing, skip, terms.values)
            count = weights.sum()
            if mean:
                total /= divisor(count)
                weights = weights / divisor(count)
            if not skip:
                weights = weights.masked_fill(batch.missing, 0.0)
        gradients: tuple[Tensor | None, Tensor | None] = None, None
        if learns:
            gradients = terms_backward(inputs, batch, spec, weights, terms, by_class=True)
        empty = total.new_empty(0)
        return total, count, batch.missing, *(empty if each is None else each for each in gradients)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        rows, temperatures, *_, learns = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # no zeros for these
        if learns:
            ctx.save_for_backward(rows, temperatures, *output[3:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * (_ARGUMENTS + 3)
        rows, temperatures, of_rows, of_temperatures = ctx.saved_tensors
        if torch.is_grad_enabled():  # with create_graph=True or torch.func
            of_rows, of_temperatures = _Constant.apply(of_rows, of_temperatures, rows, temperatures)  # type: ignore[no-untyped-call]
        second = None if temperatures is None else of_temperatures * grad
        return of_rows * grad, second, *(None,) * (_ARGUMENTS + 1)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        *given, mean, skip, learns = _with_gradients(arguments)
        learns = learns or _learns(given[0]) or _learns(given[1])
        return _mapped(_SupConTotal, info, dims, (*given, mean, skip, learns), 5)


class _SupConTerms(torch.autograd.Function):
    """The term of each anchor, which anchors have none, and the denominators."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        return all_terms(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        save_inputs(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * _ARGUMENTS
        *tensors, denominators = ctx.saved_tensors
        found = _SupConGradients.apply(grad, denominators, *tensors, *ctx.rest)  # type: ignore[no-untyped-call]
        return found[0], None if tensors[1] is None else found[1], *(None,) * len(tensors[2:] + ctx.rest)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        return _mapped(_SupConTerms, info, dims, _with_gradients(arguments), 3)


class _SupConGradients(torch.autograd.Function):
    """Of the terms."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        return all_gradients(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        _refuse_second_derivative()

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        return _mapped(_SupConGradients, info, dims, arguments, 2)


class _Constant(torch.autograd.Function):
    """Gradients as they are, which cannot be differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(of_rows: Tensor, of_temperatures: Tensor, rows: Tensor, temperatures: Tensor) -> tuple[Tensor, Tensor]:
        return of_rows.clone(), of_temperatures.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        _refuse_second_derivative()


def _refuse_second_derivative() -> NoReturn:
    raise RuntimeError("the supervised contrastive loss has no second derivative")


# torch asks for the signature at every call, and to find it out takes longer than many an operation.
for _function in (_SupConTotal, _SupConTerms):
    _function.forward.__signature__ = inspect.signature(_function.forward)  # type: ignore[attr-defined]


_KEY_GRADIENT = FIELDS + LossSpec._fields.index("key_gradient")


def _with_gradients(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Keys get a gradient if rows do: inside of `vmap` tensors do not say that they require one."""
    wanted = arguments[_KEY_GRADIENT] or _learns(arguments[0])
    return *arguments[:_KEY_GRADIENT], wanted, *arguments[_KEY_GRADIENT + 1 :]


def _mapped(
    function: Any, info: Any, dims: tuple[Any, ...], arguments: tuple[Any, ...], outputs: int
) -> tuple[Any, Any]:
    """One batch after another: each is a large computation of its own."""
    moved = [each if dim is None else each.movedim(dim, 0) for each, dim in zip(arguments, dims, strict=True)]
    results = [
        function.apply(*(each if dim is None else each[i] for each, dim in zip(moved, dims, strict=True)))
        for i in range(info.batch_size)
    ]
    return tuple(torch.stack(parts) for parts in zip(*results, strict=True)), (0,) * outputs
