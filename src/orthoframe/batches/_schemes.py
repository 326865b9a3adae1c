"""How an epoch is cut into batches, before anything is bound to them."""

from typing import Literal

import numpy as np
from numpy.random import Generator

from orthoframe.batches._labels import Integers, Labels

Scheme = Literal["full", "partition", "reshuffle", "balanced", "rare-hub"]
"""- `full`: one batch that holds everything.
- `partition`: batches drawn once and the same in every epoch.
- `reshuffle`: a new partition in each epoch.
- `balanced`: every batch holds the same number of each class, `batch_size // classes`. An epoch lasts until the largest
  class has been shown; smaller classes are shown again and again, reshuffled each time, and no sample is left out.
- `rare-hub`: reshuffled, but each rare class (fewer samples than there are batches, at most half a batch) is whole in
  one batch, and so connected, if others are in that batch too.
"""


def cut(labels: Labels, batch_size: int, scheme: Scheme, random: Generator, drop_last: bool) -> list[Integers]:
    """The batches of an epoch; `random` decides all that is random."""
    samples = len(labels.classes)
    if scheme == "full":
        return [np.arange(samples)]
    if scheme == "balanced":
        return _balanced(labels, batch_size, random)
    order = random.permutation(samples)
    if scheme == "rare-hub":
        batches = _rare_hub(labels, batch_size, order, random)
    else:
        batches = [order[start : start + batch_size] for start in range(0, samples, batch_size)]
    if drop_last and batches and len(batches[-1]) < batch_size:
        batches.pop()
    return batches


def _balanced(labels: Labels, batch_size: int, random: Generator) -> list[Integers]:
    counts = labels.counts
    each = batch_size // len(counts)
    number = -(-int(counts.max()) // each)
    columns = []
    for members in members_of_classes(labels):
        rounds = -(-number * each // len(members))
        shown = np.concatenate([random.permutation(members) for _ in range(rounds)])
        columns.append(shown[: number * each].reshape(number, each))
    return list(np.concatenate(columns, axis=1))


def _rare_hub(labels: Labels, batch_size: int, order: Integers, random: Generator) -> list[Integers]:
    counts = labels.counts
    number = -(-len(order) // batch_size)
    rare = (counts < number) & (counts <= batch_size // 2) & (counts > 1)
    hubs: list[list[Integers]] = [[] for _ in range(number)]
    room = np.full(number, batch_size)
    members = members_of_classes(labels)
    # The largest first, each into the emptiest batch; a shuffle decides between equals.
    for c in sorted(random.permutation(np.flatnonzero(rare)).tolist(), key=lambda c: -counts[c]):
        place = int(np.argmax(room))
        if room[place] < counts[c]:
            hubs.append([])
            room = np.append(room, batch_size)
            place = len(hubs) - 1
        hubs[place].append(members[c])
        room[place] -= counts[c]
    others = order[~rare[labels.classes[order]]]
    # Others fill the batches in their order, so that only the last ones are short.
    ends = np.minimum(np.cumsum(room), len(others))
    parts = np.split(others, ends[:-1])
    batches = [np.concatenate([*hub, part]) for hub, part in zip(hubs, parts, strict=True)]
    return [batch for batch in batches if len(batch)]


def members_of_classes(labels: Labels) -> list[Integers]:
    """The samples of each class."""
    order = np.argsort(labels.classes, kind="stable")
    return np.split(order, np.cumsum(labels.counts)[:-1])
