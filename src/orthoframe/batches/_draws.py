"""Rows drawn by weight: by the weight of their class, or each by its own."""

import numpy as np
from numpy.typing import NDArray

from orthoframe._rows import Integers, Labels

_BITS = 32  # of the fraction of a row; with them products of two lengths of arrays fit into 64 bits
_MOST_EPOCHS = 2**31  # up to which they do


class ClassDraws:
    """Endless streams of permutations, one per class, of which every epoch takes the next piece.

    Class c has the share s_c = n_c^p / sum of n_j^p of the n rows of an epoch, and so an expected n s_c rows. With p
    from 0 to 1 that is at least one: the smallest class has its share n_c / n or more, and a larger class no less.

    With the cumulative quotas Q_c = n (s_0 + ... + s_c), the classes up to c have round(e Q_c) rows in the first e
    epochs together, and a class has the difference of two such numbers. So every epoch has n rows in all, and what was
    shown of a class is always less than one row away from what was expected. It never falls: from one epoch to the next
    round(e Q_c) grows by Q_c rounded up or down, which is no less than Q_{c-1} rounded up, because Q_c >= Q_{c-1} + 1.

    Args:
        labels: The classes of the samples; at least one.
        power: p, from 0 to 1.
        key: Two words of 64 bits that decide the permutations.
    """

    def __init__(self, labels: Labels, power: float, key: Integers) -> None:
        self._members, self._counts = labels.members(), labels.counts.astype(np.int64)
        self._random = np.random.Philox(key=key)
        self._generator, self._start = np.random.Generator(self._random), self._random.state
        n, ones = len(labels.classes), np.arange(1, len(self._counts) + 1)
        weights = np.cumsum(self._counts.astype(np.float64) ** power)
        # What a class has beyond one row, so that roundings take that row from no class.
        beyond = np.clip(n * (weights / weights[-1]) - ones, 0, n - len(ones))
        beyond = np.maximum.accumulate(np.rint(beyond * 2.0**_BITS).astype(np.int64))
        self._ends = (ones << _BITS) + beyond

    def expected(self) -> NDArray[np.float64]:
        """`[k]`, rows of each class in an epoch, on average."""
        rows: NDArray[np.float64] = np.diff(self._ends, prepend=0) / 2.0**_BITS
        return rows

    def shown(self, epochs: int) -> Integers:
        """`[k]`, rows of each class in the first epochs together."""
        ends = self._ends if epochs < _MOST_EPOCHS else self._ends.astype(object)
        whole, fraction = ends >> _BITS, ends & ((1 << _BITS) - 1)
        return np.diff(whole * epochs + ((fraction * epochs + (1 << _BITS - 1)) >> _BITS), prepend=0)

    def epochs_to_show_all(self) -> int:
        """How many epochs it takes until every sample has been shown."""
        epochs = max(1, int(np.ceil((self._counts - 1) / self.expected()).max()))
        while (self.shown(epochs) < self._counts).any():  # two times at most, because all are within a row
            epochs += 1
        return epochs

    def rows(self, epoch: int) -> Integers:
        """The rows of an epoch, one class after the other."""
        first, last = self.shown(epoch).tolist(), self.shown(epoch + 1).tolist()
        pieces = []
        for c, members in enumerate(self._members):
            count = len(members)
            (start, skipped), (stop, left) = divmod(first[c], count), divmod(last[c], count)
            if start == stop:
                pieces.append(self._permutation(c, start)[skipped:left])
                continue
            if skipped:
                pieces.append(self._permutation(c, start)[skipped:])
                start += 1
            # The order inside an epoch is the plan's, so that whole permutations need not be drawn.
            pieces += [members] * (stop - start)
            if left:
                pieces.append(self._permutation(c, stop)[:left])
        return np.concatenate(pieces)

    def _permutation(self, c: int, number: int) -> Integers:
        """A permutation of a class; its number and class are the upper words of the counter that it is drawn with."""
        low = (1 << 64) - 1
        self._start["state"]["counter"][:] = (0, number & low, number >> 64 & low, c)
        self._random.state = self._start
        return self._generator.permutation(self._members[c])


def draw_rows(chances: NDArray[np.float64], random: np.random.Generator) -> Integers:
    """As many rows as there are, in random order: each `rows * chance` times, rounded up or down at random."""
    samples = len(chances)
    order = random.permutation(samples)
    # Marks at equal distances, from a random start: each row gets those that fall into its part of the line.
    ends = np.minimum(np.cumsum(samples * chances[order]), samples)
    ends[-1] = samples  # whatever the sum was rounded to
    times = np.diff(np.floor(ends + random.random()), prepend=0.0).astype(np.int64)
    return random.permutation(np.repeat(order, times))


def draw_distinct(
    members: Integers, number: int, batches: int, random: np.random.Generator, chances: NDArray[np.float64] | None
) -> Integers:
    """`[batches, number]`, members that are distinct within each batch; with chances of all rows, by these."""
    part = None if chances is None else chances[members] / chances[members].sum()
    if number == 1:
        size = (batches, 1)
        drawn = random.integers(len(members), size=size) if part is None else random.choice(len(members), size, p=part)
        return members[drawn]
    if part is None:
        rows = [random.permutation(members)[:number] for _ in range(batches)]
    else:
        rows = [random.choice(members, number, replace=False, p=part) for _ in range(batches)]
    return np.array(rows, dtype=members.dtype).reshape(batches, number)  # also without batches
