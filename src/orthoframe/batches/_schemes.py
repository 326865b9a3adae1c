"""How an epoch is cut into batches, and what is added to them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from orthoframe._rows import Integers, Labels
from orthoframe.batches._repair import mend
from orthoframe.errors import Option, OptionError
from orthoframe.options import Binding, Scheme


def cut(
    labels: Labels, batch_size: int, scheme: Scheme, random: Generator, drop_last: bool, drawn: Integers | None = None
) -> list[Integers]:
    """Cut an epoch into batches, before binding: all samples, or those that were drawn."""
    if scheme == "full":
        return [np.arange(len(labels.classes))]
    if scheme == "balanced":
        return _balanced(labels, batch_size, random)
    order = random.permutation(len(labels.classes)) if drawn is None else _spread(labels, drawn, random)
    if scheme == "rare-hub":
        batches = _rare_hub(labels, batch_size, order, random)
    else:
        batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    if drop_last and batches and len(batches[-1]) < batch_size:
        batches.pop()
    return batches


def _spread(labels: Labels, drawn: Integers, random: Generator) -> Integers:
    """A random order in which the rows of each class are equally far apart, so that batches have its share of them.

    It begins at a random place, so that every row is as likely as any other to be in the last batch.
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
) -> dict[int, Integers]:
    """Choose the binding examples of each bound class: those in `examples`, and random ones for other classes."""
    examples = examples or {}
    number_of = {name: c for c, name in enumerate(labels.names)}
    wanted = labels.names if bound_classes is None else bound_classes
    for name in [*wanted, *examples]:
        if name not in number_of:
            known = ", ".join(map(repr, labels.names[:8])) + (", ..." if len(labels.names) > 8 else "")
            raise OptionError(f"there is no class {name!r} among the labels; classes are {known}")
    for name in examples:
        if name not in wanted:
            raise OptionError(Option("examples"), f" were given for class {name!r}, which is not bound")
    members = labels.members()
    chosen: dict[int, Integers] = {}
    for name in wanted:
        c = number_of[name]
        # Drawn even where examples are given, so that the examples of one class do not depend on another.
        drawn = random.permutation(members[c])[:bound_examples]
        given = examples.get(name)
        if given is not None:
            drawn = np.atleast_1d(np.asarray(given))
            if drawn.dtype.kind not in "iu" or not np.isin(drawn, members[c]).all():
                raise OptionError(f"the examples {given!r} of class {name!r} must be samples of that class")
        found = len(np.unique(drawn))
        if found != bound_examples:
            has = f"has {found} samples" if given is None else f"was given {found} examples"
            use = f"; use {'at most ' if given is None else ''}{found}"
            raise OptionError(f"class {name!r} {has}, and ", Option("bound_examples", bound_examples), use)
        chosen[c] = drawn
    return chosen


def bind(
    labels: Labels,
    batches: list[Integers],
    binding: Binding,
    examples: dict[int, Integers],
    views: int,
    random: Generator,
) -> list[Integers]:
    """Add to each batch what the binding asks for; `random` is for what is drawn anew in each batch."""
    if binding == "none" or not examples:
        return batches
    if binding == "present":
        return mend(labels, batches, views, np.array([examples[c][0] for c in range(len(labels.names))]))
    everything = np.concatenate(list(examples.values()))
    if binding == "fixed":
        return [np.concatenate([batch, everything]) for batch in batches]
    if binding == "random":
        added = random.integers(len(labels.classes), size=(len(batches), len(everything)))
    else:
        members = labels.members()
        columns = [_draws(members[c], len(chosen), len(batches), random) for c, chosen in examples.items()]
        added = np.concatenate(columns, axis=1)
    return [np.concatenate([batch, extra]) for batch, extra in zip(batches, added, strict=True)]


def _draws(members: Integers, number: int, batches: int, random: Generator) -> Integers:
    """`[batches, number]`, members that are distinct within each batch."""
    if number == 1:
        return members[random.integers(len(members), size=(batches, 1))]
    drawn = [random.permutation(members)[:number] for _ in range(batches)]
    return np.array(drawn, dtype=members.dtype).reshape(batches, number)  # also without batches
