"""Samples that are added to the batches of a scheme."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from orthoframe.batches._labels import Integers, Labels
from orthoframe.batches._repair import mend
from orthoframe.batches._schemes import members_of_classes

Binding = Literal["none", "fixed", "present", "redrawn", "random"]
"""- `none`: nothing is added.
- `fixed`: the same example of each class in every batch, the paper's batch-binding.
- `present`: a class's example only in batches that already hold the class and are not connected without it, a guest in
  batches of a single class, and what class pairs need to meet: the cheapest that certifies every epoch.
- `redrawn`: a fresh example of each class in every batch; a control of equal size.
- `random`: as many random samples in every batch; a control of equal size.
"""


def choose_examples(
    labels: Labels,
    classes: Sequence[Any] | None,
    per_class: int,
    examples: Mapping[Any, int | Sequence[int]] | None,
    random: Generator,
) -> dict[int, Integers]:
    """The binding examples of each bound class: those that the user gave, others drawn.

    Raises:
        ValueError: For a class that does not exist, too few samples, or an example of another class.
    """
    number_of = {name: c for c, name in enumerate(labels.names)}
    wanted = labels.names if classes is None else classes
    for name in [*wanted, *(examples or {})]:
        if name not in number_of:
            raise ValueError(f"there is no class {name!r} among the labels; classes are {_some(labels.names)}")
    unbound = [name for name in examples or {} if name not in wanted]
    if unbound:
        raise ValueError(f"examples were given for class {unbound[0]!r}, which is not bound")
    members = members_of_classes(labels)
    chosen: dict[int, Integers] = {}
    for name in wanted:
        c = number_of[name]
        # Drawn for each class, also where it is given: what one class gets does not depend on another.
        drawn = random.permutation(members[c])[:per_class]
        given = None if examples is None else examples.get(name)
        if given is not None:
            drawn = np.atleast_1d(np.asarray(given))
            if drawn.dtype.kind not in "iu" or not np.isin(drawn, members[c]).all():
                raise ValueError(f"the examples {given!r} of class {name!r} must be samples of that class")
        if given is None and len(drawn) < per_class:
            raise ValueError(
                f"class {name!r} has {len(members[c])} samples, and per_class={per_class}; use at most that many"
            )
        if len(np.unique(drawn)) != per_class:
            raise ValueError(f"class {name!r} was given {len(np.unique(drawn))} examples, and per_class={per_class}")
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
    """Add what the binding says to each batch; `random` decides what is redrawn."""
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
        added = _redrawn(labels, len(batches), examples, random)
    return [np.concatenate([batch, extra]) for batch, extra in zip(batches, added, strict=True)]


def _redrawn(labels: Labels, number: int, examples: dict[int, Integers], random: Generator) -> Integers:
    """For each batch, as many different samples of each bound class as there are examples of it."""
    members = members_of_classes(labels)
    columns = []
    for c, chosen in examples.items():
        if len(chosen) == 1:
            picks = random.integers(len(members[c]), size=(number, 1))
        else:
            picks = np.stack([random.permutation(len(members[c]))[: len(chosen)] for _ in range(number)])
        columns.append(members[c][picks])
    return np.concatenate(columns, axis=1)


def _some(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
