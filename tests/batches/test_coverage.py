"""Probabilities of coverage against draws, and against numbers of the theory."""

import math
import time
from collections import Counter, defaultdict
from itertools import combinations, permutations

import networkx
import numpy as np
import pytest

from orthoframe import certify, coverage, epochs_to_certify
from orthoframe.batches import _reshuffling
from orthoframe.batches._reshuffling import Layout, connected, missing_large, missing_small

RUNS = 8_000
LONG_TAILED = [int(5000 * 100 ** (-c / 9)) for c in range(10)]


def settings(number):
    """Random settings, spread over all ranges of probability: counts, batch size, epochs."""
    random = np.random.default_rng(7)
    while number:
        counts = np.exp(random.uniform(0, np.log(26), random.integers(2, 6))).astype(int).tolist()
        batch_size = int(random.integers(3, 25))
        wanted = random.uniform()
        found = {epochs: coverage(counts, batch_size, epochs).probability for epochs in (2, 3, 4, 6, 10)}
        epochs = min(found, key=lambda epochs: abs(found[epochs] - wanted))
        if 1e-3 < found[epochs] < 1 - 1e-3:
            number -= 1
            yield counts, batch_size, epochs


def within(share, chance, runs=RUNS):
    """Whether a share of runs may be that of a chance: five standard errors."""
    return abs(share - chance) < 5 * math.sqrt(max(chance * (1 - chance), 1 / runs) / runs)


def test_agrees_with_simulated_reshuffling():
    """Pairs exactly, classes if no batch holds one class alone, all together within bounds, and closely as a rule."""
    for counts, batch_size, epochs in settings(20):
        found = coverage(counts, batch_size, epochs)
        drawn = coverage(counts, batch_size, epochs, simulations=RUNS, seed=1)
        assert all(map(within, drawn.unmet.ravel(), found.unmet.ravel()))
        low, high = found.bounds
        assert low <= found.probability <= high
        assert low <= drawn.probability or within(drawn.probability, low)
        assert drawn.probability <= high or within(drawn.probability, high)
        batches = {batch_size, sum(counts) % batch_size}
        if not any(3 <= rows <= max(counts) for rows in batches):
            assert all(map(within, drawn.disconnected, found.disconnected))
            assert abs(drawn.probability - found.probability) < 0.07
            assert abs(drawn.probability_as_stated - found.probability_as_stated) < 0.07


def test_the_middle_is_not_biased():
    """Three classes of nine: taking pieces as independent gave .629, and the classes are nearly so."""
    found, drawn = coverage([9, 9, 9], 5, 3), coverage([9, 9, 9], 5, 3, simulations=RUNS)
    assert abs(found.probability - drawn.probability) < 0.03
    assert abs(found.probability_as_stated - drawn.probability_as_stated) < 0.03
    assert np.allclose(found.disconnected, drawn.disconnected, atol=0.015)


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
    found = coverage(counts, batch_size, epochs, simulations=50, seed=3)
    assert (found.probability, found.probability_as_stated) == tuple(np.mean(holds, axis=0))


@pytest.mark.parametrize(("size", "rows", "places", "least"), [(4, 3, 8, 2), (4, 3, 8, 3), (5, 4, 9, 2), (3, 2, 7, 2)])
def test_connection_is_exact(size, rows, places, least):
    """Two epochs, counted over all placements: which samples share a batch, and whether that connects the class."""
    ways = Counter(tuple(place // rows for place in chosen) for chosen in permutations(range(places), size))
    sizes = [min(rows, places - start) for start in range(0, places, rows)]
    connecting = 0
    for one, first in ways.items():
        for two, second in ways.items():
            graph = networkx.empty_graph(size)
            for epoch in (one, two):
                pairs = combinations(range(size), 2)
                graph.add_edges_from((i, j) for i, j in pairs if epoch[i] == epoch[j] and sizes[epoch[i]] >= least)
            connecting += first * second * networkx.is_connected(graph)
    layout = Layout(*divmod(places, rows), rows)
    assert math.isclose(connected(size, layout, 2, least), connecting / ways.total() ** 2, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("size", "rows", "places", "epochs"), [(22, 12, 60, 2), (25, 21, 275, 2), (21, 4, 42, 2), (30, 8, 120, 4)]
)
def test_large_classes_are_expanded_as_if_they_were_small(monkeypatch, size, rows, places, epochs):
    layout = Layout(*divmod(places, rows), rows)
    expanded = connected(size, layout, epochs, 2)
    connected.cache_clear()
    monkeypatch.setattr(_reshuffling, "_ALL_PARTITIONS", 30)
    assert abs(connected(size, layout, epochs, 2) - expanded) < 0.01
    connected.cache_clear()


@pytest.mark.parametrize("least", [2, 3])
@pytest.mark.parametrize(("s", "t", "places", "rows"), [(11, 14, 90, 6), (15, 40, 300, 5), (30, 30, 500, 8)])
def test_meetings_of_large_classes_are_nearly_exact(s, t, places, rows, least):
    layout = Layout(*divmod(places, rows), rows)
    near = missing_large(np.array([s]), np.array([t]), layout, 1, least)
    assert abs(near[0] - one_by_one(s, t, layout, least)) < 5e-4


def one_by_one(s, t, layout, least):
    """The chance that two classes are not pushed apart: batch after batch, by how many rows of each it holds."""
    left = {(s, t): 1.0}  # what is still to be placed, with its chance
    places = layout.places
    for rows in [layout.rows] * layout.full + [layout.short] * (layout.short > 0):
        after = defaultdict(float)
        for (a, b), chance in left.items():
            for i in range(min(a, rows) + 1):
                for j in range(min(b, rows - i) + 1):
                    if (i == 0 or j == 0 or (least == 3 and i == j == 1)) and rows - i - j <= places - a - b:
                        ways = math.comb(a, i) * math.comb(b, j) * math.comb(places - a - b, rows - i - j)
                        after[a - i, b - j] += chance * ways / math.comb(places, rows)
        left, places = after, places - rows
    return left[0, 0]


def test_a_thousand_classes_take_seconds():
    """Of any sizes; the time is in the benchmark, and this would not end if it grew as it did."""
    begun = time.process_time()
    assert coverage([5000] * 1000, 128, 10).probability == 0
    assert coverage([5000] * 1000, 128, 200).probability > 0.999
    assert coverage(list(range(1, 1001)), 128, 10).probability == 0
    assert time.process_time() - begun < 20


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
    assert math.isclose(missing_small(s, np.array([t]), layout, 1, 2)[0][0], separate / total, rel_tol=1e-9)


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
        (([4, 4], 4, 10**10), "epochs must be at most 1000000000"),
        (([2**63 - 1] * 2, 4, 1), "must not sum to more"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        coverage(*arguments)


def test_integers_of_few_bits():
    few = coverage(np.array([100, 100], dtype=np.int16), np.int8(3), np.int8(100))
    plain = coverage([100, 100], 3, 100)
    assert (few.probability, few.bounds) == (plain.probability, plain.bounds)


def test_a_batch_that_is_larger_than_all():
    assert coverage([4, 4], 10**15, 1).probability == 1


def test_never():
    with pytest.raises(ValueError, match="not even 1000000000 epochs are enough"):
        epochs_to_certify([4, 4], 1)
    with pytest.raises(ValueError, match="confidence must be"):
        epochs_to_certify([4, 4], 4, confidence=1.0)
