"""Chances of epochs of reshuffling: that a class is connected, and that two classes are never pushed apart.

An epoch deals the samples to the places in its batches, so its chances are ratios of numbers of ways to do that, and
epochs are independent. What several epochs do is then found by inclusion and exclusion over the partitions of a class
into blocks: epochs keep the blocks apart if each of them does.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]

_ALL_PARTITIONS = 20  # up to this many samples, a class is summed over all partitions, exactly
_OUTSIDE = 10  # in larger classes, partitions with at most this many samples outside the largest block
SMALL = 10  # up to this many samples in the smaller class, meetings are counted exactly
_PAIRS = 100_000  # that are handled together
_DIGITS = 60  # the sum over the partitions of 20 samples loses 20 of them
_NEGLIGIBLE = -60.0  # logarithm of a chance that cannot be seen


class Layout(NamedTuple):
    """The batches of an epoch: `full` batches of `rows` rows, and a last batch of `short` rows if that is not 0."""

    full: int
    short: int
    rows: int

    @property
    def places(self) -> int:
        """Rows in all batches."""
        return self.full * self.rows + self.short

    @property
    def batches(self) -> int:
        """Number of batches."""
        return self.full + (self.short > 0)


@lru_cache(maxsize=8192)
def connected(size: int, layout: Layout, epochs: int, least: int) -> float:
    """Chance that a class is connected, where batches of fewer than `least` rows connect nothing.

    Exact up to 20 samples, and with one epoch. In larger classes nearly all pieces are small: the logarithm of the
    chance is expanded in the number of samples outside the largest block. Ten terms have been within 0.01 of the truth.
    """
    if size == 1:
        return 1.0
    if max(layout.rows if layout.full else 0, layout.short) < least:
        return 0.0
    if layout.short != 2:  # the only batch that may differ: cached once for both
        least = 2
    if size <= _ALL_PARTITIONS:
        with localcontext() as context:
            context.prec = _DIGITS
            return _clipped(float(sum(weight * chance**epochs for weight, chance in _all_blocks(size, layout, least))))
    if epochs == 1:  # batches are disjoint, so the class must be whole in one of them
        inside = [(count, rows) for count, rows in ((layout.full, layout.rows), (1, layout.short)) if rows >= size]
        return sum(
            count * math.exp(float(log_perm(rows, size) - log_perm(layout.places, size))) for count, rows in inside
        )
    return _expanded(size, layout, epochs, least)


def _clipped(chance: float) -> float:
    return min(1.0, max(0.0, chance))


@lru_cache(maxsize=128)
def _all_blocks(size: int, layout: Layout, least: int) -> list[tuple[int, Decimal]]:
    """For every type of partition of a class: its weight in the sum, and the chance that an epoch mixes no blocks."""
    table, found = _placements(layout, least), []
    everything = Decimal(math.perm(layout.places, size))
    for outside in range(size):
        for blocks in _partitions(outside, min(outside, size - outside)):
            largest = size - outside
            ways = sum(
                count * math.perm(table.free(used, room), largest) for (used, room), count in table.ways(blocks).items()
            )
            if ways:
                with localcontext() as context:
                    context.prec = _DIGITS
                    found.append((_weight((largest, *blocks)), Decimal(ways) / everything))
    return found


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Integer partitions with parts of at most `largest`, in descending order."""
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in _partitions(total - part, part):
            yield (part, *rest)


def _weight(blocks: tuple[int, ...]) -> int:
    """The number of set partitions with blocks of these sizes, times their Moebius number (-1)^(r-1) (r-1)!."""
    count = math.factorial(sum(blocks))
    for block in blocks:
        count //= math.factorial(block)
    for block in set(blocks):
        count //= math.factorial(blocks.count(block))
    sign = -1 if len(blocks) % 2 == 0 else 1
    return sign * count * math.factorial(len(blocks) - 1)


class _Placements:
    """Numbers of ways to place blocks of distinct samples so that no batch connects two blocks."""

    def __init__(self, layout: Layout, least: int) -> None:
        self.layout = layout
        self._short_connects = layout.short >= least
        self._known: dict[tuple[int, ...], dict[tuple[int, int], int]] = {(): {(0, layout.short): 1}}
        self._steps: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def free(self, used: int, room: int) -> int:
        """Places for another block."""
        return (self.layout.full - used) * self.layout.rows + room

    def ways(self, blocks: tuple[int, ...]) -> dict[tuple[int, int], int]:
        """By the number of full batches used, and the room that another block has in the short one."""
        if blocks not in self._known:
            found: dict[tuple[int, int], int] = defaultdict(int)
            for (used, room), count in self.ways(blocks[:-1]).items():
                for left, batches, ways in self._steps_of(blocks[-1], room):
                    if used + batches <= self.layout.full:
                        chosen = math.comb(self.layout.full - used, batches)
                        found[used + batches, left] += count * ways * chosen
            self._known[blocks] = dict(found)
        return self._known[blocks]

    def _steps_of(self, block: int, room: int) -> list[tuple[int, int, int]]:
        """The ways to place one block: room left in the short batch, full batches used, and how many ways there are."""
        if (block, room) not in self._steps:
            steps = []
            for inside in range(min(block, room) + 1):
                left = (0 if self._short_connects else room - inside) if inside else room
                rest = block - inside
                for batches in range(min(rest, 1), rest + 1):
                    ways = math.comb(block, inside) * math.perm(room, inside) * _onto(rest, batches, self.layout.rows)
                    if ways:
                        steps.append((left, batches, ways))
            self._steps[block, room] = steps
        return self._steps[block, room]


@lru_cache(maxsize=4)
def _placements(layout: Layout, least: int) -> _Placements:
    return _Placements(layout, least)


@lru_cache(maxsize=4096)
def _onto(samples: int, batches: int, rows: int) -> int:
    """Number of ways to place samples into all of the given batches."""
    return sum((-1) ** (batches - i) * math.comb(batches, i) * math.perm(i * rows, samples) for i in range(batches + 1))


def _expanded(size: int, layout: Layout, epochs: int, least: int) -> float:
    used, room, outside, signs, ways = _small_blocks(layout, least)
    free = (layout.full - used) * layout.rows + room
    everything = gammaln(layout.places + 1) - gammaln(layout.places - size + 1)
    largest = size - np.arange(_OUTSIDE + 1)[:, None]
    fits = free >= largest
    placed = np.where(fits, gammaln(free + 1) - gammaln(np.where(fits, free - largest, 0) + 1), -np.inf) - everything
    with np.errstate(divide="ignore"):
        chances = np.minimum(np.log(np.exp(ways + placed[outside]).sum(1)), 0.0)
    choices = gammaln(size + 1) - gammaln(size - outside + 1)
    terms = np.bincount(outside, signs * np.exp(choices + epochs * chances), _OUTSIDE + 1)
    # Rounding of the logarithms above, which the division of the series would magnify.
    rounding = epochs * 1e-16 * gammaln(layout.places + 1)
    last = next(s for s in range(_OUTSIDE, 0, -1) if s == 1 or abs(terms[s]) * rounding < 1e-4)
    cumulants = np.zeros(last + 1)
    for s in range(1, last + 1):
        cumulants[s] = terms[s] - sum(j * cumulants[j] * terms[s - j] for j in range(1, s)) / s
    return math.exp(min(0.0, cumulants.sum()))


@lru_cache(maxsize=4)
def _small_blocks(layout: Layout, least: int) -> tuple[Floats, ...]:
    """All partitions of up to `_OUTSIDE` samples: batches used and room left by state; sizes, signs, ways by state."""
    table = _placements(layout, least)
    types = [blocks for total in range(_OUTSIDE + 1) for blocks in _partitions(total, total)]
    states = sorted({state for blocks in types for state in table.ways(blocks)})
    ways = np.full((len(types), len(states)), -np.inf)
    signs = np.empty(len(types))
    for row, blocks in enumerate(types):
        signs[row] = (-1) ** len(blocks) * math.factorial(len(blocks))
        for divisor in (*blocks, *(blocks.count(block) for block in set(blocks))):
            signs[row] /= math.factorial(divisor)
        for state, count in table.ways(blocks).items():
            ways[row, states.index(state)] = math.log(count)
    used, room = (np.array(column) for column in zip(*states, strict=True))
    return used, room, np.array([sum(blocks) for blocks in types]), signs, ways


def missing_small(
    size: int, others: NDArray[np.int64], layout: Layout, epochs: int, least: int
) -> tuple[Floats, Floats]:
    """Chances `[others]` that epochs do not push a class of at most 10 samples apart from classes of other sizes.

    With `least` 3, a batch pushes two classes apart if one of them has two rows; with 2, one row of each is enough.

    Returns:
        The chances, exactly; and those that the small class is also connected.
    """
    if layout.rows < least:
        unmet = np.ones(len(others))
        return unmet, unmet * connected(size, layout, epochs, least)
    weights, chances = _small_and_others(size, others, layout, least)
    powers = chances**epochs
    return powers[0], np.clip(weights @ powers, 0.0, powers[0])


def _small_and_others(
    size: int, others: NDArray[np.int64], layout: Layout, least: int
) -> tuple[Floats, NDArray[np.float64]]:
    """By type of partition, the whole class first: weights, and chances `[types, others]`.

    They are those that an epoch mixes no blocks, and does not push the class apart from another.
    """
    types = list(_partitions(size, size))
    known: dict[tuple[int, ...], dict[tuple[int, int, int], int]] = {}
    for blocks in types:
        _by_rows(blocks, layout, least, known)
    states = sorted({state for blocks in types for state in known[blocks]})
    everything = math.perm(layout.places, size)
    placed = np.array([[known[blocks].get(state, 0) / everything for state in states] for blocks in types])
    avoided = np.array([_avoiding(state, size, others, layout, least) for state in states])
    return np.array([float(_weight(blocks)) for blocks in types]), np.minimum(placed @ avoided, 1.0)


def _by_rows(
    blocks: tuple[int, ...], layout: Layout, least: int, known: dict[tuple[int, ...], dict[tuple[int, int, int], int]]
) -> dict[tuple[int, int, int], int]:
    """Numbers of ways to place blocks, by full batches with several rows and with one, and rows in the short one."""
    if blocks in known:
        return known[blocks]
    if not blocks:
        return {(0, 0, 0): 1}
    found: dict[tuple[int, int, int], int] = defaultdict(int)
    block = blocks[-1]
    for (several, single, short), count in _by_rows(blocks[:-1], layout, least, known).items():
        room = layout.short - short if short == 0 or layout.short < least else 0
        left = layout.full - several - single
        for inside in range(min(block, room) + 1):
            ways = count * math.comb(block, inside) * math.perm(room, inside)
            for ones in range(block - inside + 1):
                chosen = ways * math.perm(block - inside, ones) * layout.rows**ones
                for g in range((block - inside - ones) // 2 + 1):
                    spread = _several(block - inside - ones, g, layout.rows)
                    batches = math.comb(left, g) * math.comb(left - g, ones) if left >= g + ones else 0
                    if spread and batches:
                        found[several + g, single + ones, short + inside] += chosen * spread * batches
    known[blocks] = dict(found)
    return known[blocks]


@lru_cache(maxsize=4096)
def _several(samples: int, batches: int, rows: int) -> int:
    """Number of ways to place samples into the given batches, two or more in each."""
    if batches == 0:
        return int(samples == 0)
    return sum(
        math.comb(samples, i) * math.perm(rows, i) * _several(samples - i, batches - 1, rows)
        for i in range(2, samples + 1)
    )


def _avoiding(state: tuple[int, int, int], size: int, others: NDArray[np.int64], layout: Layout, least: int) -> Floats:
    """Chances `[others]` that other classes are not pushed apart from a class that is placed already.

    They must stay out of the batches in which the class has several rows. If single rows do not push each other apart,
    one sample may be in each batch in which the class has one row.
    """
    several, single, short = state
    free = (layout.full - several - single) * layout.rows + (layout.short if short == 0 else 0)
    ones = single if least == 3 else 0
    in_short = least == 3 and short == 1 and layout.short > 1
    total = np.zeros(len(others))
    for extra in range(1 + in_short):
        for j in range(ones + 1):
            taken = j + extra
            rest = others - taken
            fits = (rest >= 0) & (free >= rest)
            log = np.where(
                fits, log_perm(free, np.where(fits, rest, 0)) + log_perm(others, np.where(fits, taken, 0)), -np.inf
            )
            shared = math.comb(ones, j) * (layout.rows - 1) ** j * (layout.short - 1) ** extra
            if shared:
                total += np.exp(log - log_perm(layout.places - size, others) + math.log(shared))
    return total


def log_perm(n: "int | NDArray[np.int64]", r: "int | NDArray[np.int64]") -> Floats:
    """Logarithm of the number of ways to place r samples in n places, if there are any."""
    found: Floats = gammaln(np.asarray(n) + 1.0) - gammaln(np.asarray(n) - r + 1.0)
    return found


def missing_large(
    first: NDArray[np.int64], second: NDArray[np.int64], layout: Layout, epochs: int, least: int
) -> Floats:
    """Chances `[pairs]` that epochs do not push two classes apart that have more than 10 samples each.

    The ways of an epoch are the coefficient of u^first v^second in a product over batches, whose factors list what a
    batch may hold: one of the classes, neither, or a single row of each. The coefficient is found by its saddle point.
    All ways are counted by the same formula, so that most of its error cancels: the chance of an epoch has been within
    0.0005 of the truth.
    """
    if layout.rows < least:
        return np.ones(len(first))
    # A class avoids all batches in which the other has rows enough. Where that is hopeless, stop here.
    log = -np.maximum(second * _enough(first, layout, least), first * _enough(second, layout, least))
    alone = first + second == layout.places
    log[alone] = [_log_pure(size, layout) for size in first[alone].tolist()]
    chosen = np.flatnonzero(~alone & (epochs * log > _NEGLIGIBLE))
    for part in np.array_split(chosen, 1 + len(chosen) // _PAIRS):
        if len(part):
            with np.errstate(divide="ignore", invalid="ignore"):  # a class that fills nearly all batches
                found = _saddle_point(first[part].astype(np.float64), second[part].astype(np.float64), layout, least)
            log[part] = np.where(np.isfinite(found), found, log[part])
    chances: Floats = np.exp(epochs * np.minimum(log, 0.0))
    return chances


def _enough(size: NDArray[np.int64], layout: Layout, least: int) -> Floats:
    """The share of places in batches where a class has rows enough to push others apart, if rows fell independently."""
    share = size / layout.places
    enough: Floats = 1 - (1 - share) ** layout.rows
    return enough - layout.rows * share * (1 - share) ** (layout.rows - 1) if least == 3 else enough


def _log_pure(size: int, layout: Layout) -> float:
    """The same if there are two classes only: every batch must hold one of them."""
    ways = sum(
        math.comb(layout.full, (size - inside) // layout.rows)
        for inside in {0, layout.short}
        if size >= inside and (size - inside) % layout.rows == 0
    )
    return (
        math.log(ways)
        - (math.lgamma(layout.places + 1) - math.lgamma(size + 1) - math.lgamma(layout.places - size + 1))
        if ways
        else -math.inf
    )


def _saddle_point(s: Floats, t: Floats, layout: Layout, least: int) -> Floats:
    """Logarithm of the share of all ways in which no batch pushes classes of s and t samples apart."""
    n, rest = layout.places, layout.places - s - t
    kinds = [(count, rows) for count, rows in ((layout.full, layout.rows), (1, layout.short)) if count and rows]
    sizes = np.stack([s, t])

    def product(point: Floats, sizes: Floats) -> Floats:
        """Logarithm of the product over u^s v^t, its gradient and its Hessian."""
        found: Floats = np.sum([_log_factor(point[0], point[1], count, rows, least) for count, rows in kinds], axis=0)
        found[0] -= (sizes * point).sum(0)
        found[1:3] -= sizes
        return found

    point, reach = np.log(sizes / rest), np.ones(len(s))
    here, moving = product(point, sizes), np.arange(len(s))
    for _ in range(100):
        _, dx, dy, dxx, dxy, dyy = here[:, moving]
        step = np.stack([dx * dyy - dy * dxy, dy * dxx - dx * dxy]) / (dxx * dyy - dxy**2)
        far = np.abs(step).max(0) > 1e-6
        moving, step = moving[far], step[:, far]
        if not len(moving):
            break
        target = point[:, moving] - reach[moving] * np.clip(step, -1, 1)
        there = product(target, sizes[:, moving])
        lower = there[0] <= here[0, moving]  # the logarithm is convex, but Newton's step may be too long
        point[:, moving[lower]], here[:, moving[lower]] = target[:, lower], there[:, lower]
        reach[moving] = np.where(lower, np.minimum(1.0, 2 * reach[moving]), reach[moving] / 4)
    value, _, _, dxx, dxy, dyy = here
    everything = n * np.log(n) - (sizes * np.log(sizes)).sum(0) - rest * np.log(rest)
    found: Floats = value - everything - 0.5 * np.log((dxx * dyy - dxy**2) * n / (s * t * rest))
    return found


def _log_factor(x: Floats, y: Floats, count: int, rows: int, least: int) -> Floats:
    """Logarithm of (1+u)^rows + (1+v)^rows - 1 [+ rows (rows-1) u v] and its derivatives by x = log u, y = log v."""
    first, second = rows * np.logaddexp(0, x), rows * np.logaddexp(0, y)
    both = math.log(rows * (rows - 1)) + x + y if least == 3 and rows > 1 else np.full_like(x, -np.inf)
    largest = np.maximum(np.maximum(first, second), both)
    value = largest + np.log(
        np.exp(first - largest) + np.exp(second - largest) + np.exp(both - largest) - np.exp(-largest)
    )
    only_first, only_second, single = (np.exp(part - value) for part in (first, second, both))
    in_x, in_y = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-y))
    dx, dy = only_first * rows * in_x + single, only_second * rows * in_y + single
    dxx = only_first * (rows * in_x * (1 - in_x) + (rows * in_x) ** 2) + single - dx**2
    dyy = only_second * (rows * in_y * (1 - in_y) + (rows * in_y) ** 2) + single - dy**2
    return count * np.stack([value, dx, dy, dxx, single - dx * dy, dyy])
