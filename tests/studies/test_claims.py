"""What intervals over seeds say about a claim."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from orthoframe.reporting import rule_words
from orthoframe.studies import CellResult, Claim, Decision, JobResult, agrees, decide
from orthoframe.studies import interval as over_seeds


def cell(where, values, quantity="delta_of", curve=None):
    return CellResult.of(where, {seed: JobResult({quantity: value}, curve or {}) for seed, value in enumerate(values)})


def interval(values, **options):
    return over_seeds(dict(enumerate(values)), **options)


@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=6))
def test_the_interval_is_that_of_scipy(values):
    found = interval(values)
    if np.std(values) < 1e-9 * np.mean(values):  # scipy's is nan for equal values
        assert found.low == pytest.approx(found.high)
        return
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert (found.mean, found.low, found.high) == pytest.approx((np.mean(values), low, high), rel=1e-6, abs=1e-9)
    logs = interval(values, logarithm=True)
    shown = interval(np.log(values).tolist())
    assert (logs.mean, logs.low, logs.high) == pytest.approx(tuple(map(math.exp, (shown.mean, shown.low, shown.high))))


def test_an_interval_covers_the_truth_as_often_as_it_says():
    random = np.random.default_rng(0)
    covered = [found.low <= 1.0 <= found.high for found in (interval(random.normal(1, 2, 3)) for _ in range(2000))]
    assert 0.93 < np.mean(covered) < 0.97


@pytest.mark.parametrize(
    ("values", "decision"),
    [
        ([0.01, 0.011, 0.012], "supported"),
        ([0.2, 0.21, 0.22], "not supported"),
        ([0.01, 0.5, 0.01], "inconclusive"),
        ([0.01], "inconclusive"),  # one seed has no interval
        ([], "inconclusive"),
    ],
)
def test_decisions(values, decision):
    claim = Claim("small", "us", "delta_of", {}, at_most=0.1)
    assert decide(claim, [cell({"ratio": 1}, values)]).decision == decision
    opposite = {"supported": "not supported", "not supported": "supported"}.get(decision, decision)
    large = Claim("large", "us", "delta_of", {}, at_least=0.1)
    assert decide(large, [cell({"ratio": 1}, values)]).decision == opposite


def test_one_cell_refutes_and_all_support():
    refuted, open_, supported = Decision
    assert Decision.of_all([supported, refuted, open_]) is refuted
    assert Decision.of_all([supported, open_]) is open_
    assert Decision.of_all([supported, supported]) is supported
    assert Decision.of_all([]) is open_


def test_comparisons_are_seed_by_seed():
    """What a seed does to both falls out: these overlap, and yet each is smaller than its counterpart."""
    mine = cell({"binding": "fixed", "ratio": 1}, [1.0, 10.0, 100.0])
    theirs = cell({"binding": "none", "ratio": 1}, [2.0, 21.0, 199.0])
    other = cell({"binding": "none", "ratio": 2}, [0.0, 0.0, 0.0])
    claim = Claim("less", "us", "delta_of", {"binding": "fixed"}, versus={"binding": "none"}, at_most=1.0)
    found = decide(claim, [other, theirs, mine])
    assert found.decision == "supported"
    assert found.comparisons[0].interval.values == pytest.approx({0: 1 / 2, 1: 10 / 21, 2: 100 / 199})
    less = Claim("less", "us", "delta_of", {"binding": "fixed"}, {"binding": "none"}, "difference", at_most=0.0)
    assert decide(less, [theirs, mine]).comparisons[0].interval.values == pytest.approx({0: -1, 1: -11, 2: -99})


def test_times_that_were_not_reached():
    """They are longer than the run, and nobody knows how much: a ratio is known from one side, or not at all."""
    curve = {"epoch": [1, 40]}
    fast = cell({"way": "a"}, [10, 11, 12], "epochs_to_of", curve)
    never = cell({"way": "b"}, [None, None, None], "epochs_to_of", curve)
    never_too = cell({"way": "c"}, [None, None, None], "epochs_to_of", curve)
    some = cell({"way": "d"}, [10, None, 12], "epochs_to_of", curve)

    def decision(way, versus, **threshold):
        claim = Claim("", "us", "epochs_to_of", {"way": way}, versus={"way": versus}, **threshold)
        return decide(claim, [fast, never, never_too, some]).decision

    assert decision("a", "b", at_most=0.5) == "supported"  # at most 12/40, and its interval
    assert decision("a", "b", at_most=0.1) == "inconclusive"  # it may be less, or not
    assert decision("a", "b", at_least=0.8) == "not supported"
    assert decision("b", "a", at_least=2.0) == "supported"  # at least 40/12
    assert decision("b", "a", at_least=5.0) == "inconclusive"
    assert decision("b", "a", at_most=2.0) == "not supported"
    assert decision("b", "a", at_most=5.0) == "inconclusive"
    for threshold in ({"at_most": 1.0}, {"at_least": 1.0}):
        assert decision("c", "b", **threshold) == "inconclusive"
        assert decision("d", "a", **threshold) == "inconclusive"
    assert decide(Claim("", "us", "epochs_to_of", {"way": "b"}, at_most=5.0), [never]).decision == "not supported"
    assert decide(Claim("", "us", "epochs_to_of", {"way": "b"}, at_most=50.0), [never]).decision == "inconclusive"


def test_a_claim_may_have_two_ends():
    near = Claim("near", "us", "delta_of", {"a": 1}, {"a": 2}, "difference", at_most=0.05, at_least=-0.05)
    for shift, decision in ((0.0, "supported"), (0.5, "not supported"), (-0.5, "not supported")):
        cells = [cell({"a": 1}, [0.2 + shift, 0.21 + shift, 0.22 + shift]), cell({"a": 2}, [0.2, 0.21, 0.22])]
        assert decide(near, cells).decision == decision
    assert rule_words(near, str) == "delta_of, difference to a 2, at least -0.05 and at most 0.05"


def test_coordinates_agree():
    assert agrees({"a": 1, "b": 2}, {"a": 1})
    assert not agrees({"a": 1}, {"b": 2})
    assert agrees({"a": 1}, {"a": (1, 2)})
    assert not agrees({"a": 3}, {"a": (1, 2)})


def test_a_claim_has_a_threshold():
    with pytest.raises(ValueError, match="threshold"):
        Claim("", "", "delta_of", {})
    assert rule_words(Claim("", "", "loss", {}, versus={"a": 1}, at_most=2.0)) == "loss, ratio to a 1, at most 2"
