"""One pass over batches: what they connect, and which classes they bring together."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from orthoframe.batches._components import Components
from orthoframe.batches._labels import Chunk, Integers, Labels, chunks

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
    components_as_stated: Components  # samples connected by shared batches, whatever the batches hold
    met: Flags  # [k, k], classes that some batch pushes apart
    touched: Flags  # [k, k], classes that share some batch
    seen: Flags  # [samples]
    shared: Flags  # [k], classes that have a batch with another row in it
    num_batches: int = 0
    memberships: int = 0
    single_class_batches: int = 0
    single: list[SingleClass] = field(default_factory=list)  # those of two rows or more that hold several components


def scan(labels: Labels, batches: Iterable[Any], views: int) -> Scan:
    """Apply the effective condition and the condition as stated, in one pass.

    Every batch that holds two classes makes the rows of a class coincide. A batch of a single class only makes its rows
    equiangular: all coincide once two of them are known to, if there are three or more. Two classes are pushed apart by
    a batch in which one of them has two rows.
    """
    classes, k = labels.classes, len(labels.names)
    eye = np.eye(k, dtype=bool)
    found = Scan(
        labels,
        components=Components(classes, k),
        components_as_stated=Components(classes, k),
        met=eye,
        touched=eye.copy(),
        seen=np.zeros(len(classes), dtype=bool),
        shared=np.zeros(k, dtype=bool),
    )
    for chunk in chunks(batches, len(classes)):
        _look(found, chunk, views)
    close(found.components, found.single)
    found.single = [batch for batch in found.single if len(np.unique(found.components.roots(batch.samples))) > 1]
    everything = np.arange(len(classes))
    found.components_as_stated.join(everything, found.components.roots(), k + len(classes))
    return found


def _look(found: Scan, chunk: Chunk, views: int) -> None:
    k = len(found.labels.names)
    found.memberships += len(chunk.samples)
    found.seen[chunk.samples] = True

    # A group: the rows of one class in one batch.
    keys = chunk.batches.astype(np.int64) * k + found.labels.classes[chunk.samples]
    if chunk.num_batches * k <= 4 * len(keys):
        counts = np.bincount(keys, minlength=chunk.num_batches * k)
        groups = np.flatnonzero(counts)
        counts, group_of, size, slots = counts[groups], keys, chunk.num_batches * k, groups
    else:  # far more classes than rows: number the groups that are there
        groups, group_of, counts = np.unique(keys, return_inverse=True, return_counts=True)
        size, slots = len(groups), np.arange(len(groups))
    batch_of, class_of = np.divmod(groups, k)
    classes_in = np.bincount(batch_of, minlength=chunk.num_batches)
    mixed = classes_in[batch_of] > 1
    several = counts * views > 1

    unite = np.zeros(size, dtype=bool)
    unite[slots] = mixed & (counts > 1)
    chosen = unite[group_of]
    found.components.join(chunk.samples[chosen], group_of[chosen], size)

    found.shared[class_of[mixed | several]] = True
    pairs = batch_of[mixed], class_of[mixed]
    apart = mixed & several
    _mark(found.touched, pairs, pairs)
    _mark(found.met, (batch_of[apart], class_of[apart]), pairs)
    found.single_class_batches += int((classes_in == 1).sum())
    _look_at_single_classes(found, chunk, classes_in == 1, views)
    found.num_batches += chunk.num_batches


def _look_at_single_classes(found: Scan, chunk: Chunk, single: Flags, views: int) -> None:
    """Batches of one class: connected as stated; in truth only if two of three or more rows are known to coincide."""
    inside = single[chunk.batches]
    samples, owners = chunk.samples[inside], chunk.batches[inside]
    if not len(samples):
        return
    found.components_as_stated.join(samples, owners, chunk.num_batches)
    if views > 1:  # the views of a sample coincide
        found.components.join(samples, owners, chunk.num_batches)
        return
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    for owner, batch in zip(owners[starts].tolist(), np.split(samples, starts[1:]), strict=True):
        if len(batch) > 1:
            found.single.append(SingleClass(found.num_batches + owner, batch))


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


def _mark(matrix: Flags, left: tuple[Integers, Integers], right: tuple[Integers, Integers]) -> None:
    """Set the pairs (class in left, class in right) that share a batch; only what is still missing is looked for."""
    missing = np.asarray(~matrix.all(axis=1))
    if not missing.any():
        return
    tables = []
    for batches, classes in (left, right):
        keep = missing[classes]
        rows, columns = batches[keep], classes[keep]
        shape = (int(max(left[0].max(initial=0), right[0].max(initial=0))) + 1, len(matrix))
        tables.append(csr_array((np.ones(len(rows), np.int32), (rows, columns)), shape=shape))
    together = (tables[0].T @ tables[1]).tocoo()
    matrix[together.row, together.col] = True
    matrix[together.col, together.row] = True
