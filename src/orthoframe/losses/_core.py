"""One term of the loss for each anchor, and its gradient, on plain tensors.

`l_i = log D_i - mean over positives of s_ij/tau`. The positives need no matrix: their similarities to row i add up to
`h_i . (S_c - h_i)`, S_c the sum of the rows of its class. The denominators D_i come from `_symmetric` or `_general`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor

from orthoframe.losses import _general, _symmetric
from orthoframe.losses._batch import Batch
from orthoframe.losses._unit import through_unit_rows, unit_rows


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
def forward(
    rows: Tensor, labels: Tensor, anchors: int, form: Form, keep_bytes: int
) -> tuple[Batch, Tensor | None, Terms]:
    """The terms, with the rows (and inverse norms, if they were divided by them) that `backward` needs."""
    rows, inverse = unit_rows(rows) if form.normalize else (rows, None)
    batch = Batch.of(rows, labels, anchors)
    positives, missing, others = count_positives(batch, form)
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
def backward(
    rows: Tensor, batch: Batch, inverse: Tensor | None, form: Form, grad: Tensor | float, terms: Terms
) -> Tensor:
    """Gradient with respect to the rows, for a weight of each anchor, or one for all of them."""
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


def count_positives(batch: Batch, form: Form) -> tuple[Tensor, Tensor, Tensor]:
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
