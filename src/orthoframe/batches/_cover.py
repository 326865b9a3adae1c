"""Class pairs that no batch pushes apart, brought together with few additions."""

import numpy as np
from numpy.typing import NDArray

from orthoframe.batches._labels import Integers, Labels
from orthoframe.batches._scan import scan

# Batches that are considered as places to meet: those with the most classes.
_PLACES = 256


def cover_pairs(
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
    places = _places(batches, classes, missing)
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


def _places(batches: list[Integers], classes: Integers, missing: NDArray[np.bool_]) -> list[int]:
    """The batches with the most classes, and one for each class that misses another."""
    held = [np.unique(classes[batch]) for batch in batches]
    order = np.argsort([len(names) for names in held], kind="stable")[::-1].tolist()
    places = order[:_PLACES]
    wanted = np.asarray(missing.any(axis=1))
    for names in (held[place] for place in places):
        wanted[names] = False
    for place in order[_PLACES:]:
        if wanted[held[place]].any():
            places.append(place)
            wanted[held[place]] = False
    return [int(place) for place in places]


def _best_move(rows: Integers, missing: NDArray[np.bool_], views: int) -> tuple[int, int, int]:
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
