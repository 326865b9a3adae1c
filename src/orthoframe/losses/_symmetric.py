"""The denominators of the `all` loss: exponentials of similarities, summed a tile at a time, each pair met once.

Similarities are symmetric, so only the tiles on and above the diagonal are computed, and each serves its rows and its
columns. No maximum is subtracted: the caller makes sure (`fits`) that no exponential leaves the range of the dtype.
"""

import math

import torch
from torch import Tensor

# 1024 rows a tile is near the fastest from 1,000 to 65,000 rows; a tile of float32 takes 4 MiB.
TILE = 1024
# Exponentials kept from the forward to the backward pass; what does not fit is computed again.
KEEP_BYTES = 128 * 2**20
# e^60 summed over any batch stays far inside float32, and so does its inverse; float64 reaches further.
_LARGEST_EXPONENT = {torch.float32: 60.0, torch.float64: 600.0}


def fits(rows: Tensor, temperature: float, *, unit: bool) -> bool:
    """Whether e^(s/tau) and its inverse stay in range for every pair of rows, without a shift."""
    largest = 1.0 if unit else float(rows.detach().square().sum(1).max()) if rows.numel() else 0.0
    return largest / temperature <= _LARGEST_EXPONENT[rows.dtype]


def forward(
    rows: Tensor, anchors: int, temperature: float, *, keep_bytes: int, tile: int = TILE
) -> tuple[Tensor, list[Tensor]]:
    """Sum e^(s_il/tau) over all l != i, for each anchor i.

    Args:
        rows: `[rows, dim]`; the first `anchors` are anchors, the others only compared with.
        anchors: Number of anchors.
        temperature: tau.
        keep_bytes: How many bytes of tiles to keep for `backward`.
        tile: Rows and columns of a tile.

    Returns:
        The sums `[anchors]`, and the tiles that were kept (the first ones, in order).
    """
    blocks = _blocks(rows, anchors, tile)
    sums: dict[int, Tensor] = {}
    kept: list[Tensor] = []
    buffer = None
    count = -(-anchors // tile)  # blocks of anchors
    for i in range(count):
        for j in range(i, len(blocks)):
            size = blocks[i].shape[0] * blocks[j].shape[0] * rows.element_size()
            if buffer is None and size > keep_bytes:
                buffer = _buffer(blocks)
            exponentials = _exponentials(blocks[i], blocks[j], temperature, i == j, buffer)
            if buffer is None:
                keep_bytes -= size
                kept.append(exponentials)
            across = exponentials.sum(1)
            sums[i] = sums[i].add_(across) if i in sums else across
            if i < j < count:
                down = exponentials.sum(0)
                sums[j] = sums[j].add_(down) if j in sums else down
    if count == 1:
        return sums[0], kept
    return torch.cat([rows.new_empty(0), *(sums[i] for i in range(count))]), kept


def backward(
    gradient: Tensor,
    rows: Tensor,
    temperature: float,
    weights: Tensor,
    kept: list[Tensor],
    *,
    key_gradient: bool,
    tile: int = TILE,
) -> None:
    """Add the gradient of sum_i g_i log Z_i, Z_i the sums of `forward`.

    Args:
        gradient: `[rows, dim]`, added to in place; the part of keys only if `key_gradient`.
        rows: As in `forward`.
        temperature: As in `forward`.
        weights: g_i / Z_i `[anchors]`.
        kept: The tiles that `forward` kept.
        key_gradient: Whether the rows that are not anchors need a gradient.
        tile: As in `forward`.
    """
    blocks, targets = _blocks(rows, weights.shape[0], tile), _blocks(gradient, weights.shape[0], tile)
    parts, scale = _blocks(weights, weights.shape[0], tile), 1.0 / temperature
    buffer, room, count = _buffer(blocks), None, 0
    for i, column in enumerate(parts):
        for j in range(i, len(blocks)):
            if count < len(kept):
                exponentials = kept[count]
            else:
                room = _buffer(blocks) if room is None else room
                exponentials = _exponentials(blocks[i], blocks[j], temperature, i == j, room)
            count += 1
            # Both ends of a pair of anchors weigh it, each its own way; a key weighs nothing.
            pull = _shaped(buffer, exponentials.shape)
            if j < len(parts):
                torch.add(column[:, None], parts[j], out=pull).mul_(exponentials)
            else:
                torch.mul(column[:, None], exponentials, out=pull)
            targets[i].addmm_(pull, blocks[j], alpha=scale)
            if i != j and (key_gradient or j < len(parts)):
                targets[j].addmm_(pull.T, blocks[i], alpha=scale)


def _blocks(rows: Tensor, anchors: int, tile: int) -> tuple[Tensor, ...]:
    """Views of the anchors and then of the keys, at most a tile of rows each."""
    if anchors == rows.shape[0]:
        return (rows,) if anchors <= tile else torch.split(rows, tile)
    return *torch.split(rows[:anchors], tile), *torch.split(rows[anchors:], tile)


def _buffer(blocks: tuple[Tensor, ...]) -> Tensor:
    """Room for the largest tile, to be used again for each: fresh memory costs as much as the arithmetic."""
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
