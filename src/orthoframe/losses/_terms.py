"""One term of the loss for each anchor, as a single differentiable operation.

`l_i = log D_i - mean over positives of s_ij/tau`. The positives need no matrix: their similarities to row i add up to
`h_i . (S_c - h_i)`, S_c the sum of the rows of its class. The denominators D_i come from `_symmetric` or `_general`.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor

from orthoframe.losses import _general, _symmetric
from orthoframe.losses._batch import Batch
from orthoframe.losses._unit import through_unit_rows, unit_rows

Average = Literal["none", "present", "all"]


@dataclass(frozen=True)
class Form:
    """Which loss it is, and what is known of its rows."""

    temperature: float
    denominator: str
    forbid_singletons: bool  # raise where an anchor has no term
    normalize: bool  # divide each row by its norm first
    key_gradient: bool  # the rows that are not anchors need a gradient


class Terms(NamedTuple):
    """What the forward pass found."""

    value: Tensor  # [anchors], l_i, 0 where the anchor has no term
    missing: Tensor  # [anchors], whether the anchor has no term
    state: Tensor  # [anchors], the denominators, for the backward pass
    positives: Tensor  # [anchors], how many, at least 1
    others: Tensor  # [anchors, dim], the sum of the positives
    kept: list[Tensor]  # tiles of exponentials
    absent: int  # how many anchors have no term


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
        value, missing, _ = _operator(rows, labels, anchors, *astuple(form))
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
        batch, inverse, terms = _forward(rows, labels, anchors, form, keep_bytes)
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
        return _backward(rows, batch, inverse, ctx.form, grad, terms), None, None, None


class _SupConTotal(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, labels: Tensor, anchors: int, form: Form, average: Average, absent: list[int]
    ) -> Tensor:
        learns = ctx.needs_input_grad[0]
        batch, inverse, terms = _forward(rows, labels, anchors, form, _symmetric.KEEP_BYTES if learns else 0)
        weight = 1.0
        if average != "none":
            weight = 1.0 / max(1, anchors - (terms.absent if average == "present" else 0))
        if learns:  # every anchor has the same weight, so there is nothing to wait for
            ctx.save_for_backward(_backward(batch.rows, batch, inverse, form, weight, terms))
        absent.append(terms.absent)
        return terms.value.sum().mul_(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        _refuse_second_derivative()
        return ctx.saved_tensors[0] * grad, None, None, None, None, None


def _refuse_second_derivative() -> None:
    if torch.is_grad_enabled():  # only with create_graph=True, and then a silent constant would be wrong
        raise RuntimeError("the supervised contrastive loss has no second derivative; use create_graph=False")


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _without_autocast(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Switch autocast off, if it is on, for a function whose first argument is a tensor."""

    @wraps(function)
    def wrapped(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        device = arguments[0].device.type  # type: ignore[attr-defined]
        if not torch.is_autocast_enabled(device):  # a context costs more than a small operation
            return function(*arguments, **options)
        with torch.autocast(device, enabled=False):
            return function(*arguments, **options)

    return wrapped


def _is_symmetric(batch: Batch, form: Form) -> bool:
    return form.denominator == "all" and _symmetric.fits(batch.rows, form.temperature, unit=form.normalize)


@_without_autocast
def _forward(
    rows: Tensor, labels: Tensor, anchors: int, form: Form, keep_bytes: int
) -> tuple[Batch, Tensor | None, Terms]:
    rows, inverse = unit_rows(rows) if form.normalize else (rows, None)
    batch = Batch.of(rows, labels, anchors)
    positives, missing, others = _positives(batch, form)
    absent = int(missing.sum())
    if form.forbid_singletons and absent:
        _refuse_singleton(labels, batch, missing)
    kept: list[Tensor] = []
    if _is_symmetric(batch, form):
        state, kept = _symmetric.forward(batch.rows, batch.anchors, form.temperature, keep_bytes=keep_bytes)
        value = state.log()
    else:
        value, state = _general.forward(batch, form.temperature, form.denominator)
    attraction = torch.linalg.vecdot(batch.of_anchors(batch.rows), others)
    value = value.addcdiv(attraction, positives, value=-1.0 / form.temperature)
    if absent:
        value.masked_fill_(missing, 0.0)
    return batch, inverse, Terms(value, missing, state, positives, others, kept, absent)


@_without_autocast
def _backward(
    rows: Tensor, batch: Batch, inverse: Tensor | None, form: Form, grad: Tensor | float, terms: Terms
) -> Tensor:
    if isinstance(grad, float) and batch.anchors < rows.shape[0]:
        grad = rows.new_full((batch.anchors,), grad)
    # Positives, sum_i c_i h_i.others_i: each anchor pulls the others of its class, and is pulled by them.
    if isinstance(grad, float):  # with the same weight both ways
        pull = (-2.0 * grad / form.temperature) / terms.positives
        grad = rows.new_full((batch.anchors,), grad)
        if terms.absent:
            pull.masked_fill_(terms.missing, 0.0)
            grad.masked_fill_(terms.missing, 0.0)
        gradient = terms.others * pull[:, None]
    else:
        grad = grad.masked_fill(terms.missing, 0.0)
        pull = (grad / terms.positives).div_(-form.temperature)[:, None]
        pulled = pull * batch.of_anchors(rows)
        sums = batch.class_sums(pulled, batch.of_anchors(batch.classes))
        gradient = sums.index_select(0, batch.classes)
        batch.of_anchors(gradient).sub_(pulled).addcmul_(pull, terms.others)
    if _is_symmetric(batch, form):
        # A row all by itself has an empty denominator, and no weight.
        weights = grad.div_(terms.state) if rows.shape[0] > 1 else grad
        _symmetric.backward(gradient, rows, form.temperature, weights, terms.kept, key_gradient=form.key_gradient)
    else:
        _general.backward(
            gradient, batch, form.temperature, form.denominator, grad, terms.state, key_gradient=form.key_gradient
        )
    return gradient if inverse is None else through_unit_rows(gradient, rows, inverse)


def _positives(batch: Batch, form: Form) -> tuple[Tensor, Tensor, Tensor]:
    """For each anchor: the number of positives (at least 1), whether it has no term, the sum of its positives."""
    classes = batch.of_anchors(batch.classes)
    sizes = batch.counts.to(batch.rows.dtype).index_select(0, classes)
    missing = sizes < 2
    if form.denominator == "negatives":  # without a negative the denominator is empty
        missing |= sizes == batch.rows.shape[0]
    sums = batch.class_sums(batch.rows, batch.classes)
    others = sums.index_select(0, classes).sub_(batch.of_anchors(batch.rows))
    return sizes.sub_(1).clamp_(min=1), missing, others


def _refuse_singleton(labels: Tensor, batch: Batch, missing: Tensor) -> None:
    position = int(missing.nonzero()[0, 0])
    label, size = int(labels[position]), int(batch.counts[batch.classes[position]])
    if size > 1:
        raise ValueError(
            f'every row of the batch is of class {label}, denominator="negatives" has nothing to sum over, and '
            'singletons="error"; use "skip", another denominator, or put a second class into the batch'
        )
    raise ValueError(
        f'class {label} has 1 row in the batch (position {position}) and so no positive, and singletons="error"; '
        'use "skip", or bind the class so that each batch has two of its rows'
    )


# The same operation for torch.compile, which must not look inside: the loops over tiles would be unrolled.


@torch.library.custom_op("orthoframe::supcon_terms", mutates_args=())
def _operator(
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
    _, _, terms = _forward(rows, labels, anchors, form, keep_bytes=0)
    return terms.value, terms.missing, terms.state


@_operator.register_fake
def _(rows: Tensor, labels: Tensor, anchors: int, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return rows.new_empty(anchors), rows.new_empty(anchors, dtype=torch.bool), rows.new_empty(anchors)


@torch.library.custom_op("orthoframe::supcon_terms_backward", mutates_args=())
def _operator_backward(
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
    positives, _, others = _positives(batch, form)
    terms = Terms(grad, missing, state, positives, others, [], int(missing.sum()))
    return _backward(rows, batch, inverse, form, grad, terms)


@_operator_backward.register_fake
def _(rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    rows, labels, anchors, temperature, denominator, _, normalize, key_gradient = inputs
    _, missing, state = output
    ctx.save_for_backward(rows, labels, missing, state)
    ctx.form = anchors, temperature, denominator, normalize, key_gradient


def _operator_gradient(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    rows, labels, missing, state = ctx.saved_tensors
    return _operator_backward(rows, labels, grad, missing, state, *ctx.form), *(None,) * 7


_operator.register_autograd(_operator_gradient, setup_context=_setup_context)
