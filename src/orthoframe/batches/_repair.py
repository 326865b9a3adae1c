"""Few samples to add to batches so that the orthogonal frame becomes their only optimum."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import connected_components

from orthoframe._rows import AnyLabels, Integers, Labels
from orthoframe.batches._lists import end_to_end, index_lists
from orthoframe.batches._pairs import Flags, check_table
from orthoframe.batches._scan import Components, Scan, SingleClass, close, scan
from orthoframe.errors import Option
from orthoframe.options import check_count

# Batches that are considered for bringing class pairs together: those with the most classes.
_CANDIDATES = 256


def repair(labels: AnyLabels, batches: Iterable[Any], *, views: int = 1) -> list[Integers]:
    """Add samples to batches until `certify` holds, for the denominators `all` and `class-average`.

    First each class is connected: each batch of a single class that would not collapse gets a sample of another class,
    and a representative of each class is added to every batch whose rows of the class are not connected yet (a star,
    because training converges far more slowly along a chain). If batches are disjoint, no fewer additions connect every
    class. Then class pairs that are not pushed apart are brought together greedily, because finding the fewest
    additions is NP-hard. So the sum of both is not always the least: with up to five samples in disjoint batches, it is
    at most one more.

    Args:
        labels: `[samples]`, integers or strings.
        batches: Lists of sample indices, or the path of a file of JSON lines.
        views: Rows per index.

    Returns:
        The batches in the same order, with the additions at the end of each.

    Raises:
        ValueError: For an index out of range, or if there is no batch to add to.
        OptionError: For more than 4,096 classes.
        TypeError: For labels or batches of a wrong type.
        InputError: For a file that cannot be used.

    Examples:
        >>> [batch.tolist() for batch in repair([0, 0, 1, 1], [[0, 2], [1, 3]])]
        [[0, 2], [1, 3, 0, 2]]
    """
    return mend(Labels.of(labels), list(index_lists(batches)), check_count("views", views), None)


def mend(labels: Labels, batches: list[Integers], views: int, representatives: Integers | None) -> list[Integers]:
    """`repair`, optionally with representatives `[k]` of the classes."""
    check_table(len(labels.names), "repair", "bind the classes with ", Option("binding", "fixed"))
    views = min(views, 2)  # more of them change nothing, and products must not overflow
    result = scan(labels, batches, views)
    if len(labels.names) and not any(map(len, batches)):
        raise ValueError("there is no batch to add samples to; at least one must not be empty")
    samples = representatives
    if samples is None:
        samples = np.array([members[0] for members in labels.members()], dtype=np.int64)
    components = deepcopy(result.components)
    mended = [batch.number for batch in _mends(components, result.single.values())]
    batches = _extended(batches, _guests(result, batches, mended, components, samples))
    batches = _extended(batches, _ties(labels, batches, views, components, representatives))
    return _cover_pairs(labels, batches, views, samples)


def _extended(batches: list[Integers], additions: Iterable[tuple[int, int]]) -> list[Integers]:
    """Batches with additions, pairs of a batch and a sample, at the end of each."""
    added: dict[int, list[int]] = defaultdict(list)
    for number, sample in additions:
        added[number].append(sample)
    return [
        np.concatenate([batch, np.array(added[number], dtype=batch.dtype)]) if number in added else batch
        for number, batch in enumerate(batches)
    ]


def additions_to_connect(result: Scan) -> int:
    """The number of additions that `repair` makes to connect every class."""
    components = deepcopy(result.components) if result.single else result.components
    mends = len(list(_mends(components, result.single.values())))
    pieces = components.pieces()
    unseen, alone = map(len, _homeless(result, pieces))
    guests = min(mends, unseen)
    unseen, alone = unseen - guests, max(0, alone - (mends - guests))
    # If one homeless class is the guest of another, one addition is enough for both.
    housing = unseen + (max(0, alone - unseen) + 1) // 2
    return mends + int(np.maximum(pieces - 1, 0).sum()) + housing


def _mends(components: Components, single: Iterable[SingleClass]) -> Iterator[SingleClass]:
    """Single-class batches to add another class to, those with the most pieces first; `components` is updated.

    Mending a batch may make others needless, but only in the same cluster (batches that share pieces, directly or
    through others), so each round mends one batch per cluster.
    """
    waiting = list(single)
    while waiting:
        scattered, clusters = _clusters(components, waiting)
        order = np.lexsort((-scattered, clusters))
        first = order[np.flatnonzero(np.diff(clusters[order], prepend=-1))]
        taken = set(first[scattered[first] > 1].tolist())
        if not taken:
            return
        chosen = [waiting[number] for number in sorted(taken)]
        components.join(*end_to_end([batch.samples for batch in chosen]))
        waiting = [batch for number, batch in enumerate(waiting) if number not in taken]
        close(components, waiting)
        yield from chosen


def _clusters(components: Components, single: list[SingleClass]) -> tuple[Integers, Integers]:
    """The number of pieces in each batch, and the number of its cluster."""
    samples, owners, _ = end_to_end([batch.samples for batch in single])
    _, pieces = np.unique(components.numbers[samples], return_inverse=True)
    holds = csr_array((np.ones(len(samples), dtype=bool), (owners, pieces)))
    graph = block_array([[None, holds], [holds.T, None]])
    return np.diff(holds.indptr), connected_components(graph, directed=False)[1][: len(single)]


def _homeless(result: Scan, pieces: Integers) -> tuple[list[int], list[int]]:
    """Disconnected classes that share no batch with another row: those in no batch, and those alone in one."""
    homeless = (pieces > 1) & ~result.shared
    seen = np.bincount(result.labels.classes[result.seen], minlength=len(pieces)) > 0
    return np.flatnonzero(homeless & ~seen).tolist(), np.flatnonzero(homeless & seen).tolist()


def _guests(
    result: Scan, batches: list[Integers], mended: list[int], components: Components, samples: Integers
) -> list[tuple[int, int]]:
    """Additions of another class to each mended batch; homeless classes first, because they need a batch anyway."""
    classes, k = result.labels.classes, len(result.labels.names)
    unseen, alone = _homeless(result, components.pieces())
    met, placed = result.met.rows(np.arange(k)), []
    for number in mended:
        host = int(classes[batches[number][0]])
        if unseen or alone:
            guest = (unseen or alone).pop()
        else:  # if possible, a class that is not pushed away from the host yet
            guest = int(np.argmin(met[host])) if not met[host].all() else (host + 1) % k
        met[host, guest] = met[guest, host] = True
        placed.append((number, guest))
    homes = {int(classes[batch[0]]): number for number, batch in enumerate(batches) if len(batch) == 1}
    while unseen or alone:
        guest = (unseen or alone).pop()
        if alone:
            number = homes[alone.pop()]
        else:
            others = (number for number, batch in enumerate(batches) if (classes[batch] != guest).any())
            number = next(others, homes.get(guest, 0))
        placed.append((number, guest))
    # If there is only one class, repeating a row of the batch makes it collapse too.
    return [(number, int(samples[guest] if k > 1 else batches[number][0])) for number, guest in placed]


def _ties(
    labels: Labels, batches: list[Integers], views: int, components: Components, representatives: Integers | None
) -> Iterator[tuple[int, int]]:
    """Additions of a representative of each class to one batch of each of its other pieces."""
    numbers = components.numbers
    # Every batch of two or more rows now holds two classes or rows that coincide, so an added row joins them.
    batch_of = np.full(int(numbers.max(initial=0)) + 1, -1)
    for number, batch in enumerate(batches):
        if len(batch) * views > 1:
            batch_of[numbers[batch]] = number
    for c, members in enumerate(labels.members()):
        pieces, first, sizes = np.unique(numbers[members], return_index=True, return_counts=True)
        if len(pieces) < 2:
            continue
        somewhere = batch_of[pieces] >= 0
        if representatives is None:
            centre = int(np.argmax(np.where(somewhere, sizes, 0)))
            representative = int(members[first[centre]])
        else:
            representative = int(representatives[c])
            centre = int(np.flatnonzero(pieces == numbers[representative])[0])
        base = int(batch_of[pieces[centre if somewhere[centre] else int(np.argmax(somewhere))]])
        for piece in range(len(pieces)):
            if piece == centre:
                continue
            if somewhere[piece]:
                yield int(batch_of[pieces[piece]]), representative
            else:  # in no batch or alone in one: add it to a batch of the others
                yield base, int(members[first[piece]])


def _cover_pairs(labels: Labels, batches: list[Integers], views: int, samples: Integers) -> list[Integers]:
    """Bring together the class pairs that no batch pushes apart, greedily.

    A batch pushes two classes apart if one of them has at least two rows in it. A move adds one or two samples of a
    class (always the same one, from `samples`) to a batch; the move with the most new pairs per sample is made until no
    pair is missing.
    """
    missing = ~scan(labels, batches, views).met.rows(np.arange(len(labels.names)))
    if not missing.any():
        return batches
    places = _candidate_batches(batches, labels.classes, missing)
    held = [np.bincount(labels.classes[batches[place]], minlength=len(missing)) for place in places]
    moves, batches = _Moves(np.stack(held) * views, missing, views), list(batches)
    while missing.any():
        place, guest, number = moves.best()
        batch = batches[places[place]]
        batches[places[place]] = np.append(batch, np.full(number, samples[guest], dtype=batch.dtype))
        moves.make(place, guest, number)
    return batches


def _candidate_batches(batches: list[Integers], classes: Integers, missing: Flags) -> list[int]:
    """The batches with the most classes, and one batch of each class in a missing pair."""
    held = [np.unique(classes[batch]) for batch in batches]
    order: list[int] = np.argsort([len(names) for names in held], kind="stable")[::-1].tolist()
    places = order[:_CANDIDATES]
    uncovered = np.asarray(missing.any(axis=1))
    uncovered[np.concatenate([held[place] for place in places])] = False
    for place in order[_CANDIDATES:]:
        if uncovered[held[place]].any():
            places.append(place)
            uncovered[held[place]] = False
    return places


class _Moves:
    """Additions of one or two samples of a class to a batch, and how many of the missing pairs each brings together.

    Args:
        rows: `[batches, k]`, rows of each class; updated, as `missing` is.
        missing: `[k, k]`, pairs of classes that no batch pushes apart.
        views: Rows per sample, at most 2.
    """

    def __init__(self, rows: Integers, missing: Flags, views: int) -> None:
        self._rows, self._missing, self._views = rows, missing, views
        pairs = missing.astype(np.float32)
        # Of the classes that a class misses, how many a batch holds, and how many with two rows.
        self._with_any, self._with_several = ((rows > least).astype(np.float32) @ pairs for least in (0, 1))

    def best(self) -> tuple[int, int, int]:
        """The batch, the class and the number of samples with the most new pairs per sample."""
        rows = self._rows
        # One sample meets the classes that have two rows, or all classes if it is the second row of its own.
        becomes_several = (rows + self._views > 1) & (rows < 2)
        one = np.where(becomes_several, self._with_any, np.where(rows == 0, self._with_several, 0.0))
        two = np.where((rows == 0) & (self._views == 1), self._with_any / 2, 0.0)
        if max(one.max(), two.max()) == 0:  # the missing classes are in none of these batches: add one of them
            return 0, int(np.argmax(self._missing.any(axis=1))), 1
        number = 1 if one.max() >= two.max() else 2
        place, guest = np.unravel_index(int(np.argmax(one if number == 1 else two)), one.shape)
        return int(place), int(guest), number

    def make(self, place: int, guest: int, number: int) -> None:
        """Add samples, after which only pairs of their class and of this batch differ."""
        before = self._rows[place, guest]
        after = self._rows[place, guest] = before + number * self._views
        met = np.flatnonzero(self._missing[guest] & (self._rows[place] > (0 if after > 1 else 1)))
        for least, count in ((0, self._with_any), (1, self._with_several)):
            if before <= least < after:
                count[place] += self._missing[guest]
            held = self._rows > least
            count[:, guest] -= held[:, met].sum(1)
            count[:, met] -= held[:, [guest]]
        self._missing[guest, met] = self._missing[met, guest] = False
