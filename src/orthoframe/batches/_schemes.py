"""How an epoch is cut into batches, and what is added to them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from orthoframe._rows import Integers, Labels
from orthoframe.batches._draws import draw_distinct
from orthoframe.batches._repair import mend
from orthoframe.errors import Option, OptionError
from orthoframe.options import Binding, Scheme


def cut(
    labels: Labels,
    batch_size: int,
    scheme: Scheme,
    random: Generator,
    drop_last: bool,
    order: Callable[[Generator], Integers],
) -> list[Integers]:
    """Cut an epoch into batches, before binding; `order` gives its rows in a random order."""
    if scheme == "full":
        return [np.arange(len(labels.classes))]
    if scheme == "balanced":
        return _balanced(labels, batch_size, random)
    rows = order(random)
    if scheme == "rare-hub":
        batches = _rare_hub(labels, batch_size, rows, random)
    else:
        batches = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    if drop_last and batches and len(batches[-1]) < batch_size:
        batches.pop()
    return batches


def spread(labels: Labels, drawn: Integers, random: Generator) -> Integers:
    """A random order in which the rows of each class are equally far apart, so that every batch has its share of them.

    The order begins at a random row, so that every row is equally likely to be in the last batch.
    """
    drawn = random.permutation(drawn)
    drawn = drawn[np.argsort(labels.classes[drawn], kind="stable")]
    _, classes, counts = np.unique(labels.classes[drawn], return_inverse=True, return_counts=True)
    number = np.arange(len(drawn)) - (np.cumsum(counts) - counts)[classes]  # within the class
    places = (number + random.random(len(counts))[classes]) / counts[classes]
    return np.roll(drawn[np.argsort(places, kind="stable")], random.integers(max(1, len(drawn))))


def _balanced(labels: Labels, batch_size: int, random: Generator) -> list[Integers]:
    counts = labels.counts
    each = batch_size // len(counts)
    number = -(-int(counts.max()) // each)
    columns = []
    for members in labels.members():
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
    members = labels.members()
    # The largest first, each into the emptiest batch; ties are broken by a shuffle.
    for c in sorted(random.permutation(np.flatnonzero(rare)).tolist(), key=lambda c: -counts[c]):
        place = int(np.argmax(room))
        if room[place] < counts[c]:
            hubs.append([])
            room = np.append(room, batch_size)
            place = len(hubs) - 1
        hubs[place].append(members[c])
        room[place] -= counts[c]
    others = order[~rare[labels.classes[order]]]
    # The other samples fill the batches in order, so that only the last ones are short.
    ends = np.minimum(np.cumsum(room), len(others))
    parts = np.split(others, ends[:-1])
    batches = [np.concatenate([*hub, part]) for hub, part in zip(hubs, parts, strict=True)]
    return [batch for batch in batches if len(batch)]


def choose_examples(
    labels: Labels,
    bound_classes: Sequence[Any] | None,
    bound_examples: int,
    examples: Mapping[Any, int | Sequence[int]] | None,
    random: Generator,
    chances: NDArray[np.float64] | None,
) -> dict[int, Integers]:
    """Choose the binding examples of each bound class: those in `examples`, and random ones for other classes."""
    examples = examples or {}
    number_of = {name: c for c, name in enumerate(labels.names)}
    bound = labels.names if bound_classes is None else bound_classes
    for name in [*bound, *examples]:
        if name not in number_of:
            names = ", ".join(map(repr, labels.names[:8])) + (", ..." if len(labels.names) > 8 else "")
            raise OptionError(f"there is no class {name!r} among the labels; classes are {names}")
    for name in examples:
        if name not in bound:
            raise OptionError(Option("examples"), f" has class {name!r}, which is not bound")
    members = labels.members()
    chosen: dict[int, Integers] = {}
    for name in bound:
        c = number_of[name]
        of_class, rows = members[c], None
        if examples.get(name) is not None:
            rows = _checked_examples(name, examples[name], of_class, bound_examples)
        elif len(of_class) < bound_examples:
            option, use = Option("bound_examples", bound_examples), f"; use at most {len(of_class)}"
            raise OptionError(f"class {name!r} has {len(of_class)} samples, and ", option, use)
        # Drawn even for classes in `examples`, so that the examples of one class do not depend on another.
        if chances is None:
            drawn = random.permutation(of_class)[:bound_examples]
        else:
            drawn = draw_distinct(of_class, bound_examples, 1, random, chances)[0]
        chosen[c] = drawn if rows is None else rows
    return chosen


def _checked_examples(name: Any, examples: int | Sequence[int], members: Integers, bound_examples: int) -> Integers:
    rows = np.atleast_1d(np.asarray(examples))
    if rows.dtype.kind not in "iu" or not np.isin(rows, members).all():
        raise OptionError(f"the examples {examples!r} of class {name!r} must be samples of that class")
    number = len(np.unique(rows))
    if number != bound_examples:
        option = Option("bound_examples", bound_examples)
        raise OptionError(f"class {name!r} has {number} entries in examples, and ", option, f"; use {number}")
    return rows


def bind(
    labels: Labels,
    batches: list[Integers],
    binding: Binding,
    examples: dict[int, Integers],
    views: int,
    random: Generator,
    chances: NDArray[np.float64] | None,
) -> list[Integers]:
    """Add the rows of the binding to each batch; `random` is for rows that are drawn anew in each batch."""
    if binding == "none" or not examples:
        return batches
    if binding == "present":
        return mend(labels, batches, views, np.array([examples[c][0] for c in range(len(labels.names))]))
    everything = np.concatenate(list(examples.values()))
    if binding == "fixed":
        return [np.concatenate([batch, everything]) for batch in batches]
    if binding == "random" and chances is None:
        added = random.integers(len(labels.classes), size=(len(batches), len(everything)))
    else:
        if binding == "random":
            pools = [(np.arange(len(labels.classes)), 1)] * len(everything)
        else:
            members = labels.members()
            pools = [(members[c], len(rows)) for c, rows in examples.items()]
        columns = [draw_distinct(pool, number, len(batches), random, chances) for pool, number in pools]
        added = np.concatenate(columns, axis=1)
    return [np.concatenate([batch, extra]) for batch, extra in zip(batches, added, strict=True)]
