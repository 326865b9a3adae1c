"""Denominators and their gradient in tiles of similarities, each computed once; no matrix of all pairs is stored.

Similarities are symmetric, so only the tiles on and above the diagonal are computed, and each serves its rows and its
columns; keys are columns of further tiles. A denominator is a weighted sum of a row of exponentials, in which those of
positives may have a factor. On a CPU the rows are sorted by class, so that pairs of a class are a few blocks of a tile;
elsewhere, where finding the blocks would wait for the device, masks select them. No maximum is subtracted:
`is_symmetric` holds only if no exponential can leave the range of the dtype.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import torch
from torch import Tensor

from orthoframe.losses._batch import Batch, LossSpec, first

# Rows and columns of a tile. On a CPU 1024 is near the fastest from 1,000 to 65,000 rows: such a tile of float32
# (4 MiB) stays in a cache. On a GPU each operation costs a launch, and pieces of 64 MiB are little of its memory; a
# guess, not measured.
TILE, _GPU_TILE = 1024, 4096
# Tiles kept from the forward to the backward pass; those that do not fit are computed again.
KEEP_BYTES = 128 * 2**20

# e^60 summed over any batch stays far inside float32, and so does its inverse; float64 reaches further.
_LARGEST_EXPONENT = {torch.float32: 60.0, torch.float64: 600.0}
# Class weights are from 1e-6 to 1e6, and a class is averaged over fewer rows than that.
_LARGEST_LOG_WEIGHT = 14.0


def is_symmetric(batch: Batch, spec: LossSpec) -> bool:
    """Whether the batch can be computed in tiles, as far as that can be decided without waiting for a device."""
    on_cpu = batch.rows.device.type == "cpu"
    if spec.temperature is None or (spec.denominator == "sincere" and not on_cpu):
        return False
    largest = 1.0
    if not spec.normalize and batch.rows.numel():
        if not on_cpu:
            return False
        largest = float(batch.rows.square().sum(1).max().numpy())
    exponent = (largest + abs(spec.margin)) / spec.temperature
    return exponent + (0.0 if batch.weights is None else _LARGEST_LOG_WEIGHT) <= _LARGEST_EXPONENT[batch.rows.dtype]


def forward(grid: "Grid", keep_bytes: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Log-denominators of the anchors (for `sincere` the mean over positives).

    Also returns what `backward` needs: the denominators, and the first tiles, up to `keep_bytes`.
    """
    weights, tiles, buffer, keep_bytes = grid.weight_blocks, [], None, grid.room_for_tiles(keep_bytes)
    parts: list[Tensor | None] = [None] * grid.num_anchor_blocks
    for i, j in grid.pairs():
        size = grid.blocks[i].shape[0] * grid.blocks[j].shape[0] * grid.rows.element_size()
        if buffer is None and size > keep_bytes:
            buffer = grid.buffer()
        tile = grid.tile(i, j, buffer)
        if buffer is None:
            keep_bytes -= size
            tiles.append(tile)
        _add(parts, i, tile.sum(1) if weights is None else torch.mv(tile, weights[j]))
        if i < j < grid.num_anchor_blocks:
            _add(parts, j, tile.sum(0) if weights is None else torch.mv(tile.T, weights[i]))
    sums = _joined([part for part in parts if part is not None], grid)
    if grid.spec.denominator == "sincere":
        logs, inverses = _sincere_forward(grid, sums)
        return grid.unsorted(logs), torch.stack([sums, inverses]), tiles
    if grid.may_be_empty:  # then the anchor has no weight
        sums.masked_fill_(sums == 0, 1.0)
    return grid.unsorted(sums.log()), sums, tiles


def _joined(blocks: list[Tensor], grid: "Grid") -> Tensor:
    """`[anchors]`; zeros if anchors are compared with nothing."""
    if not blocks:
        return grid.rows.new_zeros(grid.anchors)
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


def _add(parts: list[Tensor | None], i: int, values: Tensor) -> None:
    part = parts[i]
    parts[i] = values if part is None else part.add_(values)


def backward(gradient: Tensor, grid: "Grid", weights: Tensor, sums: Tensor, tiles: list[Tensor]) -> None:
    """Add the gradient of sum_i w_i log D_i, that of keys only if the spec asks for it.

    With v the weights of columns, a pair (i, l) of anchors pulls with e_il (w_i v_l / D_i + w_l v_i / D_l), which is
    e_il v_i v_l (c_i + c_l) with c_i = w_i / (D_i v_i): v goes into the rows before and after the products.
    """
    spec, rows = grid.spec, grid.rows
    weights = grid.sorted(weights)
    pulls = weights * sums[1] if spec.denominator == "sincere" else weights / sums
    plain = grid.weights is None and grid.order is None
    total = gradient if plain else torch.zeros_like(gradient)
    if grid.weights is not None:
        pulls /= first(grid.weights, grid.anchors)
        rows = rows * grid.weights[:, None]
    blocks, targets, parts = grid.split(rows), grid.split(total), grid.split(pulls)
    scale, room, buffer = 1.0 / grid.temperature, grid.buffer(), None
    kept = iter(tiles)
    for i, j in grid.pairs():
        tile = next(kept, None)
        if tile is None:
            buffer = grid.buffer() if buffer is None else buffer
            tile = grid.tile(i, j, buffer)
        # A pair of anchors counts for both of them; a key has no pull of its own.
        pull = _shaped(room, tile.shape)
        if j < grid.num_anchor_blocks:
            torch.add(parts[i][:, None], parts[j], out=pull).mul_(tile)
        else:
            torch.mul(parts[i][:, None], tile, out=pull)
        targets[i].addmm_(pull, blocks[j], alpha=scale)
        if i != j and (spec.key_gradient or j < grid.num_anchor_blocks):
            targets[j].addmm_(pull.T, blocks[i], alpha=scale)
    if plain:
        return
    if grid.weights is not None:
        total *= grid.weights[:, None]
    if spec.denominator == "sincere":
        _sincere_backward(total, grid, weights, sums[0])
    if grid.order is None:
        gradient += total
    else:
        gradient.index_add_(0, grid.order, total)


class Grid:
    """The tiles of a batch: blocks of anchors and then of keys, sorted by class if positives have a factor."""

    def __init__(self, batch: Batch, spec: LossSpec) -> None:
        assert spec.temperature is not None
        self.spec, self.temperature, self.anchors = spec, spec.temperature, batch.num_anchors
        self.rows, self.weights, self.classes = batch.rows, batch.weights, batch.classes
        self.positives = batch.positives
        self.order: Tensor | None = None
        factors = batch.positive_factors(spec)
        if spec.margin and not spec.sums_negatives:
            factor = math.exp(-spec.margin / spec.temperature)
            factors = torch.full_like(batch.counts, factor) if factors is None else factors * factor
        if self.weights is not None and spec.compare == "keys":
            self.weights = torch.cat([self.weights.new_ones(self.anchors), self.weights[self.anchors :]])
        self._mask_factors = factors
        # Denominators of a single row, of anchors without keys, or without the rows of the anchor's class.
        self.may_be_empty = factors is not None or spec.compare == "keys" or batch.rows.shape[0] == 1
        self._factors: list[float] | None = None
        if factors is not None and batch.rows.device.type == "cpu":
            self._sort(factors)
        self.tile_rows = TILE if batch.rows.device.type == "cpu" else _GPU_TILE
        self.blocks = self.split(self.rows)
        self.weight_blocks = None if self.weights is None else self.split(self.weights)
        self.num_anchor_blocks = max(1, -(-self.anchors // self.tile_rows))

    def _sort(self, factors: Tensor) -> None:
        parts = self.classes[: self.anchors], self.classes[self.anchors :]
        anchors, keys = (part.argsort(stable=True) for part in parts)
        self.order = order = torch.cat([anchors, keys + self.anchors])
        self.rows = self.rows.index_select(0, order)
        self.positives = self.positives.index_select(0, anchors)
        if self.weights is not None:
            self.weights = self.weights.index_select(0, order)
        self._factors = factors.tolist()
        # Where each class begins among the sorted anchors, and among the sorted keys.
        sizes = (torch.bincount(part, minlength=factors.shape[0]) for part in parts)
        self._anchor_starts, self._key_starts = ([0, *size.cumsum(0).tolist()] for size in sizes)

    def room_for_tiles(self, keep_bytes: int) -> int:
        """Less where rows are copied (sorted, weighted, and their gradient), so that memory is that of `all`."""
        if self.weights is None and self.order is None:
            return keep_bytes
        return keep_bytes // 2 - 3 * self.rows.numel() * self.rows.element_size()

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Views of the anchors and then of the keys, at most a tile of rows each."""
        step = self.tile_rows
        if rows.shape[0] == self.anchors:
            return (rows,) if self.anchors <= step else torch.split(rows, step)
        return *torch.split(rows[: self.anchors], step), *torch.split(rows[self.anchors :], step)

    def sorted(self, values: Tensor) -> Tensor:
        """Values of anchors, in the order of the grid."""
        return values if self.order is None else values.index_select(0, first(self.order, self.anchors))

    def unsorted(self, values: Tensor) -> Tensor:
        """The opposite of `sorted`."""
        if self.order is None:
            return values
        return torch.empty_like(values).index_copy_(0, self.order[: self.anchors], values)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Blocks of the rows and of the columns of each tile."""
        for i in range(self.num_anchor_blocks):
            for j in range(i if self.spec.compare == "all" else self.num_anchor_blocks, len(self.blocks)):
                yield i, j

    def buffer(self) -> Tensor:
        """Room for the largest tile, which all share: fresh memory costs as much as the arithmetic."""
        height = max(block.shape[0] for block in self.blocks[: self.num_anchor_blocks])
        return self.rows.new_empty(height, max(block.shape[0] for block in self.blocks))

    def tile(self, i: int, j: int, buffer: Tensor | None) -> Tensor:
        """Exponentials e^(s_il/tau), with the factor of positives, 0 where i = l, in the buffer if there is one."""
        tile = self._exponentials(self.blocks[i], self.blocks[j], buffer)
        if self._factors is not None:
            for factor, rows, columns in self._class_blocks(i, j):
                tile[rows, columns].mul_(factor)
        elif self._mask_factors is not None:
            row_classes, column_classes = self.split(self.classes)[i], self.split(self.classes)[j]
            factors = self._mask_factors.index_select(0, row_classes)[:, None]
            tile *= torch.where(row_classes[:, None] == column_classes, factors, 1.0)
        return tile.fill_diagonal_(0.0) if i == j else tile

    def _exponentials(self, left: Tensor, right: Tensor, buffer: Tensor | None = None) -> Tensor:
        shape = torch.Size((left.shape[0], right.shape[0]))
        tile = left.new_empty(shape) if buffer is None else _shaped(buffer, shape)
        # exp2 is about twice as fast as exp on a CPU; the scale costs nothing inside the matrix product.
        return tile.addmm_(left, right.T, beta=0.0, alpha=1.0 / (self.temperature * math.log(2.0))).exp2_()

    def _class_blocks(self, i: int, j: int) -> Iterator[tuple[float, slice, slice]]:
        """Where the pairs of each class are in a tile, and their factor."""
        assert self._factors is not None
        step, keys = self.tile_rows, j - self.num_anchor_blocks
        starts, column = (self._anchor_starts, j * step) if keys < 0 else (self._key_starts, keys * step)
        row_starts, row = self._anchor_starts, i * step
        height, width = self.blocks[i].shape[0], self.blocks[j].shape[0]
        for c in range(max(0, bisect_right(row_starts, row) - 1), bisect_left(row_starts, row + height)):
            rows = slice(max(row_starts[c] - row, 0), min(row_starts[c + 1] - row, height))
            columns = slice(max(starts[c] - column, 0), min(starts[c + 1] - column, width))
            if rows.start < rows.stop and columns.start < columns.stop:
                yield self._factors[c], rows, columns

    def positive_pieces(self) -> Iterator[tuple[slice, slice, Tensor]]:
        """Pairs of anchors and positives in pieces: their places, and weighted exponentials with the margin.

        A piece of anchors with themselves has the anchor itself on its diagonal.
        """
        step, factor = self.tile_rows, math.exp(-self.spec.margin / self.temperature)
        for c in range(len(self._anchor_starts) - 1):
            anchors = slices(self._anchor_starts[c], self._anchor_starts[c + 1], step)
            keys = slices(self.anchors + self._key_starts[c], self.anchors + self._key_starts[c + 1], step)
            for rows in anchors:
                for columns in keys if self.spec.compare == "keys" else anchors + keys:
                    piece = self._exponentials(self.rows[rows], self.rows[columns])
                    if self.weights is not None:
                        piece *= self.weights[columns]
                    yield rows, columns, piece.mul_(factor) if self.spec.margin else piece


def _sincere_forward(grid: Grid, sums: Tensor) -> tuple[Tensor, Tensor]:
    """Means over positives of log(e + S) and of 1/(e + S), where S are the sums over negatives."""
    logs, inverses = torch.zeros_like(sums), torch.zeros_like(sums)
    for rows, columns, piece in grid.positive_pieces():
        piece += sums[rows, None]
        if rows == columns:
            piece.fill_diagonal_(1.0)
        logs[rows].add_(piece.log().sum(1))
        if rows == columns:
            piece.fill_diagonal_(torch.inf)
        inverses[rows].add_(piece.reciprocal_().sum(1))
    return logs.div_(grid.positives), inverses.div_(grid.positives)


def _sincere_backward(total: Tensor, grid: Grid, weights: Tensor, sums: Tensor) -> None:
    """Add what pulls anchors and positives apart."""
    pulls, scale = weights / grid.positives, 1.0 / grid.temperature
    for rows, columns, piece in grid.positive_pieces():
        if rows == columns:
            piece.fill_diagonal_(0.0)
        share = piece / (piece + sums[rows, None])
        if rows == columns:
            share.fill_diagonal_(0.0)  # 0/0 without negatives
        share *= pulls[rows, None]
        total[rows].addmm_(share, grid.rows[columns], alpha=scale)
        if grid.spec.key_gradient or columns.start < grid.anchors:
            total[columns].addmm_(share.T, grid.rows[rows], alpha=scale)


def slices(start: int, stop: int, step: int) -> list[slice]:
    """Consecutive slices from start to stop, of step entries at most."""
    return [slice(i, min(i + step, stop)) for i in range(start, stop, step)]


def _shaped(buffer: Tensor, shape: torch.Size) -> Tensor:
    return buffer if buffer.shape == shape else buffer.view(-1)[: shape.numel()].view(shape)
