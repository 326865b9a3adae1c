"""Which rows an epoch has, how they are cut into batches, and what is added to these."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from orthoframe._rows import Integers, Labels
from orthoframe.batches._repair import mend
from orthoframe.errors import Option, OptionError
from orthoframe.options import Binding

_BITS = 32  # of the fraction of a row; with them products of two lengths of arrays fit into 64 bits
_MOST_EPOCHS = 2**31  # up to which they do


class ClassDraws:
    """Endless streams of permutations, one per class, of which every epoch takes the next piece.

    Class c has the share s_c = n_c^p / sum of n_j^p of the n rows of an epoch, and so an expected n s_c rows. With p
    from 0 to 1 that is at least one: the smallest class has its share n_c / n or more, and a larger class no less.

    With the cumulative quotas Q_c = n (s_0 + ... + s_c), the classes up to c have round(e Q_c) rows in the first e
    epochs together, and a class has the difference of two such numbers. So every epoch has n rows in all, and what was
    shown of a class is always less than one row away from what was expected. It never falls: from one epoch to the next
    round(e Q_c) grows by Q_c rounded up or down, which is no less than Q_{c-1} rounded up, because Q_c >= Q_{c-1} + 1.

    Args:
        labels: The classes of the samples; at least one.
        power: p, from 0 to 1.
        key: Two words of 64 bits that decide the permutations.
    """

    def __init__(self, labels: Labels, power: float, key: Integers) -> None:
        self._members, self._counts = labels.members(), labels.counts.astype(np.int64)
        self._random = np.random.Philox(key=key)
        self._generator, self._start = Generator(self._random), self._random.state
        n, ones = len(labels.classes), np.arange(1, len(self._counts) + 1)
        weights = np.cumsum(self._counts.astype(np.float64) ** power)
        # What a class has beyond one row, so that roundings take that row from no class.
        beyond = np.clip(n * (weights / weights[-1]) - ones, 0, n - len(ones))
        beyond = np.maximum.accumulate(np.rint(beyond * 2.0**_BITS).astype(np.int64))
        self._ends = (ones << _BITS) + beyond

    def expected(self) -> NDArray[np.float64]:
        """`[k]`, rows of each class in an epoch, on average."""
        rows: NDArray[np.float64] = np.diff(self._ends, prepend=0) / 2.0**_BITS
        return rows

    def shown(self, epochs: int) -> Integers:
        """`[k]`, rows of each class in the first epochs together."""
        ends = self._ends if epochs < _MOST_EPOCHS else self._ends.astype(object)
        whole, fraction = ends >> _BITS, ends & ((1 << _BITS) - 1)
        return np.diff(whole * epochs + ((fraction * epochs + (1 << _BITS - 1)) >> _BITS), prepend=0)

    def epochs_to_show_all(self) -> int:
        """How many epochs it takes until every sample has been shown."""
        epochs = max(1, int(np.ceil((self._counts - 1) / self.expected()).max()))
        while (self.shown(epochs) < self._counts).any():  # two times at most, because all are within a row
            epochs += 1
        return epochs

    def rows(self, epoch: int) -> Integers:
        """The rows of an epoch, one class after the other."""
        first, last = self.shown(epoch).tolist(), self.shown(epoch + 1).tolist()
        pieces = []
        for c, members in enumerate(self._members):
            count = len(members)
            (start, skipped), (stop, left) = divmod(first[c], count), divmod(last[c], count)
            if start == stop:
                pieces.append(self._permutation(c, start)[skipped:left])
                continue
            if skipped:
                pieces.append(self._permutation(c, start)[skipped:])
                start += 1
            # The order inside an epoch is the plan's, so that whole permutations need not be drawn.
            pieces += [members] * (stop - start)
            if left:
                pieces.append(self._permutation(c, stop)[:left])
        return np.concatenate(pieces)

    def _permutation(self, c: int, number: int) -> Integers:
        """A permutation of a class; its number and class are the upper words of the counter that it is drawn with."""
        low = (1 << 64) - 1
        self._start["state"]["counter"][:] = (0, number & low, number >> 64 & low, c)
        self._random.state = self._start
        return self._generator.permutation(self._members[c])


def draw_rows(chances: NDArray[np.float64], random: Generator) -> Integers:
    """As many rows as there are, in random order: each `rows * chance` times, rounded up or down at random."""
    samples = len(chances)
    order = random.permutation(samples)
    # Marks at equal distances, from a random start: each row gets those that fall into its part of the line.
    ends = np.minimum(np.cumsum(samples * chances[order]), samples)
    ends[-1] = samples  # whatever the sum was rounded to
    times = np.diff(np.floor(ends + random.random()), prepend=0.0).astype(np.int64)
    return random.permutation(np.repeat(order, times))


def draw_distinct(
    members: Integers, number: int, batches: int, random: Generator, chances: NDArray[np.float64] | None
) -> Integers:
    """`[batches, number]`, members that are distinct within each batch; with chances of all rows, by these."""
    part = None if chances is None else chances[members] / chances[members].sum()
    if number == 1:
        size = (batches, 1)
        drawn = random.integers(len(members), size=size) if part is None else random.choice(len(members), size, p=part)
        return members[drawn]
    if part is None:
        rows = [random.permutation(members)[:number] for _ in range(batches)]
    else:
        rows = [random.choice(members, number, replace=False, p=part) for _ in range(batches)]
    return np.array(rows, dtype=members.dtype).reshape(batches, number)  # also without batches


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


def balanced(labels: Labels, batch_size: int, random: Generator) -> list[Integers]:
    """Batches with the same number of rows of each class."""
    counts = labels.counts
    each = batch_size // len(counts)
    number = -(-int(counts.max()) // each)
    columns = []
    for members in labels.members():
        rounds = -(-number * each // len(members))
        shown = np.concatenate([random.permutation(members) for _ in range(rounds)])
        columns.append(shown[: number * each].reshape(number, each))
    return list(np.concatenate(columns, axis=1))


def rare_hub(labels: Labels, batch_size: int, order: Integers, random: Generator) -> list[Integers]:
    """Batches of which one holds all samples of a rare class; the other samples fill them in the order."""
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


class BoundBatches(Sequence[Integers]):
    """Batches with the same rows at the end of each, added where a batch is asked for: together they take far more."""

    def __init__(self, batches: Sequence[Integers], everything: Integers) -> None:
        self._batches, self._everything = batches, everything

    def __len__(self) -> int:
        return len(self._batches)

    @overload
    def __getitem__(self, place: int) -> Integers: ...
    @overload
    def __getitem__(self, place: slice) -> "BoundBatches": ...
    def __getitem__(self, place: int | slice) -> "Integers | BoundBatches":
        if isinstance(place, slice):
            return BoundBatches(self._batches[place], self._everything)
        return np.concatenate([self._batches[place], self._everything])


def bind(
    labels: Labels,
    batches: list[Integers],
    binding: Binding,
    examples: dict[int, Integers],
    views: int,
    random: Generator,
    chances: NDArray[np.float64] | None,
) -> Sequence[Integers]:
    """Add the rows of the binding to each batch; `random` is for rows that are drawn anew in each batch."""
    if binding == "none" or not examples or not batches:
        return batches
    if binding == "present":
        return mend(labels, batches, views, np.array([examples[c][0] for c in range(len(labels.names))]))
    everything = np.concatenate(list(examples.values()))
    if binding == "fixed":
        return BoundBatches(batches, everything)
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
