"""The terms of the anchors and their gradient, of one batch.

`l_i = a_i (log D_i - mean over positives of (s_ij - m)/tau)`. The positives need no matrix: their similarities to row i
add up to `h_i . (S_c - h_i)`, where S_c is the sum of the rows of its class. The denominators D_i come from
`_symmetric` or, where that cannot be, from `_general`.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orthoframe.losses import _general, _symmetric
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


FIELDS = len(Inputs._fields)


def terms_forward(inputs: Inputs, spec: LossSpec, keep_bytes: int) -> tuple[Batch, Terms]:
    """The terms; tiles of up to `keep_bytes` are kept for the backward pass."""
    refuse_labels(inputs)
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


def terms_backward(
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
    return inputs.temperatures.to(batch.rows).reciprocal().expand(inputs.num_anchors)


def _shaped_as(per_anchor: Tensor, temperatures: Tensor | None) -> Tensor:
    assert temperatures is not None
    return (per_anchor if temperatures.ndim else per_anchor.sum()).to(temperatures.dtype)


def _anchor_weights(inputs: Inputs, like: Tensor) -> Tensor:
    assert inputs.anchor_weights is not None
    labels = inputs.labels.narrow(0, 0, inputs.num_anchors)  # compiled, the number of other processes' rows is unknown
    return inputs.anchor_weights.to(like.dtype).index_select(0, labels)


def anchor_shares(inputs: Inputs, missing: Tensor, skip: bool, like: Tensor) -> Tensor:
    """`[anchors]`, the weight of each anchor in the mean; 0 for those without a term if they are skipped."""
    if inputs.anchor_weights is None:
        return missing.logical_not().to(like.dtype) if skip else torch.ones_like(like)
    weights = _anchor_weights(inputs, like)
    return weights.masked_fill(missing, 0.0) if skip else weights


def divisor(count: Tensor) -> Tensor:
    """What a mean divides by, given the sum of weights."""
    return count.clamp(min=torch.finfo(count.dtype).tiny)  # without anchors the sum is 0, too


def _full_precision(rows: Tensor) -> AbstractContextManager[Any]:
    device = rows.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def all_terms(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Term of each anchor, whether it has none, and the denominators, from the fields of `Inputs` and `LossSpec`."""
    batch, terms = terms_forward(Inputs(*arguments[:FIELDS]), LossSpec(*arguments[FIELDS:]), keep_bytes=0)
    return terms.values, batch.missing, terms.denominators


def all_gradients(grad: Tensor, denominators: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    """Gradients of rows and temperatures (empty if those are no tensor) from that of the terms."""
    inputs, spec = Inputs(*arguments[:FIELDS]), LossSpec(*arguments[FIELDS:])
    with _full_precision(inputs.rows):
        batch = Batch.of(inputs.rows, inputs.labels, inputs.class_weights, inputs.num_anchors, spec)
    weights = grad.masked_fill(batch.missing, 0.0)
    if inputs.anchor_weights is not None:
        weights *= _anchor_weights(inputs, weights)
    of_rows, of_temperatures = terms_backward(
        inputs, batch, spec, weights, Terms(grad, denominators, [], _grid(batch, spec))
    )
    return of_rows, grad.new_empty(0) if of_temperatures is None else of_temperatures


def refuse_labels(inputs: Inputs) -> None:
    """Raise a `ValueError` that names a label without a weight; not on a GPU, for which this would wait."""
    if inputs.class_weights is None and inputs.anchor_weights is None:
        return
    if inputs.labels.device.type != "cpu" or not inputs.labels.shape[0]:
        return
    labels = inputs.labels.numpy()
    named = (
        ("class_weights", inputs.class_weights, labels),
        (
            "anchor_weights",
            inputs.anchor_weights,
            labels[: inputs.num_anchors],  # keys need no weights of anchors
        ),
    )
    for name, given, needed in named:
        if given is not None and needed.size and not 0 <= needed.min() <= needed.max() < len(given):
            wrong = needed.min() if needed.min() < 0 else needed.max()
            raise ValueError(
                f"label {wrong} has no weight: {name} has one for each of the labels 0 to {len(given) - 1}"
            )


def refuse_missing(missing: Tensor, labels: Tensor, compare: str) -> None:
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
