"""Probabilities of coverage against draws, and against numbers of the theory."""

import math
from itertools import combinations

import numpy as np
import pytest

from orthoframe import certify, coverage, epochs_to_certify
from orthoframe.batches._coverage import Layout, _log_separate

RUNS = 400
LONG_TAILED = [int(5000 * 100 ** (-c / 9)) for c in range(10)]


def drawn(counts, batch_size, epochs):
    """Share of random plans that certify, and that satisfy the condition as stated."""
    labels = np.repeat(np.arange(len(counts)), counts)
    holds = []
    for run in range(RUNS):
        random = np.random.default_rng(run)
        batches = [
            part
            for _ in range(epochs)
            for part in np.split(random.permutation(len(labels)), range(batch_size, len(labels), batch_size))
        ]
        certificate = certify(labels, batches)
        holds.append((certificate.holds, certificate.holds_as_stated))
    return np.mean(holds, axis=0)


@pytest.mark.parametrize(
    ("counts", "batch_size", "epochs"),
    [
        ([50, 50, 5], 15, 6),
        ([50, 50, 5], 15, 8),
        ([60, 30, 6, 4], 10, 12),
        ([30, 30, 30, 30], 6, 5),
        ([2, 2, 96], 10, 40),
        ([1, 3, 56], 12, 20),
        ([8, 4], 6, 1),
        ([6, 6], 12, 1),
        ([5, 3], 4, 1),
        ([7, 7], 10, 1),  # a last batch that is short, here and below
        ([5] * 10, 8, 10),
        ([12] * 3, 7, 3),
        ([12] * 3, 7, 6),
        ([10], 5, 10),
    ],
)
def test_agrees_with_draws(counts, batch_size, epochs):
    found = coverage(counts, batch_size, epochs)
    for expected, share in zip(
        (found.probability, found.probability_as_stated), drawn(counts, batch_size, epochs), strict=True
    ):
        # Three standard errors, and what taking pieces and pairs as independent may cost where many are in doubt.
        error = 3 * math.sqrt(max(expected * (1 - expected), 1 / RUNS) / RUNS)
        assert abs(expected - share) < error + 0.02


@pytest.mark.parametrize("places", [9, 8, 7])
def test_pairs_are_exact(places):
    """One epoch, two classes: the chance that no batch pushes them apart, counted over all placements."""
    rows, s, t = 3, 2, 3
    missed = separate = total = 0
    for first in combinations(range(places), s):
        for second in combinations(sorted(set(range(places)) - set(first)), t):
            a = np.bincount([place // rows for place in first], minlength=3)
            b = np.bincount([place // rows for place in second], minlength=3)
            missed += not (((a > 0) & (b > 0)) & (np.maximum(a, b) > 1)).any()
            separate += not ((a > 0) & (b > 0)).any()
            total += 1
    found = coverage([s, t, places - s - t], rows, 1)
    assert math.isclose(found.unmet[0, 1], missed / total, rel_tol=1e-9)
    layout = Layout(*divmod(places, rows), rows)
    assert math.isclose(math.exp(_log_separate(s, t, layout)), separate / total, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("counts", "batch_size", "expected"),
    [
        (LONG_TAILED, 128, 17),
        (LONG_TAILED, 1024, 2),
        ([5000] * 5 + [5] * 5, 128, 384),
    ],
)
def test_epochs_of_the_theory(counts, batch_size, expected):
    """As stated. The theory has no last batch that is short, and counts pieces of one sample only."""
    found = epochs_to_certify(counts, batch_size, as_stated=True)
    assert abs(found - expected) <= max(1, 0.01 * expected)


def test_single_rows_that_do_not_push_take_far_longer():
    """Classes of 5 samples share a batch soon, but rarely with two rows of one of them."""
    counts = [5000] * 5 + [5] * 5
    assert epochs_to_certify(counts, 128) > 5 * epochs_to_certify(counts, 128, as_stated=True)


def test_two_epochs_at_least_where_a_class_is_larger_than_a_batch():
    assert coverage([100, 100], 50, 1).probability == 0
    assert epochs_to_certify([100, 100], 50) >= 2
    assert epochs_to_certify([10, 10], 20) == 1


def test_probability_grows_with_epochs_and_is_one():
    values = [coverage([40, 10, 4], 9, epochs).probability for epochs in (2, 4, 8, 16, 64, 256)]
    assert values == sorted(values)
    assert values[-1] > 0.999


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 4, 1), "class_counts must be"),
        (([4, 0], 4, 1), "class_counts must be"),
        (([4, 4], 0, 1), "batch_size must be"),
        (([4, 4], 4, 0), "epochs must be"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        coverage(*arguments)


def test_never():
    with pytest.raises(ValueError, match="no number of epochs is enough"):
        epochs_to_certify([4, 4], 1)
    with pytest.raises(ValueError, match="confidence must be"):
        epochs_to_certify([4, 4], 4, confidence=1.0)
