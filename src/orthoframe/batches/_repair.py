"""The fewest samples to add to batches so that the orthogonal frame becomes their only optimum."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from orthoframe._rows import Integers, Labels
from orthoframe.batches._lists import index_lists
from orthoframe.batches._scan import Components, Flags, Scan, SingleClass, close, scan
from orthoframe.options import check_count

# Batches that are considered for bringing class pairs together: those with the most classes.
_CANDIDATES = 256


def repair(labels: Sequence[Any] | NDArray[Any], batches: Iterable[Any], *, views: int = 1) -> list[Integers]:
    """Add samples to batches until `certify` holds, for the denominators `all` and `class-average`.

    First each class is connected: a sample of another class goes into each batch of a single class that does not
    collapse, and one representative of a class into every other batch that holds it and is not connected yet (a star: a
    chain would converge far more slowly). If batches are disjoint, no list of additions is shorter. Then class pairs
    that are not pushed apart are brought together, greedily: finding the shortest list is NP-hard.

    Args:
        labels: `[samples]`, integers or strings.
        batches: Lists of sample indices.
        views: Rows that each index stands for.

    Returns:
        The batches, in their order, with additions at the end of each.

    Raises:
        ValueError: For indices out of range, or if there is no batch to add to.

    Examples:
        >>> [batch.tolist() for batch in repair([0, 0, 1, 1], [[0, 2], [1, 3]])]
        [[0, 2], [1, 3, 0, 2]]
    """
    return mend(Labels.of(labels), list(index_lists(batches)), check_count("views", views), None)


def mend(labels: Labels, batches: list[Integers], views: int, representatives: Integers | None) -> list[Integers]:
    """`repair`, with a given representative `[k]` of each class."""
    found = scan(labels, batches, views)
    if len(labels.names) and not any(map(len, batches)):
        raise ValueError("there is no batch to add samples to; give at least one that is not empty")
    additions: list[list[int]] = [[] for _ in batches]
    components = found.components.copy()
    mended = [batch.number for batch in _mends(components, found.single)]
    _bring_guests(found, batches, additions, mended, components, representatives)
    _tie(found, batches, additions, views, components, representatives)
    return _cover_pairs(labels, joined(batches, additions), views, representatives)


def joined(batches: list[Integers], additions: list[list[int]]) -> list[Integers]:
    """Batches with their additions at the end."""
    return [
        np.concatenate([batch, np.array(added, dtype=batch.dtype)]) if added else batch
        for batch, added in zip(batches, additions, strict=True)
    ]


def additions_to_connect(found: Scan) -> int:
    """How many additions `repair` makes to connect every class, without making them."""
    components = found.components.copy() if found.single else found.components
    mends = sum(1 for _ in _mends(components, found.single))
    pieces = components.pieces()
    unseen, alone = map(len, _homeless(found, pieces))
    guests = min(mends, unseen)
    unseen, alone = unseen - guests, max(0, alone - (mends - guests))
    # Where one homeless class is guest of another, one addition houses both.
    housing = unseen + (max(0, alone - unseen) + 1) // 2
    return mends + int(np.maximum(pieces - 1, 0).sum()) + housing


def _mends(components: Components, single: list[SingleClass]) -> Iterator[SingleClass]:
    """Batches of one class to put a guest into, the most scattered first; each joins what it holds.

    A mend may make others needless, but only such as share pieces with it, directly or by others: in each round, one
    batch of every such cluster is mended.
    """
    waiting = single
    while True:
        waiting, scattered, clusters = _clusters(components, waiting)
        if not waiting:
            return
        order = np.lexsort((-scattered, clusters))
        first = order[np.flatnonzero(np.diff(clusters[order], prepend=-1))]
        chosen = [waiting[number] for number in first]
        sizes = [len(batch.samples) for batch in chosen]
        samples, owners = np.concatenate([b.samples for b in chosen]), np.repeat(np.arange(len(chosen)), sizes)
        components.join(samples, owners, len(chosen))
        taken = set(first.tolist())
        waiting = [batch for number, batch in enumerate(waiting) if number not in taken]
        close(components, waiting)
        yield from chosen


def _clusters(components: Components, single: list[SingleClass]) -> tuple[list[SingleClass], Integers, Integers]:
    """Batches that hold several pieces, how many each, and a number that is equal for batches with pieces in common."""
    if not single:
        return [], np.empty(0, np.int64), np.empty(0, np.int64)
    sizes = [len(batch.samples) for batch in single]
    owners = np.repeat(np.arange(len(single)), sizes)
    _, pieces = np.unique(components.roots(np.concatenate([b.samples for b in single])), return_inverse=True)
    held = np.unique(owners * (int(pieces.max()) + 1) + pieces)
    owners, pieces = np.divmod(held, int(pieces.max()) + 1)
    scattered = np.bincount(owners, minlength=len(single))
    total = len(single) + int(pieces.max()) + 1
    shared = csr_array((np.ones(len(held), np.int8), (owners, len(single) + pieces)), shape=(total, total))
    clusters = connected_components(shared, directed=False)[1][: len(single)]
    keep = scattered > 1
    return [b for b, several in zip(single, keep, strict=True) if several], scattered[keep], clusters[keep]


def _homeless(found: Scan, pieces: Integers) -> tuple[list[int], list[int]]:
    """Classes in several pieces without a batch in which an added row would find company: never seen, or seen alone."""
    homeless = (pieces > 1) & ~found.shared
    seen = np.bincount(found.labels.classes[found.seen], minlength=len(pieces)) > 0
    return np.flatnonzero(homeless & ~seen).tolist(), np.flatnonzero(homeless & seen).tolist()


def _bring_guests(
    found: Scan,
    batches: list[Integers],
    additions: list[list[int]],
    mended: list[int],
    components: Components,
    representatives: Integers | None,
) -> None:
    """A sample of another class for each mended batch; homeless classes first, for they need a batch anyway."""
    classes, k = found.labels.classes, len(found.labels.names)
    samples = _first_samples(classes, k) if representatives is None else representatives
    unseen, alone = _homeless(found, components.pieces())
    met = found.met.copy()
    for number in mended:
        host = int(classes[batches[number][0]])
        if unseen or alone:
            guest = (unseen or alone).pop()
        else:  # of the classes that are not pushed away from the host yet, if there is one
            guest = int(np.argmin(met[host])) if not met[host].all() else (host + 1) % k
        met[host, guest] = met[guest, host] = True
        # Where there is only one class, a row of the batch itself, once more, makes it collapse too.
        additions[number].append(int(samples[guest] if k > 1 else batches[number][0]))
    homes = {int(classes[batch[0]]): number for number, batch in enumerate(batches) if len(batch) == 1}
    while unseen or alone:
        guest = (unseen or alone).pop()
        if alone:
            number = homes[alone.pop()]
        else:
            number = next(
                (n for n, batch in enumerate(batches) if (classes[batch] != guest).any()), homes.get(guest, 0)
            )
        additions[number].append(int(samples[guest] if k > 1 else batches[number][0]))


def _tie(
    found: Scan,
    batches: list[Integers],
    additions: list[list[int]],
    views: int,
    components: Components,
    representatives: Integers | None,
) -> None:
    """Put a representative of each class into a batch of each of its other pieces."""
    classes = found.labels.classes
    roots = components.roots()
    # Every batch of two rows or more now holds two classes, or rows that coincide: an added row joins them.
    batch_of = np.full(int(roots.max(initial=0)) + 1, -1)
    for number, batch in enumerate(joined(batches, additions)):
        if len(batch) * views > 1:
            batch_of[roots[batch]] = number
    order = np.argsort(classes, kind="stable")
    for members in np.split(order, np.cumsum(found.labels.counts)[:-1]):
        pieces, first, sizes = np.unique(roots[members], return_index=True, return_counts=True)
        if len(pieces) < 2:
            continue
        somewhere = batch_of[pieces] >= 0
        if representatives is None:
            centre = int(np.argmax(np.where(somewhere, sizes, 0)))
            representative = int(members[first[centre]])
        else:
            representative = int(representatives[classes[members[0]]])
            centre = int(np.flatnonzero(pieces == roots[representative])[0])
        base = int(batch_of[pieces[centre if somewhere[centre] else int(np.argmax(somewhere))]])
        for piece in range(len(pieces)):
            if piece == centre:
                continue
            if somewhere[piece]:
                additions[int(batch_of[pieces[piece]])].append(representative)
            else:  # in no batch, or alone in one: it comes to the others
                additions[base].append(int(members[first[piece]]))


def _first_samples(classes: Integers, k: int) -> Integers:
    samples = np.zeros(k, dtype=np.int64)
    samples[classes[::-1]] = np.arange(len(classes))[::-1]
    return samples


def _cover_pairs(
    labels: Labels, batches: list[Integers], views: int, representatives: Integers | None = None
) -> list[Integers]:
    """Add samples, one after the other, each where it brings the most missing pairs together.

    Two classes are pushed apart by a batch in which one of them has two rows. A move puts one row, or two, of a class
    into a batch; the move with the most new pairs for each row is made, until no pair is missing.

    Args:
        labels: The classes.
        batches: Lists of sample indices, at least one of them not empty.
        views: Rows that each index stands for.
        representatives: `[k]`, the sample of each class that is added (default: its first).

    Returns:
        The batches with additions at the end.
    """
    missing = ~scan(labels, batches, views).met
    if not missing.any():
        return batches
    classes, k = labels.classes, len(labels.names)
    samples = representatives if representatives is not None else np.unique(classes, return_index=True)[1]
    places = _candidate_batches(batches, classes, missing)
    rows = np.stack([np.bincount(classes[batches[place]], minlength=k) for place in places]) * views
    batches = list(batches)
    while missing.any():
        place, guest, number = _best_move(rows, missing, views)
        added = np.full(number, samples[guest], dtype=batches[places[place]].dtype)
        batches[places[place]] = np.concatenate([batches[places[place]], added])
        rows[place, guest] += number * views
        counts = rows[place]
        apart = (np.minimum.outer(counts, counts) > 0) & (np.maximum.outer(counts, counts) > 1)
        missing &= ~apart
    return batches


def _candidate_batches(batches: list[Integers], classes: Integers, missing: Flags) -> list[int]:
    """The batches with the most classes, and one for each class that misses another."""
    held = [np.unique(classes[batch]) for batch in batches]
    order = np.argsort([len(names) for names in held], kind="stable")[::-1].tolist()
    places = order[:_CANDIDATES]
    wanted = np.asarray(missing.any(axis=1))
    for names in (held[place] for place in places):
        wanted[names] = False
    for place in order[_CANDIDATES:]:
        if wanted[held[place]].any():
            places.append(place)
            wanted[held[place]] = False
    return [int(place) for place in places]


def _best_move(rows: Integers, missing: Flags, views: int) -> tuple[int, int, int]:
    """The place, the class and the number of samples that bring the most missing pairs together for each sample."""
    wanted = missing.astype(np.float32)
    with_any = (rows > 0).astype(np.float32) @ wanted
    with_several = (rows > 1).astype(np.float32) @ wanted
    # One sample: it meets whoever has two rows, or everybody if it makes two rows of its own class.
    becomes_several = (rows + views > 1) & (rows < 2)
    one = np.where(becomes_several, with_any, np.where(rows == 0, with_several, 0.0))
    two = np.where((rows == 0) & (views == 1), with_any / 2, 0.0)
    if max(one.max(), two.max()) == 0:  # the missing classes are in no batch at all: one of them must come
        return 0, int(np.argmax(missing.any(axis=1))), 1
    number = 1 if one.max() >= two.max() else 2
    place, guest = np.unravel_index(int(np.argmax(one if number == 1 else two)), one.shape)
    return int(place), int(guest), number
