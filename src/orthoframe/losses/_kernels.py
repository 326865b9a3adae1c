"""Denominators of the anchors and their gradient, a tile of similarities at a time; no matrix of all pairs is stored.

There are two ways. The symmetric one is for `all`: similarities are symmetric, so only the tiles on and above the
diagonal are computed, and each serves its rows and its columns. It subtracts no maximum, and is taken only where no
exponential can leave the range of the dtype. The general one compares a block of anchors with all rows and subtracts
maxima: slower, because each pair is computed twice, but safe at tiny temperatures and for rows that are not unit, and
able to treat an anchor's own class apart.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from orthoframe._rows import unit_rows

# 1024 rows and columns is near the fastest from 1,000 to 65,000 rows; such a tile of float32 takes 4 MiB.
TILE = 1024
# Tiles kept from the forward to the backward pass; those that do not fit are computed again.
KEEP_BYTES = 128 * 2**20
# Elements of a block of the general path: some anchors x all rows. 8 MiB in float32, whatever the number of rows.
BLOCK = 2**21
# e^60 summed over any batch stays far inside float32, and so does its inverse; float64 reaches further.
_LARGEST_EXPONENT = {torch.float32: 60.0, torch.float64: 600.0}


class LossSpec(NamedTuple):
    """Which loss is computed, and for which rows a gradient is needed."""

    temperature: float
    denominator: str
    normalize: bool = True  # divide each row by its norm first
    key_gradient: bool = False  # the rows that are not anchors need a gradient
    forbid_singletons: bool = False  # raise if an anchor has no term


class Batch(NamedTuple):
    """Anchors, then keys, with the positives of each anchor; only tensors, so that autograd can save all of it."""

    rows: Tensor  # [rows, dim], unit if the spec normalizes
    inverse_norms: Tensor | None  # [rows, 1], if the spec normalizes
    classes: Tensor  # [rows], numbered 0..k-1
    counts: Tensor  # [k], rows of each class
    positives: Tensor  # [anchors], how many, at least 1
    positive_sums: Tensor  # [anchors, dim]
    missing: Tensor  # [anchors], whether the anchor has no term

    @classmethod
    def of(cls, rows: Tensor, labels: Tensor, anchors: int, spec: LossSpec) -> "Batch":
        """Number the classes of any integer labels, and sum up their rows."""
        rows, inverse_norms = unit_rows(rows) if spec.normalize else (rows, None)
        _, classes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
        own = first(classes, anchors)
        sizes = counts.to(rows.dtype).index_select(0, own)
        missing = sizes < 2
        if spec.denominator == "negatives":  # without a negative the denominator is empty
            missing |= sizes == rows.shape[0]
        positive_sums = class_sums(rows, classes, len(counts)).index_select(0, own).sub_(first(rows, anchors))
        return cls(rows, inverse_norms, classes, counts, sizes.sub_(1).clamp_(min=1), positive_sums, missing)

    @property
    def num_anchors(self) -> int:
        """The anchors are the first rows."""
        return self.missing.shape[0]


def first(rows: Tensor, count: int) -> Tensor:
    """The first rows; without a view where that is all of them, which small batches would feel."""
    return rows if rows.shape[0] == count else rows[:count]


def class_sums(rows: Tensor, classes: Tensor, num_classes: int) -> Tensor:
    """Sum of the rows of each class, `[k, dim]`; in float64, because equal rows have equal rounding errors."""
    sums = rows.new_zeros(num_classes, rows.shape[1], dtype=torch.float64)
    return sums.index_add_(0, classes, rows.double()).to(rows.dtype)


def forward(batch: Batch, spec: LossSpec, keep_bytes: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Denominators D_i: sums of e^(s_il/tau) over the rows l that an anchor i is compared with.

    Returns their logarithms `[anchors]` (for `sincere` the mean over positives), and for `backward` the denominators
    `[anchors]` and the first tiles, up to `keep_bytes`.
    """
    if _is_symmetric(batch, spec):
        denominators, tiles = _symmetric_forward(batch, spec.temperature, keep_bytes)
        return denominators.log(), denominators, tiles
    # Filled in place: small results that stay between large ones that go would keep the memory of all of them.
    logs, denominators = (batch.rows.new_empty(batch.num_anchors) for _ in range(2))
    for part in _parts(batch):
        denominators[part], logs[part] = _log_sums(batch, part, spec)
    return logs, denominators, []


def backward(
    gradient: Tensor, batch: Batch, spec: LossSpec, weights: Tensor, denominators: Tensor, tiles: list[Tensor]
) -> None:
    """Add the gradient of sum_i w_i log D_i, that of keys only if the spec asks for it; weights are written over."""
    if _is_symmetric(batch, spec):
        if batch.rows.shape[0] > 1:  # a row all by itself has an empty denominator, and no weight
            weights.div_(denominators)
        _symmetric_backward(gradient, batch, spec, weights, tiles)
    else:
        _general_backward(gradient, batch, spec, weights, denominators)


def _is_symmetric(batch: Batch, spec: LossSpec) -> bool:
    if spec.denominator != "all":
        return False
    # Without a shift, e^(s/tau) and its inverse must stay in range for every pair of rows.
    largest = 1.0 if spec.normalize or not batch.rows.numel() else float(batch.rows.square().sum(1).max())
    return largest / spec.temperature <= _LARGEST_EXPONENT[batch.rows.dtype]


def _symmetric_forward(batch: Batch, temperature: float, keep_bytes: int) -> tuple[Tensor, list[Tensor]]:
    blocks, count = _blocks(batch.rows, batch.num_anchors), max(1, -(-batch.num_anchors // TILE))  # blocks of anchors
    sums: dict[int, Tensor] = {}
    tiles: list[Tensor] = []
    buffer = None
    for i in range(count):
        for j in range(i, len(blocks)):
            size = blocks[i].shape[0] * blocks[j].shape[0] * batch.rows.element_size()
            if buffer is None and size > keep_bytes:
                buffer = _buffer(blocks)
            exponentials = _exponentials(blocks[i], blocks[j], temperature, i == j, buffer)
            if buffer is None:
                keep_bytes -= size
                tiles.append(exponentials)
            for block, axis in [(i, 1), (j, 0)] if i < j < count else [(i, 1)]:
                part = exponentials.sum(axis)
                sums[block] = sums[block].add_(part) if block in sums else part
    return sums[0] if count == 1 else torch.cat([sums[i] for i in range(count)]), tiles


def _symmetric_backward(gradient: Tensor, batch: Batch, spec: LossSpec, weights: Tensor, tiles: list[Tensor]) -> None:
    """Add the gradient; weights are w_i / D_i."""
    blocks, targets = _blocks(batch.rows, batch.num_anchors), _blocks(gradient, batch.num_anchors)
    parts, scale = _blocks(weights, batch.num_anchors), 1.0 / spec.temperature
    buffer, room, count = _buffer(blocks), None, 0
    for i, column in enumerate(parts):
        for j in range(i, len(blocks)):
            if count < len(tiles):
                exponentials = tiles[count]
            else:
                room = _buffer(blocks) if room is None else room
                exponentials = _exponentials(blocks[i], blocks[j], spec.temperature, i == j, room)
            count += 1
            # A pair of anchors counts for both of them, with the weight of each; a key has no weight.
            pull = _shaped(buffer, exponentials.shape)
            if j < len(parts):
                torch.add(column[:, None], parts[j], out=pull).mul_(exponentials)
            else:
                torch.mul(column[:, None], exponentials, out=pull)
            targets[i].addmm_(pull, blocks[j], alpha=scale)
            if i != j and (spec.key_gradient or j < len(parts)):
                targets[j].addmm_(pull.T, blocks[i], alpha=scale)


def _blocks(rows: Tensor, anchors: int) -> tuple[Tensor, ...]:
    """Views of the anchors and then of the keys, at most a tile of rows each."""
    if anchors == rows.shape[0]:
        return (rows,) if anchors <= TILE else torch.split(rows, TILE)
    return *torch.split(rows[:anchors], TILE), *torch.split(rows[anchors:], TILE)


def _buffer(blocks: tuple[Tensor, ...]) -> Tensor:
    """Room for the largest tile, which all share: fresh memory costs as much as the arithmetic."""
    largest = max(block.shape[0] for block in blocks)
    return blocks[0].new_empty(largest, largest)


def _shaped(buffer: Tensor, shape: torch.Size) -> Tensor:
    return buffer if buffer.shape == shape else buffer.view(-1)[: shape.numel()].view(shape)


def _exponentials(left: Tensor, right: Tensor, temperature: float, diagonal: bool, buffer: Tensor | None) -> Tensor:
    """The tile e^(s_il/tau), 0 where i = l, in the buffer if there is one."""
    shape = torch.Size((left.shape[0], right.shape[0]))
    tile = left.new_empty(shape) if buffer is None else _shaped(buffer, shape)
    # exp2 is about twice as fast as exp on a CPU; the scale costs nothing inside the matrix product.
    tile.addmm_(left, right.T, beta=0.0, alpha=1.0 / (temperature * math.log(2.0))).exp2_()
    return tile.fill_diagonal_(0.0) if diagonal else tile


def _parts(batch: Batch) -> list[slice]:
    """The anchors of each block of the general path."""
    height, anchors = max(1, BLOCK // max(1, batch.rows.shape[0])), batch.num_anchors
    return [slice(i, min(i + height, anchors)) for i in range(0, anchors, height)]


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


def _log_sums(batch: Batch, part: slice, spec: LossSpec) -> tuple[Tensor, Tensor]:
    """Log-sum-exps of a block, -inf where nothing is summed, and the log-denominators that they make."""
    logits, positives = _logits(batch, part, spec.temperature)
    plain = logits.clone() if spec.denominator == "sincere" else logits
    sums = _weighted(logits, positives, batch, part, spec.denominator).logsumexp(1)
    if spec.denominator != "sincere":
        return sums, sums
    each = torch.where(positives, torch.logaddexp(plain, sums[:, None]), 0.0)
    return sums, each.sum(1) / batch.positives[part]


def _general_backward(gradient: Tensor, batch: Batch, spec: LossSpec, weights: Tensor, log_sums: Tensor) -> None:
    rows = batch.rows
    reach = rows.shape[0] if spec.key_gradient else batch.num_anchors
    for part in _parts(batch):
        logits, positives = _logits(batch, part, spec.temperature)
        sums = log_sums[part, None]
        # An empty denominator pulls nothing: exp(-inf - inf) is 0, where exp(-inf + inf) would be NaN.
        finite = torch.where(torch.isneginf(sums), torch.inf, sums)
        if spec.denominator == "sincere":
            count = batch.positives[part, None]
            own = torch.where(positives, torch.sigmoid(logits - sums), 0.0) / count
            # Not 1 - own.sum(): near the optimum that difference is all rounding.
            rest = torch.where(positives, torch.sigmoid(sums - logits), 0.0).sum(1, keepdim=True) / count
        pull = _weighted(logits, positives, batch, part, spec.denominator).sub_(finite).exp_()
        if spec.denominator == "sincere":
            pull.mul_(rest).add_(own)
        pull *= weights[part, None]
        gradient[part].addmm_(pull, rows, alpha=1.0 / spec.temperature)
        gradient[:reach].addmm_(pull[:, :reach].T, rows[part], alpha=1.0 / spec.temperature)
