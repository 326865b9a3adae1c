"""Which two classes batches bring together: a table of all pairs, or for many classes what it is made from."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from orthoframe._rows import Integers
from orthoframe.errors import OptionError, Part

Flags = NDArray[np.bool_]

_MOST_IN_TABLE = 4096  # classes
_CELLS = 2**22  # of a table that are looked at together
# A table with at most this many cells per entry is handled as a dense one.
DENSE = 8


def check_table(num_classes: int, what: str, *advice: Part) -> None:
    """Refuse what has a table of all pairs of classes if they are more than 4,096, with advice."""
    if num_classes > _MOST_IN_TABLE:
        most = f" has a table of all pairs of classes, at most {_MOST_IN_TABLE} of them, not {num_classes}; "
        raise OptionError(what, most, *advice)


class Pairs:
    """The pairs of classes that share a batch in which one of the two has at least `least` rows.

    For up to 4,096 classes this is a table. For more, it is the classes of each batch, which takes memory in proportion
    to the rows of the batches, and parts of the table are made from them. Classes that are paired with all others need
    no memory.
    """

    def __init__(self, num_classes: int, least: int) -> None:
        self._k, self._least = num_classes, least
        self._open = np.ones(num_classes, dtype=bool)  # classes that may not be paired with all others
        self._table = np.eye(num_classes, dtype=bool) if num_classes <= _MOST_IN_TABLE else None
        self._kept: list[tuple[Integers, Integers, Flags]] = []  # batch and class, and whether it has `least` rows
        self._num_batches = 0

    def add(self, batches: Integers, classes: Integers, counts: Integers, num_batches: int) -> None:
        """Take in more batches, as the batch, the class and the number of the rows of each class in each batch."""
        if not self._open.any():
            return
        if self._table is not None:
            self._add_to_table(self._table, csr_array((counts, (batches, classes)), shape=(num_batches, self._k)))
            return
        several: Flags = counts >= self._least
        held = np.bincount(batches[self._open[classes]], minlength=num_batches)
        full = held == np.count_nonzero(self._open)
        self._open[classes[several & full[batches]]] = False
        several &= self._open[classes]
        useful = np.bincount(batches[several], minlength=num_batches) > 0
        kept = self._open[classes] & useful[batches]
        self._kept.append((batches[kept] + self._num_batches, classes[kept].astype(np.int32), several[kept]))
        self._num_batches += num_batches

    def _add_to_table(self, table: Flags, counts: csr_array) -> None:
        places = np.flatnonzero(self._open)
        some = counts[:, places]
        if some.shape[0] * len(places) > DENSE * some.nnz:
            together = ((some >= self._least).T @ (some > 0)).toarray()
        else:  # floats are multiplied faster than flags
            some = some.toarray()
            together = (some >= self._least).astype(np.float32).T @ (some > 0).astype(np.float32) > 0
        table[np.ix_(places, places)] |= together | together.T
        self._open[:] = ~table.all(axis=1)

    @cached_property
    def _factors(self) -> tuple[csr_array, csr_array, csr_array, csr_array]:
        """Which classes are in each batch, which have `least` rows there, and both by class; after the last batch."""
        alone = np.arange(self._k)  # as if each class had a batch to itself, because it is paired with itself
        kept = [*self._kept, (alone + self._num_batches, alone, np.ones(self._k, dtype=bool))]
        batches, classes, several = (np.concatenate(parts) for parts in zip(*kept, strict=True))
        shape = (self._num_batches + self._k, self._k)
        present = csr_array((np.ones(len(classes), dtype=bool), (batches, classes)), shape=shape)
        pushing = csr_array((several[several], (batches[several], classes[several])), shape=shape)
        return present, pushing, present.T.tocsr(), pushing.T.tocsr()

    def rows(self, classes: Integers) -> Flags:
        """`[classes, k]`, a part of the table."""
        if self._table is not None:
            return self._table[classes]
        present, pushing, present_of, pushing_of = self._factors
        paired: Flags = (pushing_of[classes] @ present + present_of[classes] @ pushing).toarray()
        paired[:, ~self._open] = True
        paired[~self._open[classes]] = True
        return paired

    def _missing(self, among: "Pairs | None") -> Iterator[tuple[Integers, Flags]]:
        """Some classes at a time, and `[classes, k]` whether they are not paired with each later class."""
        places = np.flatnonzero(self._open)
        step = max(1, _CELLS // max(1, self._k))
        for classes in (places[first : first + step] for first in range(0, len(places), step)):
            missing = ~self.rows(classes) & (np.arange(self._k) > classes[:, None])
            yield classes, missing if among is None else missing & among.rows(classes)

    def num_missing(self, among: "Pairs | None" = None) -> int:
        """The number of other pairs, or of those that are `among` others."""
        return sum(int(np.count_nonzero(missing)) for _, missing in self._missing(among))

    def missing(self, most: int, among: "Pairs | None" = None) -> list[tuple[int, int]]:
        """The first of the other pairs, or of those that are `among` others, with the smaller class first."""
        pairs: list[tuple[int, int]] = []
        for classes, missing in self._missing(among):
            first, second = np.unravel_index(np.flatnonzero(missing)[: most - len(pairs)], missing.shape)
            pairs += zip(classes[first].tolist(), second.tolist(), strict=True)
            if len(pairs) == most:
                break
        return pairs

    @property
    def complete(self) -> bool:
        """Whether every two classes are a pair."""
        return not self.missing(1)
