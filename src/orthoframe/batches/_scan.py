"""One pass over batches, or over those of many runs: which samples they connect, which classes they bring together."""

import hashlib
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from orthoframe._rows import Integers, Labels
from orthoframe.batches._lists import Chunk, chunks, end_to_end
from orthoframe.batches._pairs import DENSE, Flags, Pairs

_FOLLOWED = 2**16  # samples whose batches are compared, about


class Components:
    """Which samples of each class are connected."""

    def __init__(self, classes: Integers, num_classes: int) -> None:
        self._classes, self._num_classes = classes, num_classes
        self._count = len(classes)
        self._numbers: Integers = np.arange(len(classes), dtype=np.int32)
        self._waiting: list[tuple[Integers, Integers]] = []  # edges between components

    def join(self, samples: Integers, groups: Integers, num_groups: int) -> None:
        """Unite the samples that have the same group number; a group lies within one class."""
        numbers = self._numbers[samples]
        of_group = np.empty(num_groups, dtype=numbers.dtype)  # one component of each group, to which the others go
        of_group[groups] = numbers
        others = of_group[groups]
        apart = numbers != others
        self._waiting.append((numbers[apart], others[apart]))
        # Each update takes as long as there are samples, so that it must be worth it.
        if sum(len(edges) for edges, _ in self._waiting) > self._count:
            self._update()

    def _update(self) -> None:
        edges = tuple(np.concatenate(ends) for ends in zip(*self._waiting, strict=True))
        graph = csr_array((np.ones(len(edges[0]), dtype=bool), edges), shape=(self._count, self._count))
        self._count, renumbered = connected_components(graph, directed=False)
        self._numbers, self._waiting = renumbered[self._numbers], []

    @property
    def numbers(self) -> Integers:
        """`[samples]`, equal for samples in one component."""
        if self._waiting:
            self._update()
        return self._numbers

    def pieces(self) -> Integers:
        """`[k]`, number of components of each class."""
        numbers = self.numbers
        class_of = np.empty(self._count, dtype=self._classes.dtype)
        class_of[numbers] = self._classes
        return np.bincount(class_of, minlength=self._num_classes)


class Company:
    """Whether samples are in batches that differ, as those of an epoch that is drawn anew do; for many, of a part."""

    def __init__(self, num_samples: int) -> None:
        self._part = 2 ** max(0, num_samples // _FOLLOWED).bit_length()  # every so many samples
        self._last = np.full(-(-num_samples // self._part), np.nan)  # the batch that each was in, by its content
        self._differs = np.zeros(len(self._last), dtype=bool)

    def add(self, chunk: Chunk) -> None:
        """Take in more batches."""
        lengths = np.bincount(chunk.batches, minlength=chunk.num_batches)
        starts = (np.cumsum(lengths) - lengths)[lengths > 0]
        content = np.zeros(chunk.num_batches)
        if len(starts):
            content[lengths > 0] = np.add.reduceat(chunk.samples * chunk.samples, starts)
        rows = np.flatnonzero((chunk.samples & (self._part - 1)) == 0)
        samples, content = chunk.samples[rows] // self._part, content[chunk.batches[rows]]
        before = self._last[samples]
        self._last[samples] = content
        differs = (before != content) & ~np.isnan(before) | (self._last[samples] != content)
        self._differs[samples[differs]] = True

    @property
    def differs(self) -> bool:
        """Whether a quarter of the samples that are in a batch are in others too."""
        return bool(4 * np.count_nonzero(self._differs) > np.count_nonzero(~np.isnan(self._last)))


class SingleClass(NamedTuple):
    """A batch that holds a single class."""

    number: int  # in the list of batches
    samples: Integers


@dataclass
class Scan:
    """The result of a pass over the batches."""

    labels: Labels
    components: Components  # samples that coincide in every optimum
    met: Pairs  # that some batch pushes apart
    touched: Pairs  # that share a batch
    seen: Flags  # [samples]
    shared: Flags  # [k], classes that are in a batch with another row
    company: Company
    by_single_class: Components | None = None  # samples connected by batches of a single class, if there are any
    num_batches: int = 0
    memberships: int = 0
    single_class_batches: int = 0
    single: dict[bytes, SingleClass] = field(default_factory=dict)  # by content; those that hold several components

    def components_as_stated(self) -> Components:
        """Connected components of the batch interaction graph: samples that share batches of any kind."""
        if self.by_single_class is None:
            return self.components
        connected, everything = deepcopy(self.by_single_class), np.arange(len(self.labels.classes))
        connected.join(everything, self.components.numbers, len(everything))
        return connected

    def hold_by_frame(self) -> None:
        """Let a frame term hold every sample of a batch in its place: samples of a class coincide, and classes part."""
        seen, classes, k = np.flatnonzero(self.seen), self.labels.classes, len(self.labels.names)
        self.components.join(seen, classes[seen], k)
        present, self.met = np.unique(classes[seen]), Pairs(k, 1)
        self.met.add(np.zeros_like(present), present, np.ones_like(present), 1)
        self.single.clear()


def scan(labels: Labels, batches: Iterable[Any], views: int, single_class_acts: bool = True) -> Scan:
    """Apply the exact condition and the condition as stated in the paper, in one pass.

    A batch of two or more classes makes its rows of each class coincide. A batch of a single class only makes its rows
    equiangular: with three or more rows they coincide once two of them are known to. Two classes are pushed apart by a
    batch in which one of them has at least two rows. Without `single_class_acts`, a batch of a single class has no
    effect on the loss.
    """
    samples, k = len(labels.classes), len(labels.names)
    result = Scan(
        labels=labels,
        components=Components(labels.classes, k),
        met=Pairs(k, 2 if views == 1 else 1),
        touched=Pairs(k, 1),
        seen=np.zeros(samples, dtype=bool),
        shared=np.zeros(k, dtype=bool),
        company=Company(samples),
    )
    for chunk in chunks(batches, samples):
        _scan_chunk(result, chunk, views, single_class_acts)
    close(result.components, result.single.values())
    for content, batch in list(result.single.items()):
        if len(np.unique(result.components.numbers[batch.samples])) == 1:
            del result.single[content]
    return result


def _scan_chunk(result: Scan, chunk: Chunk, views: int, single_class_acts: bool) -> None:
    k = len(result.labels.names)
    result.memberships += len(chunk.samples)
    result.seen[chunk.samples] = True
    result.company.add(chunk)
    # A group: the rows of one class in one batch.
    groups, owners, counts = _unique(chunk.batches * k + result.labels.classes[chunk.samples], chunk.num_batches * k)
    batches = groups // k  # several times faster than np.divmod
    classes = groups - k * batches
    classes_per_batch = np.bincount(batches, minlength=chunk.num_batches)
    mixed = (classes_per_batch > 1)[batches]
    chosen = (mixed & (counts > 1))[owners]
    result.components.join(chunk.samples[chosen], owners[chosen], len(groups))
    if not result.shared.all():
        result.shared[classes[mixed | ((counts > 1) | (views > 1))]] = True
    for pairs in (result.touched, result.met):
        pairs.add(batches[mixed], classes[mixed], counts[mixed], chunk.num_batches)
    single = classes_per_batch == 1
    result.single_class_batches += int(single.sum())
    _scan_single_classes(result, chunk, single, views, single_class_acts)
    result.num_batches += chunk.num_batches


def _unique(keys: Integers, limit: int) -> tuple[Integers, Integers, Integers]:
    """What `np.unique` returns, with inverse and counts; without sorting unless keys are sparse in `range(limit)`."""
    if limit > DENSE * len(keys):
        return np.unique(keys, return_inverse=True, return_counts=True)
    counts = np.bincount(keys, minlength=limit)
    values = np.flatnonzero(counts)
    places = np.empty(limit, np.intp)
    places[values] = np.arange(len(values))
    return values, places[keys], counts[values]


def _scan_single_classes(result: Scan, chunk: Chunk, single: Flags, views: int, acts: bool) -> None:
    """Batches of a single class: connected as stated in the paper, but truly only if two rows already coincide."""
    inside = single[chunk.batches]
    samples, owners = chunk.samples[inside], chunk.batches[inside]
    if not len(samples):
        return
    if result.by_single_class is None:
        result.by_single_class = Components(result.labels.classes, len(result.labels.names))
    result.by_single_class.join(samples, owners, chunk.num_batches)
    if not acts:
        return
    if views > 1:  # the views of a sample coincide
        result.components.join(samples, owners, chunk.num_batches)
        return
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    for owner, batch in zip(owners[starts].tolist(), np.split(samples, starts[1:]), strict=True):
        if len(batch) > 1:
            # A fixed partition comes back in every epoch: once is enough.
            content = hashlib.blake2b(np.sort(batch).tobytes(), digest_size=16).digest()
            result.single.setdefault(content, SingleClass(result.num_batches + owner, batch.copy()))


def close(components: Components, single: Iterable[SingleClass]) -> None:
    """Join the rows of each single-class batch of three or more in which two coincide, until no such batch is left."""
    several = [batch.samples for batch in single if len(batch.samples) > 2]  # two rows are free
    if several:
        samples, batches, _ = end_to_end(several)
        close_rows(components, samples, batches)


def close_rows(components: Components, samples: Integers, batches: Integers) -> None:
    """`close` for the rows of batches of a single class, end to end, and the number of the batch of each."""
    while len(samples):
        _, batches = np.unique(batches, return_inverse=True)
        numbers = components.numbers[samples]
        order = np.lexsort((numbers, batches))
        same = (np.diff(numbers[order]) == 0) & (np.diff(batches[order]) == 0)
        fires = np.zeros(int(batches.max()) + 1, dtype=bool)
        fires[batches[order][1:][same]] = True
        if not fires.any():
            return
        acting = fires[batches]
        components.join(samples[acting], batches[acting], len(fires))
        samples, batches = samples[~acting], batches[~acting]


class ParallelRuns:
    """Scans of several runs side by side, over batches of the same sizes: a class of one run is a class of its own.

    Args:
        counts: `[k]`, samples of each class.
        batch_size: Samples in a batch; the last one of an epoch may be short.
        runs: Number of runs.

    Attributes:
        met: `[runs, k, k]`, classes that some batch pushes apart.
        touched: `[runs, k, k]`, classes that share a batch.
    """

    def __init__(self, counts: Integers, batch_size: int, runs: int) -> None:
        self._labels, self._k, self._runs = np.repeat(np.arange(len(counts)), counts), len(counts), runs
        self._samples = len(self._labels)
        self._batches = -(-self._samples // batch_size)  # in an epoch
        run = np.arange(runs)[:, None]
        self._places = (np.arange(self._samples) // batch_size + run * self._batches).ravel()  # the batch of each
        classes = (self._labels + run * self._k).ravel()
        self._components, self._as_stated = Components(classes, runs * self._k), Components(classes, runs * self._k)
        self.met = np.broadcast_to(np.eye(self._k, dtype=bool), (runs, self._k, self._k)).copy()
        self.touched = self.met.copy()
        self._single: list[tuple[Integers, Integers]] = []  # batches of a single class: samples, and their batches

    def add_epoch(self, order: Integers) -> None:
        """One more epoch of every run, which takes its samples in the order `[runs, samples]`."""
        samples = (order + np.arange(self._runs)[:, None] * self._samples).ravel()
        groups = self._places * self._k + self._labels[order].ravel()  # the rows of one class in one batch
        number = self._runs * self._batches * self._k
        counts = np.bincount(groups, minlength=number)
        by_batch = counts.reshape(-1, self._k)
        mixed = ((by_batch > 0).sum(1) > 1)[self._places]
        several = counts[groups] > 1
        self._as_stated.join(samples[several], groups[several], number)
        self._components.join(samples[several & mixed], groups[several & mixed], number)
        single = ~mixed & (counts[groups] > 2)  # two rows are free
        self._single.append((samples[single], self._places[single] + len(self._single) * self._runs * self._batches))
        by_run = by_batch.reshape(self._runs, self._batches, self._k)
        present, several_rows = ((by_run > least).astype(np.float32) for least in (0, 1))
        pushed = np.matmul(several_rows.transpose(0, 2, 1), present) > 0
        self.met |= pushed | pushed.transpose(0, 2, 1)
        self.touched |= np.matmul(present.transpose(0, 2, 1), present) > 0

    def connected(self) -> tuple[Flags, Flags]:
        """`[runs, k]`, whether each class is connected after all epochs: exactly, and as stated in the paper."""
        samples, batches = (np.concatenate(parts) for parts in zip(*self._single, strict=True))
        close_rows(self._components, samples, batches)
        exact, as_stated = (
            each.pieces().reshape(self._runs, self._k) == 1 for each in (self._components, self._as_stated)
        )
        return exact, as_stated
