"""Probabilities of coverage against draws, and against numbers of the theory."""

import math
import time
from collections import defaultdict

import numpy as np
import pytest

from orthoframe import certify, coverage, epochs_to_certify
from orthoframe.errors import OptionError

RUNS = 8_000
LONG_TAILED = [int(5000 * 100 ** (-c / 9)) for c in range(10)]


def settings(number):
    """Random settings, spread over all ranges of probability: counts, batch size, epochs."""
    random = np.random.default_rng(7)
    while number:
        counts = np.exp(random.uniform(0, np.log(26), random.integers(2, 6))).astype(int).tolist()
        batch_size = int(random.integers(3, 25))
        goal = random.uniform()
        chances = {epochs: coverage(counts, batch_size, epochs).probability for epochs in (2, 3, 4, 6, 10)}
        epochs = min(chances, key=lambda epochs: abs(chances[epochs] - goal))
        if 1e-3 < chances[epochs] < 1 - 1e-3:
            number -= 1
            yield counts, batch_size, epochs


def within(share, chance, runs=RUNS):
    """Whether a share of runs may be that of a chance: five standard errors."""
    return abs(share - chance) < 5 * math.sqrt(max(chance * (1 - chance), 1 / runs) / runs)


def test_agrees_with_simulated_reshuffling():
    """Pairs exactly, classes closely if no batch holds one class alone, and all together in the median."""
    errors = []
    for counts, batch_size, epochs in settings(30):
        estimate = coverage(counts, batch_size, epochs)
        simulated = coverage(counts, batch_size, epochs, simulations=RUNS, seed=1)
        small = np.minimum.outer(counts, counts) <= 20
        assert all(map(within, simulated.unmet[small], estimate.unmet[small]))
        errors.append(abs(simulated.probability - estimate.probability))
        batches = {batch_size, sum(counts) % batch_size}
        if not any(3 <= rows <= max(counts) for rows in batches):
            assert np.allclose(simulated.disconnected, estimate.disconnected, atol=0.06)
            assert abs(simulated.probability_as_stated - estimate.probability_as_stated) < 0.12
    assert np.median(errors) < 0.02


def test_the_middle_is_not_biased():
    """Three classes of nine: counting single samples alone gives .629, and the classes are nearly independent."""
    estimate, simulated = coverage([9, 9, 9], 5, 3), coverage([9, 9, 9], 5, 3, simulations=RUNS)
    assert abs(estimate.probability - simulated.probability) < 0.04
    assert abs(estimate.probability_as_stated - simulated.probability_as_stated) < 0.04


def test_a_class_of_two_is_exact():
    """It has one split: its samples share none of the batches, two of six rows and one of three, which connects too."""
    together = (2 * math.comb(6, 2) + math.comb(3, 2)) / math.comb(15, 2)
    estimate = coverage([2, 1, 12], 6, 4)
    assert math.isclose(estimate.disconnected[0], (1 - together) ** 4, rel_tol=1e-9)
    assert estimate.disconnected[1] == 0


def test_a_last_batch_of_two_rows_connects_nothing():
    together = 2 * math.comb(6, 2) / math.comb(14, 2)
    assert math.isclose(coverage([2, 1, 11], 6, 4).disconnected[0], (1 - together) ** 4, rel_tol=1e-9)


def test_simulations_have_an_interval():
    simulated = coverage([9, 9, 9], 5, 3, simulations=400, seed=2)
    low, high = simulated.interval
    assert 0 < low < simulated.probability < high < 1
    assert coverage([9, 9, 9], 5, 3).interval is None


@pytest.mark.parametrize(("counts", "batch_size", "epochs"), [([4, 3, 2], 4, 2), ([5, 1, 2], 3, 4), ([6], 3, 3)])
def test_simulations_certify_as_certify_does(counts, batch_size, epochs):
    """The same draws, certified one at a time."""
    labels = np.repeat(np.arange(len(counts)), counts)
    random, holds = np.random.default_rng(3), []
    orders = [np.argsort(random.random((50, len(labels))), axis=1) for _ in range(epochs)]
    for run in range(50):
        batches = [part for o in orders for part in np.split(o[run], range(batch_size, len(labels), batch_size))]
        certificate = certify(labels, batches)
        holds.append((certificate.holds, certificate.holds_as_stated))
    drawn = coverage(counts, batch_size, epochs, simulations=50, seed=3)
    assert (drawn.probability, drawn.probability_as_stated) == tuple(np.mean(holds, axis=0))


@pytest.mark.parametrize(
    ("s", "t", "places", "rows"),
    [(2, 3, 9, 3), (2, 3, 8, 3), (2, 3, 7, 3), (5, 30, 47, 6), (20, 21, 60, 3), (7, 7, 16, 7)],
)
def test_pairs_of_a_small_class_are_exact(s, t, places, rows):
    unmet = coverage([s, t, places - s - t], rows, 1).unmet[0, 1]
    assert math.isclose(unmet, one_by_one(s, t, places, rows), rel_tol=1e-9)


@pytest.mark.parametrize(("s", "t", "places", "rows"), [(22, 25, 400, 6), (22, 40, 300, 5), (30, 30, 500, 8)])
def test_pairs_of_large_classes_are_close(s, t, places, rows):
    """Too large rather than too small; the logarithm decides how many epochs it takes."""
    unmet = coverage([s, t, places - s - t], rows, 1).unmet[0, 1]
    assert 0.8 < math.log(unmet) / math.log(one_by_one(s, t, places, rows)) < 1


def one_by_one(s, t, places, rows):
    """The chance that no batch pushes two classes apart: batch after batch, by how many rows of each it holds."""
    left = {(s, t): 1.0}  # rows that are still to be placed, with their chance
    for start in range(0, places, rows):
        free, size = places - start, min(rows, places - start)
        after = defaultdict(float)
        for (a, b), chance in left.items():
            for i in range(min(a, size) + 1):
                for j in range(min(b, size - i) + 1):
                    if (i == 0 or j == 0 or i == j == 1) and size - i - j <= free - a - b:
                        ways = math.comb(a, i) * math.comb(b, j) * math.comb(free - a - b, size - i - j)
                        after[a - i, b - j] += chance * ways / math.comb(free, size)
        left = after
    return left[0, 0]


def test_a_thousand_classes_take_seconds():
    """Of any sizes; the time is in the benchmark, and this would not end if it grew as it did."""
    begun = time.process_time()
    assert coverage([5000] * 1000, 128, 10).probability == 0
    assert coverage([5000] * 1000, 128, 200).probability > 0.999
    assert coverage(list(range(1, 1001)), 128, 10).probability == 0
    assert time.process_time() - begun < 20


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
    epochs = epochs_to_certify(counts, batch_size, as_stated=True)
    assert abs(epochs - expected) <= max(1, 0.01 * expected)


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
        (([4, 4], 4, 10**10), "epochs must be at most 1000000000"),
        (([10**9, 1], 4, 1), "must not sum to more"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        coverage(*arguments)


def test_integers_of_few_bits():
    few = coverage(np.array([100, 100], dtype=np.int16), np.int8(3), np.int8(100))
    plain = coverage([100, 100], 3, 100)
    assert few.probability == plain.probability


def test_a_batch_that_is_larger_than_all():
    assert coverage([4, 4], 10**15, 1).probability == 1


def test_never():
    with pytest.raises(OptionError, match="not even 1000000000 epochs are enough"):
        epochs_to_certify([4, 4], 1)
    with pytest.raises(OptionError, match="confidence must be"):
        epochs_to_certify([4, 4], 4, confidence=1.0)
