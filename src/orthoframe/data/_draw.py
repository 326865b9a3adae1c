"""Samples drawn at random within each class."""

from typing import Any

import numpy as np
from numpy.random import PCG64, SeedSequence
from numpy.typing import NDArray

Indices = NDArray[np.int64]
# Each use has its own stream: samples that are held out and samples that are kept are drawn independently.
HELD_OUT, KEPT = 0, 1


def shuffled(indices: Indices, seed: int, *stream: int) -> Indices:
    """`indices` in an order that depends on the seed and the stream alone.

    Sorted by raw 64-bit numbers: numpy promises that these stay what they are, and does not for `permutation`.
    """
    keys = PCG64(SeedSequence(seed, spawn_key=stream)).random_raw(len(indices))
    return indices[np.argsort(keys, kind="stable")]


def members(classes: NDArray[Any], num_classes: int) -> list[Indices]:
    """The samples of each class, in their order."""
    order = np.argsort(classes, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(np.bincount(classes, minlength=num_classes))[:-1])[:num_classes]


def hold_out(classes: NDArray[Any], fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Split samples into those to train on and those to test with, the same fraction of each class.

    The number is rounded; a class with two samples or more has at least one on either side, a single one is trained on.

    Args:
        classes: The class of each sample, from 0.
        fraction: What part of a class is held out.
        seed: Decides which.

    Returns:
        Indices of both parts, sorted.

    Examples:
        >>> train, test = hold_out(np.repeat([0, 1], [10, 5]), 0.2, seed=0)
        >>> len(train), np.repeat([0, 1], [10, 5])[test].tolist()
        (12, [0, 0, 1])
    """
    whole_number("seed", seed, 0)
    test = []
    for c, samples in enumerate(members(classes, int(classes.max(initial=-1)) + 1)):
        number = min(max(round(fraction * len(samples)), 1), len(samples) - 1)
        test.append(shuffled(samples, seed, HELD_OUT, c)[: max(number, 0)])
    held = np.zeros(len(classes), dtype=bool)
    held[np.concatenate([np.empty(0, np.int64), *test])] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def whole_number(name: str, value: Any, least: int) -> int:
    """Check an option that counts something."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number from {least}, not {value!r}")
    return int(value)
