"""The denominators of every loss at any temperature: a block of anchors against all rows, maxima subtracted.

Slower than `_symmetric` (each pair is met twice) and safe where that one is not: tiny temperatures, rows that are not
unit, and the denominators that treat an anchor's own class apart.
"""

import torch
from torch import Tensor

from orthoframe.losses._batch import Batch

# Elements of a block: anchors at a time x all rows. 8 MiB in float32, whatever the number of rows.
BLOCK = 2**21


def _blocks(batch: Batch, block: int) -> list[slice]:
    height = max(1, block // max(1, batch.rows.shape[0]))
    return [slice(i, min(i + height, batch.anchors)) for i in range(0, batch.anchors, height)]


def _logits(batch: Batch, part: slice, temperature: float) -> tuple[Tensor, Tensor]:
    """`s_il/tau` with -inf where i = l, and the mask of positives."""
    logits = torch.mm(batch.rows[part] / temperature, batch.rows.T)
    logits.diagonal(part.start).fill_(-torch.inf)
    positives = batch.classes[part, None] == batch.classes[None, :]
    positives.diagonal(part.start).fill_(False)
    return logits, positives


def _weighted(logits: Tensor, positives: Tensor, batch: Batch, part: slice, denominator: str) -> Tensor:
    """Logits plus the logarithm of the weight with which each row enters the denominator."""
    if denominator in ("negatives", "sincere"):
        return logits.masked_fill_(positives, -torch.inf)
    if denominator == "class-average":
        sizes = batch.counts.index_select(0, batch.classes).to(logits.dtype)
        logits -= sizes.log()
        # The anchor's own class is averaged without the anchor.
        own = sizes[part].log() - (sizes[part] - 1).clamp(min=1).log()
        logits += torch.where(positives, own[:, None], 0.0)
    return logits


def _log_sums(batch: Batch, part: slice, temperature: float, denominator: str) -> tuple[Tensor, Tensor]:
    """Denominators of a block, and the value that `forward` returns of them."""
    logits, positives = _logits(batch, part, temperature)
    plain = logits.clone() if denominator == "sincere" else logits
    sums = _weighted(logits, positives, batch, part, denominator).logsumexp(1)
    if denominator != "sincere":
        return sums, sums
    each = torch.where(positives, torch.logaddexp(plain, sums[:, None]), 0.0)
    return sums, each.sum(1) / positives.sum(1).clamp(min=1)


def forward(batch: Batch, temperature: float, denominator: str, *, block: int = BLOCK) -> tuple[Tensor, Tensor]:
    """Logarithms of the denominators, for each anchor.

    Args:
        batch: Rows and classes.
        temperature: tau.
        denominator: Which rows the denominator sums over.
        block: Elements of a block.

    Returns:
        `(value, state)`, both `[anchors]`: the log-denominator (for `sincere` its mean over positives), and the
        log-sum-exp that `backward` needs. -inf where the denominator is empty.
    """
    # Filled in place: small results that stay between large ones that go would keep the memory of all of them.
    value, state = batch.rows.new_empty(batch.anchors), batch.rows.new_empty(batch.anchors)
    for part in _blocks(batch, block):
        state[part], value[part] = _log_sums(batch, part, temperature, denominator)
    return value, state


def backward(
    gradient: Tensor,
    batch: Batch,
    temperature: float,
    denominator: str,
    weights: Tensor,
    state: Tensor,
    *,
    key_gradient: bool,
    block: int = BLOCK,
) -> None:
    """Add the gradient of sum_i g_i value_i.

    Args:
        gradient: `[rows, dim]`, added to in place; the part of keys only if `key_gradient`.
        batch: As in `forward`.
        temperature: As in `forward`.
        denominator: As in `forward`.
        weights: g_i `[anchors]`.
        state: What `forward` returned.
        key_gradient: Whether the rows that are not anchors need a gradient.
        block: As in `forward`.
    """
    rows = batch.rows
    reach = rows.shape[0] if key_gradient else batch.anchors
    for part in _blocks(batch, block):
        logits, positives = _logits(batch, part, temperature)
        sums = state[part, None]
        # An empty denominator pulls nothing: exp(-inf - inf) is 0, where exp(-inf + inf) would be NaN.
        finite = torch.where(torch.isneginf(sums), torch.inf, sums)
        if denominator == "sincere":
            count = positives.sum(1, keepdim=True).clamp(min=1)
            share = torch.where(positives, torch.sigmoid(logits - sums), 0.0) / count
            # Not 1 - share.sum(): near the optimum that difference is all rounding.
            rest = torch.where(positives, torch.sigmoid(sums - logits), 0.0).sum(1, keepdim=True) / count
            pull = _weighted(logits, positives, batch, part, denominator).sub_(finite).exp_().mul_(rest).add_(share)
        else:
            pull = _weighted(logits, positives, batch, part, denominator).sub_(finite).exp_()
        pull *= weights[part, None]
        gradient[part].addmm_(pull, rows, alpha=1.0 / temperature)
        gradient[:reach].addmm_(pull[:, :reach].T, rows[part], alpha=1.0 / temperature)
