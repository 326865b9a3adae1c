"""Denominators and their gradient in blocks of some anchors by all columns, with maxima subtracted.

Each pair of anchors is computed twice, and positives are found by masks: slower than `_symmetric`, but right at tiny
temperatures, for one temperature per anchor, for rows that are not unit, and without reading any value.
"""

import torch
from torch import Tensor

from orthoframe.losses._batch import Batch, LossSpec

# Elements of a block, some anchors x all columns: 8 MiB of float32. On a GPU each operation costs a launch, and pieces
# of 64 MiB are little of its memory; a guess, not measured.
BLOCK, _GPU_BLOCK = 2**21, 2**24


def forward(batch: Batch, spec: LossSpec, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Log-denominators of the anchors (for `sincere` the mean over positives), and log-sums for `backward`.

    `scales` are the inverse temperatures `[anchors]`.
    """
    # Filled in place: small results that stay between large ones that go would keep the memory of all of them.
    logs, sums = (batch.rows.new_empty(batch.num_anchors) for _ in range(2))
    for part in _parts(batch):
        logits, positives = _logits(batch, part, spec, scales)
        plain = logits.clone() if spec.denominator == "sincere" else logits
        sums[part] = (logits.masked_fill_(positives, -torch.inf) if _sums_negatives(spec) else logits).logsumexp(1)
        if spec.denominator == "sincere":
            each = torch.where(positives, torch.logaddexp(plain, sums[part, None]), 0.0)
            logs[part] = each.sum(1) / batch.positives[part]
        else:
            logs[part] = sums[part]
    return logs, sums.repeat(2, 1) if spec.denominator == "sincere" else sums  # the shape that `_symmetric` has


def backward(
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
        if _sums_negatives(spec):
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


def _sums_negatives(spec: LossSpec) -> bool:
    """Whether the sum leaves out the class of the anchor."""
    return spec.denominator in ("negatives", "sincere")


def _parts(batch: Batch) -> list[slice]:
    """The anchors of each block."""
    columns = batch.rows.shape[0] - batch.first_column
    elements = BLOCK if batch.rows.device.type == "cpu" else _GPU_BLOCK
    height, anchors = max(1, elements // max(1, columns)), batch.num_anchors
    return [slice(i, min(i + height, anchors)) for i in range(0, anchors, height)]


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
    factors = None if _sums_negatives(spec) else batch.positive_factors(spec)
    if factors is not None:
        logs = factors.log().index_select(0, batch.classes[part])
        shift = logs if shift is None else shift + logs
    if shift is not None:
        logits += torch.where(positives, shift[:, None], 0.0)
    return logits, positives
