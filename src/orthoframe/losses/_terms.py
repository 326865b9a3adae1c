"""The terms of the anchors and their gradient, of one batch.

`l_i = a_i (log D_i - mean over positives of (s_ij - m)/tau)`. The positives need no matrix: their similarities to row i
add up to `h_i . (S_c - h_i)`, where S_c is the sum of the rows of its class. The denominators D_i come from
`_symmetric`, or are computed here, in blocks: slower, but right at tiny temperatures, for one temperature per anchor,
for rows that are not unit, and without reading any value.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orthoframe.losses import _symmetric
from orthoframe.losses._batch import Batch, LossInputs, LossSpec, class_sums, first

# Elements of a block, some anchors x all columns: 8 MiB of float32. On a GPU each operation costs a launch, and pieces
# of 64 MiB are little of its memory; a guess, not measured.
BLOCK, _GPU_BLOCK = 2**21, 2**24


class Denominators(NamedTuple):
    """What the backward pass needs of the denominators."""

    sums: Tensor  # of `_symmetric`, or logarithms of those in blocks
    tiles: list[Tensor]  # kept from the forward pass
    grid: _symmetric.Grid | None  # None: they were computed in blocks


def forward_terms(inputs: LossInputs, spec: LossSpec, keep_bytes: int) -> tuple[Tensor, Batch, Denominators]:
    """Term of each anchor, 0 where it has none; up to `keep_bytes` of tiles are kept for the backward pass."""
    inputs.check_labels()
    with _full_precision(inputs.rows):
        batch = Batch.of(inputs, spec)
        grid = _symmetric_grid(batch, spec)
        tiles: list[Tensor] = []
        if grid is not None:
            logs, sums, tiles = _symmetric.forward(grid, keep_bytes)
        else:
            logs, sums = _denominators_in_blocks(batch, spec, _inverse_temperatures(inputs, spec, batch))
        attraction = _attraction(batch)
        if spec.temperature is not None:
            values = logs.addcdiv_(attraction, batch.positives, value=-1.0 / spec.temperature)
            if spec.margin:
                values += spec.margin / spec.temperature
        else:
            attraction = attraction.div_(batch.positives).sub_(spec.margin)
            values = logs.addcmul_(attraction, _inverse_temperatures(inputs, spec, batch), value=-1.0)
        if spec.denominator == "sincere":  # rounding would put a term without negatives below its floor
            members = batch.counts.index_select(0, first(batch.classes, batch.num_anchors))
            alone = members == batch.rows.shape[0] - batch.first_column
            floor = 0.0 if batch.weights is None else first(batch.weights, batch.num_anchors).log()
            values = torch.where(alone, floor, values)
        if inputs.anchor_weights is not None:
            values *= _weights_of_anchors(inputs, values)
        if not batch.complete:
            values.masked_fill_(batch.missing, 0.0)
        return values, batch, Denominators(sums, tiles, grid)


def backward_terms(inputs: LossInputs, spec: LossSpec, grad: Tensor, sums: Tensor) -> tuple[Tensor, Tensor | None]:
    """Gradient of rows and temperatures, given the gradient of the terms and the sums of the forward pass."""
    with _full_precision(inputs.rows):
        batch = Batch.of(inputs, spec)
    weights = grad.masked_fill(batch.missing, 0.0)
    if inputs.anchor_weights is not None:
        weights *= _weights_of_anchors(inputs, weights)
    return term_gradients(inputs, batch, spec, weights, Denominators(sums, [], _symmetric_grid(batch, spec)))


def term_gradients(
    inputs: LossInputs,
    batch: Batch,
    spec: LossSpec,
    weights: Tensor,
    denominators: Denominators,
    *,
    equal_in_class: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Gradient of sum_i w_i l_i with respect to the rows, and to the temperatures if they are a tensor.

    The weights `[anchors]` are 0 where an anchor has no term, and include anchor weights; `equal_in_class` says that
    they are equal within each class.
    """
    rows, grid = batch.rows, denominators.grid
    temperature_gradient = None
    with _full_precision(rows):
        shares = weights / batch.positives
        gradient = _positive_gradient(inputs, batch, spec, shares, equal_in_class)
        if grid is not None:
            _symmetric.backward(gradient, grid, weights, denominators.sums, denominators.tiles)
        else:
            scales = _inverse_temperatures(inputs, spec, batch)
            scale_gradient = _denominator_gradient_in_blocks(gradient, batch, spec, weights, scales, denominators.sums)
            if inputs.temperatures is not None:
                scale_gradient.addcmul_(shares, _attraction(batch), value=-1.0)
                if spec.margin:
                    scale_gradient.add_(weights, alpha=spec.margin)
                each = scale_gradient * -scales.square()
                temperature_gradient = (each if inputs.temperatures.ndim else each.sum()).to(inputs.temperatures.dtype)
        if batch.inverse_norms is None:
            return gradient, temperature_gradient
        # For the rows before they were divided by their norms: the part along a row is lost, and a zero row gets zero.
        radial = torch.linalg.vecdot(rows, gradient)[:, None]
        return gradient.addcmul_(rows, radial, value=-1).mul_(batch.inverse_norms), temperature_gradient


def _positive_gradient(
    inputs: LossInputs, batch: Batch, spec: LossSpec, shares: Tensor, equal_in_class: bool
) -> Tensor:
    """Gradient of the positives' part: each anchor pulls the others of its class, and is pulled by them."""
    num_anchors = batch.num_anchors
    if spec.temperature is None:
        pull = (shares * _inverse_temperatures(inputs, spec, batch)).neg_()[:, None]
    elif equal_in_class and num_anchors == batch.rows.shape[0]:  # equally strongly, both ways
        return batch.positive_sums * shares.mul(-2.0 / spec.temperature)[:, None]
    else:
        pull = shares.mul(-1.0 / spec.temperature)[:, None]
    pulled = pull * first(batch.rows, num_anchors)
    sums = class_sums(pulled, first(batch.classes, num_anchors), len(batch.counts))
    gradient = sums.index_select(0, batch.classes)
    if spec.compare == "all":
        first(gradient, num_anchors).sub_(pulled).addcmul_(pull, batch.positive_sums)
    else:
        torch.mul(pull, batch.positive_sums, out=gradient[:num_anchors])
    return gradient


def anchor_shares(inputs: LossInputs, missing: Tensor, skip: bool, like: Tensor) -> Tensor:
    """`[anchors]`, the weight of each anchor in the mean; 0 for those without a term if they are skipped."""
    if inputs.anchor_weights is None:
        return missing.logical_not().to(like.dtype) if skip else torch.ones_like(like)
    weights = _weights_of_anchors(inputs, like)
    return weights.masked_fill(missing, 0.0) if skip else weights


def positive_count(count: Tensor) -> Tensor:
    """A sum of weights by which a mean can be divided, also without anchors, whose terms add up to 0."""
    return count.clamp(min=torch.finfo(count.dtype).tiny)


def _denominators_in_blocks(batch: Batch, spec: LossSpec, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Log-denominators of the anchors (for `sincere` the mean over positives), and log-sums for their gradient.

    Blocks of some anchors by all columns, with maxima subtracted: each pair of anchors is computed twice, and positives
    are selected by masks. `scales` are the inverse temperatures `[anchors]`.
    """
    # Filled in place: small results that stay between large ones that go would keep the memory of all of them.
    logs, sums = (batch.rows.new_empty(batch.num_anchors) for _ in range(2))
    for part in _parts(batch):
        logits, positives = _logits(batch, part, spec, scales)
        plain = logits.clone() if spec.denominator == "sincere" else logits
        sums[part] = (logits.masked_fill_(positives, -torch.inf) if spec.sums_negatives else logits).logsumexp(1)
        if spec.denominator == "sincere":
            each = torch.where(positives, torch.logaddexp(plain, sums[part, None]), 0.0)
            logs[part] = each.sum(1) / batch.positives[part]
        else:
            logs[part] = sums[part]
    return logs, sums.repeat(2, 1) if spec.denominator == "sincere" else sums  # the shape that `_symmetric` has


def _denominator_gradient_in_blocks(
    gradient: Tensor, batch: Batch, spec: LossSpec, weights: Tensor, scales: Tensor, log_sums: Tensor
) -> Tensor:
    """Add the gradient of sum_i w_i log D_i to that of the rows; returns that of the scales `[anchors]`."""
    columns = batch.rows[batch.first_column :]
    reach = batch.rows.shape[0] if spec.key_gradient else batch.num_anchors
    targets = gradient[batch.first_column : reach]
    scale_gradient = scales.new_empty(scales.shape)
    if spec.denominator == "sincere":
        log_sums = log_sums[0]
    for part in _parts(batch):
        logits, positives = _logits(batch, part, spec, scales)
        sums = log_sums[part, None]
        # An empty denominator pulls nothing: exp(-inf - inf) is 0, where exp(-inf + inf) would be NaN.
        finite = torch.where(torch.isneginf(sums), torch.inf, sums)
        if spec.denominator == "sincere":
            count = batch.positives[part, None]
            near = torch.where(positives, torch.sigmoid(logits - sums), 0.0) / count
            # Not 1 - near.sum(): near the optimum that difference is all rounding.
            rest = torch.where(positives, torch.sigmoid(sums - logits), 0.0).sum(1, keepdim=True) / count
        if spec.sums_negatives:
            logits.masked_fill_(positives, -torch.inf)
        pull = logits.sub_(finite).exp_()
        if spec.denominator == "sincere":
            pull.mul_(rest).add_(near)
        pull *= weights[part, None]
        pulled = torch.mm(pull, columns)
        scale_gradient[part] = torch.linalg.vecdot(batch.rows[part], pulled)
        if spec.margin:
            scale_gradient[part] -= spec.margin * torch.where(positives, pull, 0.0).sum(1)
        gradient[part].addcmul_(pulled, scales[part, None])
        pull *= scales[part, None]
        targets.addmm_(pull[:, : targets.shape[0]].T, batch.rows[part])
    return scale_gradient


def _parts(batch: Batch) -> list[slice]:
    """The anchors of each block."""
    columns = batch.rows.shape[0] - batch.first_column
    elements = BLOCK if batch.rows.device.type == "cpu" else _GPU_BLOCK
    return _symmetric.slices(0, batch.num_anchors, max(1, elements // max(1, columns)))


def _logits(batch: Batch, part: slice, spec: LossSpec, scales: Tensor) -> tuple[Tensor, Tensor]:
    """`(s_il - m)/tau` plus the logarithm of the column's weight, -inf where i = l, and the mask of positives."""
    start = batch.first_column
    logits = torch.mm(batch.rows[part] * scales[part, None], batch.rows[start:].T)
    positives = batch.classes[part, None] == batch.classes[None, start:]
    if start == 0:
        logits.diagonal(part.start).fill_(-torch.inf)
        positives.diagonal(part.start).fill_(False)
    if batch.weights is not None:
        logits += batch.weights[start:].log()
    shift = scales[part] * -spec.margin if spec.margin else None
    factors = None if spec.sums_negatives else batch.positive_factors(spec)
    if factors is not None:
        logs = factors.log().index_select(0, batch.classes[part])
        shift = logs if shift is None else shift + logs
    if shift is not None:
        logits += torch.where(positives, shift[:, None], 0.0)
    return logits, positives


def _symmetric_grid(batch: Batch, spec: LossSpec) -> _symmetric.Grid | None:
    return _symmetric.Grid(batch, spec) if _symmetric.is_symmetric(batch, spec) else None


def _attraction(batch: Batch) -> Tensor:
    """`[anchors]`, the sum of similarities to the positives."""
    sums: Tensor = torch.linalg.vecdot(first(batch.rows, batch.num_anchors), batch.positive_sums)
    return sums


def _inverse_temperatures(inputs: LossInputs, spec: LossSpec, batch: Batch) -> Tensor:
    """`[anchors]`."""
    if spec.temperature is not None:
        return batch.rows.new_full((inputs.num_anchors,), 1.0 / spec.temperature)
    assert inputs.temperatures is not None
    return inputs.temperatures.to(batch.rows).reciprocal().expand(inputs.num_anchors)


def _weights_of_anchors(inputs: LossInputs, like: Tensor) -> Tensor:
    assert inputs.anchor_weights is not None
    labels = inputs.labels.narrow(0, 0, inputs.num_anchors)  # compiled, the number of other processes' rows is unknown
    return inputs.anchor_weights.to(like.dtype).index_select(0, labels)


def _full_precision(rows: Tensor) -> AbstractContextManager[Any]:
    device = rows.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
