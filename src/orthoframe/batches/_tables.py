"""Rows of each class in each batch of a chunk, counted: as a whole table, or only where there are any."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from orthoframe.batches._labels import Integers

Flags = NDArray[np.bool_]


class Table(Protocol):
    """What a pass over the batches asks of the counts."""

    @property
    def classes_in_batches(self) -> Integers:
        """`[batches]`, how many classes each batch holds."""

    def several(self, least: int, mixed: Flags) -> Flags:
        """For each group, whether it has so many rows, in a batch that is mixed."""

    def classes_with(self, least: int, views: int, mixed: Flags) -> Flags:
        """`[k]`, classes with a group of so many rows, views counted, or in a mixed batch."""

    def mark(self, matrix: Flags, least: int, mixed: Flags) -> None:
        """Set the pairs of classes of which one has so many rows in a mixed batch that holds the other."""


@dataclass(frozen=True)
class DenseTable:
    """All counts, `[batches, k]`; groups are numbered along it."""

    counts: Integers

    @property
    def classes_in_batches(self) -> Integers:
        """See `Table`."""
        return np.asarray(np.count_nonzero(self.counts, axis=1))

    def several(self, least: int, mixed: Flags) -> Flags:
        """See `Table`."""
        return np.asarray((self.counts >= least) & mixed[:, None]).ravel()

    def classes_with(self, least: int, views: int, mixed: Flags) -> Flags:
        """See `Table`."""
        return np.asarray(((self.counts * views >= least) | (mixed[:, None] & (self.counts > 0))).any(axis=0))

    def mark(self, matrix: Flags, least: int, mixed: Flags) -> None:
        """See `Table`."""
        missing = np.flatnonzero(~matrix.all(axis=1))
        if not len(missing):
            return
        counts = self.counts[np.ix_(mixed, missing)]
        present, several = (counts > 0).astype(np.float32), (counts >= least).astype(np.float32)
        together = (several.T @ present) > 0
        matrix[np.ix_(missing, missing)] |= together | together.T


@dataclass(frozen=True)
class SparseTable:
    """The groups that are there, in the order of their batches."""

    batches: Integers  # [groups]
    classes: Integers  # [groups]
    counts: Integers  # [groups]
    num_batches: int
    num_classes: int

    @property
    def classes_in_batches(self) -> Integers:
        """See `Table`."""
        return np.bincount(self.batches, minlength=self.num_batches)

    def several(self, least: int, mixed: Flags) -> Flags:
        """See `Table`."""
        return np.asarray((self.counts >= least) & mixed[self.batches])

    def classes_with(self, least: int, views: int, mixed: Flags) -> Flags:
        """See `Table`."""
        found = np.zeros(self.num_classes, dtype=bool)
        found[self.classes[(self.counts * views >= least) | mixed[self.batches]]] = True
        return found

    def mark(self, matrix: Flags, least: int, mixed: Flags) -> None:
        """See `Table`."""
        wanted = mixed[self.batches] & ~np.asarray(matrix.all(axis=1))[self.classes]
        together = (self._ones(wanted & (self.counts >= least)).T @ self._ones(wanted)).tocoo()
        matrix[together.row, together.col] = True
        matrix[together.col, together.row] = True

    def _ones(self, chosen: Flags) -> csr_array:
        places = self.batches[chosen], self.classes[chosen]
        return csr_array((np.ones(len(places[0]), np.int32), places), shape=(self.num_batches, self.num_classes))
