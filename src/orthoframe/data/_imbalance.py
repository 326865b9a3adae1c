"""Profiles of class sizes, and samples drawn at random within each class."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import PCG64, SeedSequence
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import class_members
from orthoframe.errors import DataError
from orthoframe.options import check_count, check_number, check_size

Indices = NDArray[np.int64]
# One stream of random numbers per use: test, training and validation samples are drawn independently.
TEST_STREAM, _TRAINING_STREAM, VALIDATION_STREAM = 0, 1, 2


def step_counts(num_classes: int, majority: int, ratio: float) -> list[int]:
    """STEP imbalance: the first half of the classes is large, the others are small.

        n_c = n_maj for c < ceil(k / 2), else n_maj // R, and at least 1

    Args:
        num_classes: k.
        majority: n_maj, the size of a large class.
        ratio: R, the size of a large class over that of a small one; 1 is balanced.

    Returns:
        The size of each class.

    Raises:
        ValueError: For fewer than one class or sample, or a ratio below 1.

    Examples:
        >>> step_counts(4, 100, 10)
        [100, 100, 10, 10]
    """
    _check(num_classes, majority, ratio)
    minority = max(1, int(majority // ratio))
    return [majority if 2 * c < num_classes else minority for c in range(num_classes)]


def long_tail_counts(num_classes: int, majority: int, ratio: float) -> list[int]:
    """Long-tailed imbalance: sizes fall by the same factor from class to class.

        n_c = int(n_maj R^(-c / (k - 1))), and at least 1

    Arguments are those of `step_counts`; the first class is the largest.

    Examples:
        >>> long_tail_counts(3, 100, 100)
        [100, 10, 1]
    """
    _check(num_classes, majority, ratio)
    last = max(num_classes - 1, 1)
    return [max(1, int(majority * ratio ** (-c / last))) for c in range(num_classes)]


def equal_counts(num_classes: int, majority: int, ratio: float = 1.0) -> list[int]:
    """No imbalance: all classes have the same size, whatever the ratio.

    Examples:
        >>> equal_counts(3, 100)
        [100, 100, 100]
    """
    _check(num_classes, majority, ratio)
    return [majority] * num_classes


PROFILES: dict[str, Callable[[int, int, float], list[int]]] = {
    "step": step_counts,
    "long-tail": long_tail_counts,
    "none": equal_counts,
}
"""Imbalance profiles by name: number of classes, size of the largest, and ratio to class sizes.

See `orthoframe.options.Imbalance`.
"""


def imbalanced_indices(
    labels: Tensor | NDArray[Any] | Sequence[int], class_counts: Sequence[int], *, seed: int
) -> Indices:
    """Draw `class_counts[c]` samples of each class c at random.

    The samples of a class depend on the seed and on that class alone, and subsets are nested: profiles of different
    ratio share as many samples as they can.

    Args:
        labels: The class of each sample, from 0 to k-1.
        class_counts: Number of samples to draw of each of the k classes.
        seed: Decides which.

    Returns:
        Indices, sorted.

    Raises:
        DataError: If a class has fewer samples than asked for.
        ValueError: For labels outside 0..k-1, or a negative count.

    Examples:
        >>> labels = [0, 0, 0, 0, 1, 1, 1, 1]
        >>> indices = imbalanced_indices(labels, [3, 1], seed=0)
        >>> [labels[i] for i in indices]
        [0, 0, 0, 1]
    """
    check_count("seed", seed, 0)
    counts = [check_count(f"class_counts[{c}]", count, 0) for c, count in enumerate(class_counts)]
    classes = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels, dtype=np.int64)
    if len(classes) and not 0 <= classes.min() <= classes.max() < len(counts):
        odd = classes.min() if classes.min() < 0 else classes.max()
        raise ValueError(f"label {odd} is out of range: class_counts has {len(counts)} entries, for classes from 0")
    drawn = [np.empty(0, np.int64)]
    for c, samples in enumerate(class_members(classes, len(counts))):
        if len(samples) < counts[c]:
            raise DataError(
                f"class {c} has {len(samples)} samples, and {counts[c]} were asked for; ask for no more than there are"
            )
        drawn.append(_shuffled(samples, seed, _TRAINING_STREAM, c)[: counts[c]])
    return np.sort(np.concatenate(drawn))


def hold_out(
    classes: NDArray[Any], fraction: float, seed: int, groups: NDArray[Any] | None = None, stream: int = TEST_STREAM
) -> tuple[Indices, Indices]:
    """Sorted indices of the samples to keep and the samples to hold out, the same fraction of each class, rounded.

    A class with two or more samples has at least one on each side; a single one is kept. With groups, all samples of a
    group are on the same side, and fractions are as near as that allows.
    """
    check_count("seed", seed, 0)
    if groups is not None:
        return _hold_out_groups(classes, fraction, seed, groups, stream)
    test = []
    for c, samples in enumerate(class_members(classes, int(classes.max(initial=-1)) + 1)):
        number = min(max(round(fraction * len(samples)), 1), len(samples) - 1)
        test.append(_shuffled(samples, seed, stream, c)[: max(number, 0)])
    held = np.zeros(len(classes), dtype=bool)
    held[np.concatenate([np.empty(0, np.int64), *test])] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def _hold_out_groups(
    classes: NDArray[Any], fraction: float, seed: int, groups: NDArray[Any], stream: int
) -> tuple[Indices, Indices]:
    """Groups in random order are held out while that brings the classes in them nearer to their fractions."""
    names, group = np.unique(groups, return_inverse=True)
    counts = np.zeros((len(names), int(classes.max(initial=-1)) + 1))
    np.add.at(counts, (group, classes), 1)
    total = counts.sum(0)
    target, held, chosen = fraction * total, np.zeros_like(total), np.zeros(len(names), dtype=bool)
    for number in _shuffled(np.arange(len(names)), seed, stream):
        after = held + counts[number]
        # Relative to the size of each class, so that small ones count as much; and something is left to train on.
        here = counts[number] > 0
        nearer = (np.abs(after - target) - np.abs(held - target))[here] / total[here]
        if nearer.sum() < 0 and (after < total)[here].all():
            held, chosen[number] = after, True
    if not chosen.any() and len(names) > 1:  # the group that leaves something of each class, and is nearest
        left = [g for g in range(len(names)) if (counts[g] < total)[counts[g] > 0].all()]
        sums = counts.sum(1)
        chosen[[min(left, key=lambda g: abs(sums[g] - fraction * sums.sum()))] if left else []] = True
    held_out = chosen[group]
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _shuffled(indices: Indices, seed: int, *stream: int) -> Indices:
    """`indices` in an order that depends on the seed and the stream alone.

    Sorted by raw 64-bit numbers, which numpy guarantees to stay the same across versions, unlike `permutation`.
    """
    keys = PCG64(SeedSequence(seed, spawn_key=stream)).random_raw(len(indices))
    return indices[np.argsort(keys, kind="stable")]


def _check(num_classes: int, majority: int, ratio: float) -> None:
    check_size("num_classes", num_classes)
    check_count("majority", majority)
    check_number("ratio", ratio, least=1, advice=("1 is balanced",))
