"""One pass over batches: what they connect, and which classes they bring together."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orthoframe.batches._components import Components
from orthoframe.batches._labels import Chunk, Integers, Labels, chunks
from orthoframe.batches._tables import DenseTable, SparseTable, Table

Flags = NDArray[np.bool_]


class SingleClass(NamedTuple):
    """A batch of one class only."""

    number: int  # in the list of batches
    samples: Integers


@dataclass
class Scan:
    """What a pass over the batches found."""

    labels: Labels
    components: Components  # samples that every optimum has at one place
    by_single_class: Components | None  # samples connected by batches of one class, if there are any
    met: Flags  # [k, k], classes that some batch pushes apart
    touched: Flags  # [k, k], classes that share some batch
    seen: Flags  # [samples]
    shared: Flags  # [k], classes that have a batch with another row in it
    num_batches: int = 0
    memberships: int = 0
    single_class_batches: int = 0
    single: list[SingleClass] = field(default_factory=list)  # those of two rows or more that hold several components
    known: set[bytes] = field(default_factory=set)  # what those hold, so that none is kept twice

    def components_as_stated(self) -> Components:
        """Samples connected by shared batches, whatever the batches hold: the batch interaction graph."""
        if self.by_single_class is None:
            return self.components
        connected, everything = self.by_single_class.copy(), np.arange(len(self.labels.classes))
        connected.join(everything, self.components.roots(), len(self.labels.names) + len(everything))
        return connected


def scan(labels: Labels, batches: Iterable[Any], views: int, single_class_acts: bool = True) -> Scan:
    """Apply the effective condition and the condition as stated, in one pass.

    Every batch that holds two classes makes the rows of a class coincide. A batch of a single class only makes its rows
    equiangular: all coincide once two of them are known to, if there are three or more. Two classes are pushed apart by
    a batch in which one of them has two rows.

    Args:
        labels: The classes.
        batches: Lists of sample indices.
        views: Rows that each index stands for.
        single_class_acts: Whether the loss feels a batch of a single class at all.
    """
    classes, k = labels.classes, len(labels.names)
    eye = np.eye(k, dtype=bool)
    found = Scan(
        labels,
        components=Components(classes, k),
        by_single_class=None,
        met=eye,
        touched=eye.copy(),
        seen=np.zeros(len(classes), dtype=bool),
        shared=np.zeros(k, dtype=bool),
    )
    for chunk in chunks(batches, len(classes)):
        _look(found, chunk, views, single_class_acts)
    close(found.components, found.single)
    found.single = [batch for batch in found.single if len(np.unique(found.components.roots(batch.samples))) > 1]
    return found


def _look(found: Scan, chunk: Chunk, views: int, single_class_acts: bool) -> None:
    k = len(found.labels.names)
    found.memberships += len(chunk.samples)
    found.seen[chunk.samples] = True
    # A group: the rows of one class in one batch.
    keys = chunk.batches * k + found.labels.classes[chunk.samples]
    if chunk.num_batches * k <= 8 * len(keys):
        table: Table = DenseTable(np.bincount(keys, minlength=chunk.num_batches * k).reshape(chunk.num_batches, k))
    else:  # far more classes than rows: only the groups that are there
        groups, keys, counts = np.unique(keys, return_inverse=True, return_counts=True)
        table = SparseTable(*np.divmod(groups, k), counts, chunk.num_batches, k)
    mixed = table.classes_in_batches > 1
    unite = table.several(2, mixed)
    chosen = unite[keys]
    found.components.join(chunk.samples[chosen], keys[chosen], len(unite))
    found.shared |= table.classes_with(2, views, mixed)
    table.mark(found.touched, 1, mixed)
    table.mark(found.met, 2 if views == 1 else 1, mixed)
    single = table.classes_in_batches == 1
    found.single_class_batches += int(single.sum())
    _look_at_single_classes(found, chunk, single, views, single_class_acts)
    found.num_batches += chunk.num_batches


def _look_at_single_classes(found: Scan, chunk: Chunk, single: Flags, views: int, acts: bool) -> None:
    """Batches of one class: connected as stated; in truth only if two of three or more rows are known to coincide."""
    inside = single[chunk.batches]
    samples, owners = chunk.samples[inside], chunk.batches[inside]
    if not len(samples):
        return
    if found.by_single_class is None:
        found.by_single_class = Components(found.labels.classes, len(found.labels.names))
    found.by_single_class.join(samples, owners, chunk.num_batches)
    if not acts:
        return
    if views > 1:  # the views of a sample coincide
        found.components.join(samples, owners, chunk.num_batches)
        return
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    for owner, batch in zip(owners[starts].tolist(), np.split(samples, starts[1:]), strict=True):
        if len(batch) > 1:
            # A fixed partition comes back in every epoch: once is enough.
            content = hashlib.blake2b(np.sort(batch).tobytes(), digest_size=16).digest()
            if content not in found.known:
                found.known.add(content)
                found.single.append(SingleClass(found.num_batches + owner, batch.copy()))


def close(components: Components, single: list[SingleClass]) -> None:
    """Let batches of one class, of three or more rows, act until none has two rows that are known to coincide."""
    waiting = [batch.samples for batch in single if len(batch.samples) > 2]
    while waiting:
        samples, owners = np.concatenate(waiting), np.repeat(np.arange(len(waiting)), [len(b) for b in waiting])
        roots = components.roots(samples)
        order = np.lexsort((roots, owners))
        same = (np.diff(roots[order]) == 0) & (np.diff(owners[order]) == 0)
        fires = np.zeros(len(waiting), dtype=bool)
        fires[owners[order][1:][same]] = True
        if not fires.any():
            return
        acting = fires[owners]
        components.join(samples[acting], owners[acting], len(waiting))
        waiting = [batch for batch, fired in zip(waiting, fires, strict=True) if not fired]
