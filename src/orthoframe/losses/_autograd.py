"""One term of the loss for each anchor, or their sum, as differentiable operations.

`l_i = a_i (log D_i - mean over positives of (s_ij - m)/tau)`. The positives need no matrix: their similarities to row i
add up to `h_i . (S_c - h_i)`, where S_c is the sum of the rows of its class. The denominators D_i come from
`_symmetric` or, where that cannot be, from `_general`.
"""

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from orthoframe.losses import _general, _symmetric, _tiles
from orthoframe.losses._batch import Batch, LossSpec, class_sums, first
from orthoframe.losses._symmetric import Grid


class Inputs(NamedTuple):
    """What the loss is computed from: the first rows are the anchors, the others are keys."""

    rows: Tensor  # [rows, dim]
    temperatures: Tensor | None  # a scalar or [anchors], if the spec has no temperature
    labels: Tensor  # [rows]
    class_weights: Tensor | None  # [k], of exponentials
    anchor_weights: Tensor | None  # [k], of terms
    num_anchors: int


class Terms(NamedTuple):
    """What the forward pass found."""

    values: Tensor  # [anchors], 0 where the anchor has no term
    denominators: Tensor  # for the backward pass
    tiles: list[Tensor]  # kept for the backward pass
    grid: Grid | None  # of the symmetric way, if that was taken


def supcon_terms(inputs: Inputs, spec: LossSpec) -> tuple[Tensor, Tensor]:
    """Term of each anchor, 0 where it has none, and whether it has none."""
    run = _terms_operator if torch.compiler.is_compiling() else _SupConTerms.apply
    values, missing, _ = run(*inputs, *spec)  # type: ignore[no-untyped-call]
    return values, missing


def supcon_total(inputs: Inputs, spec: LossSpec, *, mean: bool, skip: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Sum or mean of the terms, the sum of weights that a mean divides by, and which anchors have no term.

    `skip` says that these are not counted. Faster than summing `supcon_terms`.
    """
    if torch.compiler.is_compiling():
        values, missing, _ = _terms_operator(*inputs, *spec)
        count = _weights(inputs, missing, skip, values).sum()
        return values.sum() / _divisor(count) if mean else values.sum(), count, missing
    learns = torch.is_grad_enabled() and (inputs.rows.requires_grad or _learns(inputs.temperatures))
    found: tuple[Tensor, Tensor, Tensor] = _SupConTotal.apply(*inputs, *spec, mean, skip, learns)[:3]  # type: ignore[no-untyped-call]
    return found


def refuse_singletons(values: Tensor, missing: Tensor, labels: Tensor, spec: LossSpec) -> Tensor:
    """The values; a `ValueError` if an anchor has no term. This waits for the device."""
    if torch.compiler.is_compiling():
        checked: Tensor = _refuse_operator(values, missing, labels, spec.compare)
        return checked
    _refuse_missing(missing, labels, spec.compare)
    return values


def _refuse_missing(missing: Tensor, labels: Tensor, compare: str) -> None:
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


def _forward(inputs: Inputs, spec: LossSpec, keep_bytes: int) -> tuple[Batch, Terms]:
    with _full_precision(inputs.rows):
        anchors = inputs.num_anchors
        batch = Batch.of(inputs.rows, inputs.labels, inputs.class_weights, anchors, spec)
        tiles: list[Tensor] = []
        grid = _grid(batch, spec)
        if grid is not None:
            logs, denominators, tiles = _symmetric.forward(grid, keep_bytes)
        else:
            logs, denominators = _general.forward(batch, spec, _scales(inputs, spec, batch))
        attraction = torch.linalg.vecdot(first(batch.rows, anchors), batch.positive_sums)
        if spec.temperature is not None:
            values = logs.addcdiv_(attraction, batch.positives, value=-1.0 / spec.temperature)
            if spec.margin:
                values += spec.margin / spec.temperature
        else:
            attraction = attraction.div_(batch.positives).sub_(spec.margin)
            values = logs.addcmul_(attraction, _scales(inputs, spec, batch), value=-1.0)
        if inputs.anchor_weights is not None:
            values *= _anchor_weights(inputs, values)
        if not batch.complete:
            values.masked_fill_(batch.missing, 0.0)
        return batch, Terms(values, denominators, tiles, grid)


def _backward(
    inputs: Inputs, batch: Batch, spec: LossSpec, weights: Tensor, terms: Terms, *, by_class: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Gradient of sum_i w_i l_i with respect to the rows, and to the temperatures if they are a tensor.

    The weights `[anchors]` are 0 where an anchor has no term, and include those of anchors; `by_class` says that they
    are equal within each class.
    """
    rows, anchors = batch.rows, batch.num_anchors
    with _full_precision(rows):
        scales = None if terms.grid else _scales(inputs, spec, batch)
        # Positives: each anchor pulls the others of its class, and is pulled by them.
        alike = by_class and anchors == rows.shape[0] and spec.temperature is not None  # equally strongly, both ways
        shares = weights / batch.positives
        if spec.temperature is not None:
            pull = shares.mul((-2.0 if alike else -1.0) / spec.temperature)[:, None]
        else:
            pull = (shares * _scales(inputs, spec, batch)).neg_()[:, None]
        if alike:
            gradient = batch.positive_sums * pull
        else:
            pulled = pull * first(rows, anchors)
            sums = class_sums(pulled, first(batch.classes, anchors), len(batch.counts))
            gradient = sums.index_select(0, batch.classes)
            if spec.compare == "all":
                first(gradient, anchors).sub_(pulled).addcmul_(pull, batch.positive_sums)
            else:
                torch.mul(pull, batch.positive_sums, out=gradient[:anchors])
        of_scales = None
        if terms.grid:
            _symmetric.backward(gradient, terms.grid, weights, terms.denominators, terms.tiles)
        elif scales is not None:
            of_scales = _general.backward(gradient, batch, spec, weights, scales, terms.denominators)
        of_temperatures = None
        if spec.temperature is None and of_scales is not None and scales is not None:
            attraction = torch.linalg.vecdot(first(rows, anchors), batch.positive_sums)
            of_scales.addcmul_(shares, attraction, value=-1.0)
            if spec.margin:
                of_scales.add_(weights, alpha=spec.margin)
            of_temperatures = _shaped_as(of_scales * -scales.square(), inputs.temperatures)
        if batch.inverse_norms is None:
            return gradient, of_temperatures
        # To the rows before they were divided by their norms: the part along a row is lost, and a zero row gets zero.
        radial = torch.linalg.vecdot(rows, gradient)[:, None]
        return gradient.addcmul_(rows, radial, value=-1).mul_(batch.inverse_norms), of_temperatures


def _grid(batch: Batch, spec: LossSpec) -> Grid | None:
    return Grid(batch, spec) if _symmetric.is_symmetric(batch, spec) else None


def _scales(inputs: Inputs, spec: LossSpec, batch: Batch) -> Tensor:
    """Inverse temperatures `[anchors]`."""
    if spec.temperature is not None:
        return batch.rows.new_full((inputs.num_anchors,), 1.0 / spec.temperature)
    assert inputs.temperatures is not None
    return inputs.temperatures.to(batch.rows.dtype).reciprocal().expand(inputs.num_anchors)


def _shaped_as(per_anchor: Tensor, temperatures: Tensor | None) -> Tensor:
    assert temperatures is not None
    return (per_anchor if temperatures.ndim else per_anchor.sum()).to(temperatures.dtype)


def _anchor_weights(inputs: Inputs, like: Tensor) -> Tensor:
    assert inputs.anchor_weights is not None
    labels = inputs.labels.narrow(0, 0, inputs.num_anchors)  # compiled, the number of other processes' rows is unknown
    return inputs.anchor_weights.to(like.dtype).index_select(0, labels)


def _weights(inputs: Inputs, missing: Tensor, skip: bool, like: Tensor) -> Tensor:
    """`[anchors]`, the weight of each anchor in the mean; 0 for those without a term if they are skipped."""
    if inputs.anchor_weights is None:
        return missing.logical_not().to(like.dtype) if skip else torch.ones_like(like)
    weights = _anchor_weights(inputs, like)
    return weights.masked_fill(missing, 0.0) if skip else weights


def _divisor(count: Tensor) -> Tensor:
    return count.clamp(min=torch.finfo(count.dtype).tiny)  # without anchors the sum is 0, too


def _full_precision(rows: Tensor) -> AbstractContextManager[Any]:
    device = rows.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _learns(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.requires_grad


_FIELDS = len(Inputs._fields)


class _SupConTotal(torch.autograd.Function):
    """The sum or mean; its gradient is known at once, up to a factor."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        *given, mean, skip, learns = arguments
        inputs, spec = Inputs(*given[:_FIELDS]), LossSpec(*given[_FIELDS:])
        batch, terms = _forward(inputs, spec, _tiles.KEEP_BYTES if learns else 0)
        total = terms.values.sum()
        if batch.complete and inputs.anchor_weights is None:
            count = total.new_full((), inputs.num_anchors)
            weight = 1.0 / max(1, inputs.num_anchors) if mean else 1.0
            total *= weight
            weights = torch.full_like(terms.values, weight)
        else:
            weights = _weights(inputs, batch.missing, skip, terms.values)
            count = weights.sum()
            if mean:
                divisor = _divisor(count)
                total /= divisor
                weights = weights / divisor
            if not skip:
                weights = weights.masked_fill(batch.missing, 0.0)
        gradients: tuple[Tensor | None, Tensor | None] = None, None
        if learns:
            gradients = _backward(inputs, batch, spec, weights, terms, by_class=True)
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
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        rows, temperatures, of_rows, of_temperatures = ctx.saved_tensors
        if torch.is_grad_enabled():  # with create_graph=True or torch.func
            of_rows, of_temperatures = _Constant.apply(of_rows, of_temperatures, rows, temperatures)  # type: ignore[no-untyped-call]
        second = None if temperatures is None else of_temperatures * grad
        return of_rows * grad, second, *(None,) * (len(Inputs._fields + LossSpec._fields) + 1)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        return _mapped(_SupConTotal, info, dims, arguments, 5)


class _SupConTerms(torch.autograd.Function):
    """The term of each anchor, which anchors have none, and the denominators."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        return _terms(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        _save(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        *tensors, denominators = ctx.saved_tensors
        found = _SupConGradients.apply(grad, denominators, *tensors, *ctx.rest)  # type: ignore[no-untyped-call]
        return found[0], None if tensors[1] is None else found[1], *(None,) * len(tensors[2:] + ctx.rest)

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        return _mapped(_SupConTerms, info, dims, arguments, 3)


class _SupConGradients(torch.autograd.Function):
    """Of the terms."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        return _gradients(*arguments)

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


# The same for torch.compile as operators, which it must not look inside: it would unroll the loops over tiles. On a GPU
# they read no value, so that CUDA graphs can record them; only the one that refuses singletons must.

_INPUTS = (
    "Tensor rows, Tensor? temperatures, Tensor labels, Tensor? class_weights, Tensor? anchor_weights, SymInt anchors"
)
_SPEC = "float? temperature, str denominator, float margin, str compare, bool normalize, bool key_gradient"  # LossSpec
_UNSAFE = (torch.Tag.cudagraph_unsafe,)


def _terms(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    batch, terms = _forward(Inputs(*arguments[:_FIELDS]), LossSpec(*arguments[_FIELDS:]), keep_bytes=0)
    return terms.values, batch.missing, terms.denominators


def _gradients(grad: Tensor, denominators: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    inputs, spec = Inputs(*arguments[:_FIELDS]), LossSpec(*arguments[_FIELDS:])
    with _full_precision(inputs.rows):
        batch = Batch.of(inputs.rows, inputs.labels, inputs.class_weights, inputs.num_anchors, spec)
    weights = grad.masked_fill(batch.missing, 0.0)
    if inputs.anchor_weights is not None:
        weights *= _anchor_weights(inputs, weights)
    of_rows, of_temperatures = _backward(
        inputs, batch, spec, weights, Terms(grad, denominators, [], _grid(batch, spec))
    )
    return of_rows, grad.new_empty(0) if of_temperatures is None else of_temperatures


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Tensors for the backward pass, and the rest of the inputs."""
    ctx.save_for_backward(*inputs[: _FIELDS - 1], output[2])
    ctx.rest = list(inputs[_FIELDS - 1 :])


_terms_operator = torch.library.custom_op(
    "orthoframe::supcon_terms", _terms, mutates_args=(), schema=f"({_INPUTS}, {_SPEC}) -> (Tensor, Tensor, Tensor)"
)
_gradients_operator = torch.library.custom_op(
    "orthoframe::supcon_gradients",
    _gradients,
    mutates_args=(),
    schema=f"(Tensor grad, Tensor denominators, {_INPUTS}, {_SPEC}) -> (Tensor, Tensor)",
)


@torch.library.custom_op("orthoframe::refuse_singletons", mutates_args=(), tags=_UNSAFE)
def _refuse_operator(values: Tensor, missing: Tensor, labels: Tensor, compare: str) -> Tensor:
    _refuse_missing(missing, labels, compare)
    return values.clone()


@_refuse_operator.register_fake
def _(values: Tensor, missing: Tensor, labels: Tensor, compare: str) -> Tensor:
    return torch.empty_like(values)


_refuse_operator.register_autograd(lambda _, grad: (grad, None, None, None))


@_terms_operator.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    inputs, spec = Inputs(*arguments[:_FIELDS]), LossSpec(*arguments[_FIELDS:])
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


_terms_operator.register_autograd(_operator_gradient, setup_context=_save)
