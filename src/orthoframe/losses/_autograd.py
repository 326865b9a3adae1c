"""The loss as differentiable operations: a term for each anchor, or their sum or mean.

Eager code calls autograd Functions. torch.compile gets the same terms as operators: it must not look inside, because it
would unroll the loops over tiles. On a GPU the operators read no value, so that CUDA graphs can record them; only the
one that refuses singletons has to.
"""

import inspect
from typing import Any

import torch
from torch import Tensor

from orthoframe.losses import _symmetric
from orthoframe.losses._batch import LossInputs, LossSpec
from orthoframe.losses._terms import anchor_shares, backward_terms, forward_terms, positive_count, term_gradients


def supcon_terms(inputs: LossInputs, spec: LossSpec) -> tuple[Tensor, Tensor]:
    """Term of each anchor, 0 where it has none, and whether it has none."""
    if torch.compiler.is_compiling():
        values, missing, _ = _terms_operator(*inputs, *spec)
    else:
        values, missing, _ = _SupConTerms.apply(*inputs, spec)  # type: ignore[no-untyped-call]
    return values, missing


def supcon_total(inputs: LossInputs, spec: LossSpec, *, mean: bool, skip: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Sum or mean of the terms, the sum of weights that a mean divides by, and which anchors have no term.

    `skip` says that these are not counted. Faster than summing `supcon_terms`.
    """
    if torch.compiler.is_compiling():
        values, missing, _ = _terms_operator(*inputs, *spec)
        count = anchor_shares(inputs, missing, skip, values).sum()
        return values.sum() / positive_count(count) if mean else values.sum(), count, missing
    learns = torch.is_grad_enabled() and (_needs_gradient(inputs.rows) or _needs_gradient(inputs.temperatures))
    total, count, missing, *_ = _SupConTotal.apply(*inputs, spec, mean, skip, learns)  # type: ignore[no-untyped-call]
    return total, count, missing


def refuse_singletons(values: Tensor, missing: Tensor, labels: Tensor, spec: LossSpec) -> Tensor:
    """The values; a `ValueError` if an anchor has no term. This waits for the device."""
    if torch.compiler.is_compiling():
        checked: Tensor = _refuse_operator(values, missing, labels, spec.compare)
        return checked
    _refuse_missing(missing, labels, spec.compare)
    return values


# The arguments of these Functions are the fields of `LossInputs`, a `LossSpec`, and what follows it.


class _SupConTotal(torch.autograd.Function):
    """The sum or mean. Its gradient is computed in the forward pass, up to a factor."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        """The total, the sum of weights, which anchors have no term, and the gradients of rows and temperatures."""
        inputs, (spec, mean, skip, learns) = LossInputs(*arguments[:-4]), arguments[-4:]
        values, batch, denominators = forward_terms(inputs, spec, _symmetric.KEEP_BYTES if learns else 0)
        total = values.sum()
        if batch.complete and inputs.anchor_weights is None:
            count = total.new_full((), inputs.num_anchors)
            weight = 1.0 / max(1, inputs.num_anchors) if mean else 1.0
            total *= weight
            weights = torch.full_like(values, weight)
        else:
            weights = anchor_shares(inputs, batch.missing, skip, values)
            count = weights.sum()
            if mean:
                total /= positive_count(count)
                weights = weights / positive_count(count)
            if not skip:
                weights = weights.masked_fill(batch.missing, 0.0)
        row_gradient = temperature_gradient = None
        if learns:
            row_gradient, temperature_gradient = term_gradients(
                inputs, batch, spec, weights, denominators, equal_in_class=True
            )
        return total, count, batch.missing, _or_empty(row_gradient, total), _or_empty(temperature_gradient, total)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        rows, temperatures, *_, learns = inputs
        _, count, missing, row_gradient, temperature_gradient = output
        ctx.mark_non_differentiable(count, missing, row_gradient, temperature_gradient)
        ctx.set_materialize_grads(False)  # no zeros for these
        if learns:
            ctx.save_for_backward(rows, temperatures, row_gradient, temperature_gradient)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 10
        rows, temperatures, row_gradient, temperature_gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # with create_graph=True or torch.func
            row_gradient, temperature_gradient = _Constant.apply(row_gradient, temperature_gradient, rows, temperatures)  # type: ignore[no-untyped-call]
        return row_gradient * grad, None if temperatures is None else temperature_gradient * grad, *(None,) * 8

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        *inputs, spec, mean, skip, learns = arguments
        learns = learns or _needs_gradient(inputs[0]) or _needs_gradient(inputs[1])
        return _one_by_one(_SupConTotal, info, dims, (*inputs, _with_keys(spec, inputs[0]), mean, skip, learns))


class _SupConTerms(torch.autograd.Function):
    """The term of each anchor, which anchors have none, and the denominators."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        *inputs, spec = arguments
        values, batch, denominators = forward_terms(LossInputs(*inputs), spec, keep_bytes=0)
        return values, batch.missing, denominators.sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.num_anchors, ctx.spec = inputs
        _, missing, sums = output
        ctx.mark_non_differentiable(missing, sums)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, sums)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 7
        *tensors, sums = ctx.saved_tensors
        row_gradient, temperature_gradient = _SupConGradients.apply(grad, sums, *tensors, ctx.num_anchors, ctx.spec)  # type: ignore[no-untyped-call]
        return row_gradient, None if tensors[1] is None else temperature_gradient, *(None,) * 5

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        *inputs, spec = arguments
        return _one_by_one(_SupConTerms, info, dims, (*inputs, _with_keys(spec, inputs[0])))


class _Gradients(torch.autograd.Function):
    """A base of functions that return gradients of the loss, which cannot be differentiated again."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("the supervised contrastive loss has no second derivative")


class _SupConGradients(_Gradients):
    """Gradients of rows and temperatures (empty if those are no tensor), given the gradient of the terms."""

    @staticmethod
    def forward(grad: Tensor, sums: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
        *inputs, spec = arguments
        row_gradient, temperature_gradient = backward_terms(LossInputs(*inputs), spec, grad, sums)
        return row_gradient, _or_empty(temperature_gradient, grad)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        return _one_by_one(_SupConGradients, info, dims, arguments)


class _Constant(_Gradients):
    """Gradients that have no gradient of their own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        row_gradient: Tensor, temperature_gradient: Tensor, rows: Tensor, temperatures: Tensor
    ) -> tuple[Tensor, Tensor]:
        return row_gradient.clone(), temperature_gradient.clone()


# torch asks for the signature at every call, to bind the arguments; making one takes longer than many an operation of a
# small batch.
_functions: tuple[Any, ...] = (_SupConTotal, _SupConTerms, _SupConGradients)
for _function in _functions:
    _function.forward.__signature__ = inspect.signature(lambda *arguments: None)


def _needs_gradient(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.requires_grad


def _or_empty(tensor: Tensor | None, like: Tensor) -> Tensor:
    return like.new_empty(0) if tensor is None else tensor


def _with_keys(spec: LossSpec, rows: Tensor) -> LossSpec:
    """Keys get a gradient if rows do: inside of `vmap` tensors do not say that they require one."""
    return spec._replace(key_gradient=spec.key_gradient or _needs_gradient(rows))


def _one_by_one(function: Any, info: Any, dims: tuple[Any, ...], arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """The rule for `vmap`: one batch after another, because each is a large computation of its own."""
    pairs = list(zip(arguments, dims, strict=True))
    results = [
        function.apply(*(each.select(dim, i) if isinstance(dim, int) else each for each, dim in pairs))
        for i in range(info.batch_size)
    ]
    outputs = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
    return outputs, (0,) * len(outputs)


# Operators take no tuples: their arguments are the fields of `LossInputs` and then of `LossSpec`.
_INPUTS = (
    "Tensor rows, Tensor? temperatures, Tensor labels, Tensor? class_weights, Tensor? anchor_weights, SymInt anchors"
)
_SPEC = "float? temperature, str denominator, float margin, str compare, bool normalize, bool key_gradient"
_UNSAFE = (torch.Tag.cudagraph_unsafe,)


def _inputs_and_spec(fields: tuple[Any, ...]) -> tuple[LossInputs, LossSpec]:
    length = len(LossInputs._fields)
    return LossInputs(*fields[:length]), LossSpec(*fields[length:])


@torch.library.custom_op(
    "orthoframe::supcon_terms", mutates_args=(), schema=f"({_INPUTS}, {_SPEC}) -> (Tensor, Tensor, Tensor)"
)
def _terms_operator(*fields: Any) -> tuple[Tensor, Tensor, Tensor]:
    inputs, spec = _inputs_and_spec(fields)
    return _SupConTerms.forward(*inputs, spec)


@_terms_operator.register_fake
def _(*fields: Any) -> tuple[Tensor, Tensor, Tensor]:
    inputs, spec = _inputs_and_spec(fields)
    rows, anchors = inputs.rows, inputs.num_anchors
    shape = (2, anchors) if spec.denominator == "sincere" else (anchors,)
    return rows.new_empty(anchors), rows.new_empty(anchors, dtype=torch.bool), rows.new_empty(shape)


@torch.library.custom_op(
    "orthoframe::supcon_gradients",
    mutates_args=(),
    schema=f"(Tensor grad, Tensor sums, {_INPUTS}, {_SPEC}) -> (Tensor, Tensor)",
)
def _gradients_operator(grad: Tensor, sums: Tensor, *fields: Any) -> tuple[Tensor, Tensor]:
    inputs, spec = _inputs_and_spec(fields)
    return _SupConGradients.forward(grad, sums, *inputs, spec)


@_gradients_operator.register_fake
def _(grad: Tensor, sums: Tensor, *fields: Any) -> tuple[Tensor, Tensor]:
    inputs, _ = _inputs_and_spec(fields)
    temperatures = None if inputs.temperatures is None else torch.empty_like(inputs.temperatures)
    return torch.empty_like(inputs.rows), _or_empty(temperatures, grad)


def _save_fields(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    (*tensors, ctx.num_anchors), ctx.spec = _inputs_and_spec(inputs)
    ctx.save_for_backward(*tensors, output[2])


def _operator_backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    *tensors, sums = ctx.saved_tensors
    row_gradient, temperature_gradient = _gradients_operator(grad, sums, *tensors, ctx.num_anchors, *ctx.spec)
    return row_gradient, None if tensors[1] is None else temperature_gradient, *(None,) * (4 + len(ctx.spec))


_terms_operator.register_autograd(_operator_backward, setup_context=_save_fields)


@torch.library.custom_op("orthoframe::refuse_singletons", mutates_args=(), tags=_UNSAFE)
def _refuse_operator(values: Tensor, missing: Tensor, labels: Tensor, compare: str) -> Tensor:
    _refuse_missing(missing, labels, compare)
    return values.clone()


@_refuse_operator.register_fake
def _(values: Tensor, missing: Tensor, labels: Tensor, compare: str) -> Tensor:
    return torch.empty_like(values)


_refuse_operator.register_autograd(lambda _, grad: (grad, None, None, None))


def _refuse_missing(missing: Tensor, labels: Tensor, compare: str) -> None:
    """Raise a `ValueError` that names the first anchor without a term, if there is one; this waits for the device."""
    if not bool(missing.any()):
        return
    position = int(missing.nonzero()[0, 0])
    label, columns = int(labels[position]), labels if compare == "all" else labels[len(missing) :]
    size = int((columns == label).sum())
    if size > (compare == "all"):
        raise ValueError(
            f'every row of the batch is of class {label}, so denominator="negatives" has nothing to sum over, and '
            'singletons="error"; use "skip" or another denominator, or put a second class into the batch'
        )
    if compare == "keys":
        raise ValueError(
            f"class {label} (position {position}) has no key and therefore no positive, and "
            'singletons="error"; use "skip", or give a key of each class'
        )
    raise ValueError(
        f"class {label} has 1 row in the batch (position {position}) and therefore no positive, and "
        'singletons="error"; use "skip", or bind the class so that each batch has two of its rows'
    )
