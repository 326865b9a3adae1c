"""Statistics of few runs, against slow and obvious versions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests import reference

from orthoframe_studies import chance_of_mean, chance_of_most, clopper_pearson, holm, mean_interval, median_range

trials = st.integers(1, 20).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(trials)
def test_clopper_and_pearson(counts):
    """The ends at which as many successes, or as few, would have a probability of 5 %."""
    successes, n = counts
    low, high = clopper_pearson(successes, n)
    expected = reference.clopper_pearson(successes, n, 0.05)
    assert (low, high) == pytest.approx(expected, abs=1e-9)
    assert low <= successes / n <= high
    both = stats.binomtest(successes, n).proportion_ci(0.9, method="exact")  # two ends of 5 %
    assert (low, high) == pytest.approx((both.low, both.high), abs=1e-9)


@given(trials)
def test_most_runs(counts):
    """The test and the interval say the same."""
    successes, n = counts
    assert chance_of_most(successes, n) == pytest.approx(reference.binomial_tail(successes, n, 0.5))
    low, _ = clopper_pearson(successes, n)
    assert (chance_of_most(successes, n) <= 0.05) == (low >= 0.5)


def test_the_interval_covers_the_truth_at_least_as_often_as_it_says():
    for n in (5, 10):
        for truth in (0.1, 0.5, 0.9):
            weights = [math.comb(n, s) * truth**s * (1 - truth) ** (n - s) for s in range(n + 1)]
            below = sum(w for s, w in enumerate(weights) if clopper_pearson(s, n)[0] > truth)
            above = sum(w for s, w in enumerate(weights) if clopper_pearson(s, n)[1] < truth)
            assert below <= 0.05 >= above


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm(chances):
    """Step by step: the smallest against all, the next against those that are left, until one does not stand."""
    corrected = holm(chances)
    for alpha in (0.01, 0.05, 0.2):
        rejected, left = set(), list(range(len(chances)))
        while left:
            smallest = min(left, key=lambda place: chances[place])
            if chances[smallest] * len(left) > alpha:
                break
            rejected.add(smallest)
            left.remove(smallest)
        assert {place for place, chance in enumerate(corrected) if chance <= alpha} == rejected
    assert all(chance <= bound for chance, bound in zip(chances, corrected, strict=True))


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=6))
def test_the_interval_of_a_mean_is_that_of_scipy(values):
    interval = mean_interval(dict(enumerate(values)))
    if np.std(values) < 1e-9 * max(1.0, abs(np.mean(values))):  # scipy's is nan for equal values
        assert interval.low == pytest.approx(interval.high, abs=1e-6)
        return
    low, high = stats.t.interval(0.9, len(values) - 1, np.mean(values), stats.sem(values))
    assert (interval.centre, interval.low, interval.high) == pytest.approx(
        (np.mean(values), low, high), rel=1e-6, abs=1e-6
    )
    for threshold in (-1.0, 0.0, 50.0):
        expected = stats.ttest_1samp(values, threshold, alternative="greater").pvalue
        assert chance_of_mean(values, threshold) == pytest.approx(expected, abs=1e-9)


def test_means_of_few():
    assert mean_interval({}).centre is None
    one = mean_interval({10: 3.0})
    assert (one.centre, one.low, one.high) == (3.0, None, None)
    assert mean_interval({10: 3.0, 11: math.nan}).centre is None
    assert chance_of_mean([2.0, 2.0], 1.0) == 0.0
    assert chance_of_mean([2.0, 2.0], 2.0) == 1.0


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=9), st.integers(0, 8))
def test_medians_of_times_some_of_which_were_not_reached(values, censored):
    """They count as longer than all others: the median is known if more than half were reached."""
    longest = 1000.0
    bounds = {seed: (value, value) for seed, value in enumerate(values)}
    bounds |= {len(values) + seed: (longest, math.inf) for seed in range(censored)}
    median = median_range(bounds)
    expected = np.median([*values, *[math.inf] * censored])
    assert median.missing == censored
    assert median.low == min(values)
    if math.isfinite(expected):
        assert median.centre == pytest.approx(expected)
    else:
        assert median.centre is None
    assert median.high == (max(values) if not censored else None)
