"""Rows drawn by the weight of their class against endless lists of permutations, and by their own against shares."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from orthoframe import BatchPlan, PlanSampler
from orthoframe.batches._schemes import ClassDraws
from orthoframe.errors import OptionError

LABELS = st.lists(st.integers(0, 6), min_size=1, max_size=60)
POWERS = st.sampled_from([0, 0.25, 0.5, 0.999999, 1]) | st.floats(0, 1)


def numbered(labels):
    """The labels as a plan has them."""
    return BatchPlan(labels, 1, binding="none").labels


def drawn(labels, epoch, power=0.5, seed=0):
    plan = BatchPlan(labels, 7, scheme="weighted", binding="none", seed=seed, power=power)
    return np.concatenate(plan.batches(epoch))


@given(labels=LABELS, power=POWERS, epochs=st.integers(1, 8))
def test_equals_the_slow_version(labels, power, epochs):
    """Pieces of a list that holds every permutation of a class, one after the other."""
    draws = ClassDraws(numbered(labels), power, np.array([1, 2], np.uint64))
    expected = reference.class_walk(labels, draws.expected(), draws._permutation, epochs)
    for epoch in reversed(range(epochs)):
        assert sorted(draws.rows(epoch).tolist()) == sorted(expected[epoch])


@given(labels=LABELS, power=POWERS, epoch=st.integers(0, 50))
def test_shown_is_less_than_a_row_from_expected(labels, power, epoch):
    draws = ClassDraws(numbered(labels), power, np.array([1, 2], np.uint64))
    quotas = [Fraction(quota) for quota in draws.expected().tolist()]
    assert sum(quotas) == len(labels)
    shown, later = draws.shown(epoch), draws.shown(epoch + 1)
    assert shown.sum() == epoch * len(labels)
    assert all(abs(rows - epoch * quota) < 1 for rows, quota in zip(shown.tolist(), quotas, strict=True))
    assert (later >= shown).all()
    counts = numbered(labels).counts
    exact = len(labels) * counts**power / (counts**power).sum()
    assert np.abs(draws.expected() - exact).max() < 1e-9  # 32 bits of a fraction
    assert draws.expected().min() >= 1


@given(labels=LABELS, power=POWERS, seed=st.integers(0, 9), epochs=st.integers(1, 6))
def test_samples_of_a_class_are_shown_equally_often(labels, power, seed, epochs):
    times = sum(np.bincount(drawn(labels, e, power, seed), minlength=len(labels)) for e in range(epochs))
    for c in set(labels):
        of_class = times[np.array(labels) == c]
        assert of_class.max() - of_class.min() <= 1


@given(labels=LABELS, seed=st.integers(0, 9), epoch=st.integers(0, 2**70))
def test_power_1_shows_every_sample_once(labels, seed, epoch):
    assert sorted(drawn(labels, epoch, 1, seed).tolist()) == list(range(len(labels)))


def test_shares_of_the_powers():
    labels = np.repeat([0, 1], [900, 100])
    for power, share in ((0, 0.5), (0.5, 0.75), (1, 0.9)):
        plan = BatchPlan(labels, 64, scheme="weighted", binding="none", power=power)
        assert np.allclose(plan.shares(), [share, 1 - share], rtol=0, atol=1e-12)
        assert np.allclose(plan.chances()[[0, -1]], [1000 * share / 900, 1000 * (1 - share) / 100])
    bound = BatchPlan(labels, 100, scheme="weighted", power=0.5)  # ten batches, one row of each class more in each
    assert np.allclose(bound.shares(), [760 / 1020, 260 / 1020])


def test_shares_that_are_no_whole_numbers_are_made_up_for_later():
    labels = np.repeat([0, 1, 2], [5, 3, 2])
    plan = BatchPlan(labels, 4, scheme="weighted", binding="none", power=0)
    rows = np.array([np.bincount(labels[np.concatenate(plan.batches(e))]) for e in range(3)])
    assert rows.sum(1).tolist() == [10, 10, 10]
    assert rows.sum(0).tolist() == [10, 10, 10]


def test_epochs_of_every_size():
    labels = np.repeat([0, 1, 2], [50, 10, 3])
    draws = ClassDraws(numbered(labels), 0.5, np.array([1, 2], np.uint64))
    for epoch in (2**31 - 1, 2**31):  # in 64 bits, and in numbers of any size
        quotas = [Fraction(quota) for quota in draws.expected().tolist()]
        assert draws.shown(epoch).sum() == epoch * 63
        assert all(abs(int(n) - epoch * quota) < 1 for n, quota in zip(draws.shown(epoch), quotas, strict=True))
    for epoch in (2**31, 2**64, 2**200):
        assert len(drawn(labels, epoch)) == 63
    assert not np.array_equal(drawn(labels, 2**64), drawn(labels, 2**64 + 2**80))


def test_permutations_are_fair():
    """Every order of three samples has one sixth of 6,000 permutations: within five standard deviations (29)."""
    draws = ClassDraws(numbered([0, 0, 0]), 0.5, np.array([1, 2], np.uint64))
    orders = np.array([draws._permutation(0, number) for number in range(6000)]) @ [9, 3, 1]
    assert np.abs(np.unique(orders, return_counts=True)[1] - 1000).max() < 145


def test_classes_have_streams_of_their_own():
    draws = ClassDraws(numbered([0] * 20 + [1] * 20), 0.5, np.array([1, 2], np.uint64))
    first, other = draws._permutation(0, 0), draws._permutation(1, 0) - 20
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, draws._permutation(0, 1))
    assert np.array_equal(first, draws._permutation(0, 0))


def test_same_seed_same_bytes():
    """The batches of a seed are part of the interface: a resumed run of another version must see the same."""
    plan = BatchPlan([0, 0, 0, 0, 1, 1, 2], 4, scheme="weighted", binding="none", seed=0)
    assert [batch.tolist() for batch in plan.batches(1)] == [[6, 4, 3, 5], [2, 5, 2]]
    assert plan.fingerprint() == "5f7c345fe8291435"
    assert "scheme='weighted', binding='none', seed=0, power=0.5)" in repr(plan)


def test_the_fingerprint_knows_the_power():
    prints = {BatchPlan([0, 0, 1], 2, scheme="weighted", power=power).fingerprint() for power in (0, 0.5, 1)}
    assert len(prints) == 3
    assert BatchPlan([0, 0, 1], 2, scheme="weighted").fingerprint() in prints


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_sampler_hands_it_out_and_resumes(world_size):
    labels = np.repeat([0, 1], [20, 4])
    plan = BatchPlan(labels, 5, scheme="weighted", seed=1)
    ranks = [PlanSampler(plan, rank, world_size) for rank in range(world_size)]
    for epoch in range(3):
        parts = [list(sampler) for sampler in ranks]
        for batch, *rows in zip(plan.batches(epoch), *parts, strict=True):
            assert sorted(batch.tolist()) == sorted(row for part in rows for row in part)
    half = PlanSampler(plan)
    half.load_state_dict({"epoch": 1, "batches_done": 2, "plan": plan.fingerprint()})
    assert list(half) == [batch.tolist() for batch in plan.batches(1)[2:]]


@given(
    weights=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30),
    batch_size=st.integers(1, 12),
    seed=st.integers(0, 999),
)
@settings(deadline=None)
def test_a_row_is_drawn_as_often_as_its_weight_says(weights, batch_size, seed):
    rows, weights = len(weights), np.array(weights)
    labels = np.arange(rows) % 3
    plan = BatchPlan(labels, batch_size, binding="none", seed=seed, weights=weights)
    batches = plan.batches(seed)
    assert [len(batch) for batch in batches] == [min(batch_size, rows - start) for start in range(0, rows, batch_size)]
    times, expected = np.bincount(np.concatenate(batches), minlength=rows), rows * weights / weights.sum()
    # The number that is expected, rounded up or down; where it is whole up to rounding errors, either neighbour.
    assert (np.abs(times - expected) < 1 + 1e-9).all()
    np.testing.assert_allclose(plan.chances(), expected)
    assert plan.epochs_to_show_all is None
    again = BatchPlan(labels, batch_size, binding="none", seed=seed, weights=weights)
    assert all(map(np.array_equal, again.batches(seed), batches))
    assert again.fingerprint() == plan.fingerprint()


@pytest.mark.parametrize("binding", ["none", "fixed", "present", "redrawn", "random"])
def test_the_mean_over_epochs_and_the_shares_of_classes(binding):
    labels, weights = np.repeat([0, 1, 2], [12, 6, 3]), np.random.default_rng(1).exponential(size=21)
    plan = BatchPlan(labels, 8, binding=binding, weights=weights)
    drawn = [np.bincount(np.concatenate(plan.batches(epoch)), minlength=21) for epoch in range(2000)]
    shares = np.bincount(labels, np.mean(drawn, 0)) / np.mean(drawn, 0).sum()
    # Of 2,000 epochs of at least 21 draws: a standard deviation of at most 0.5/sqrt(42,000) = 0.0024.
    np.testing.assert_allclose(plan.shares(), shares, atol=0.01 if binding != "present" else 0.03)
    if binding in ("none", "random"):  # nothing else is added: every row by its weight
        expected = weights / weights.sum()
        np.testing.assert_allclose(np.mean(drawn, 0) / np.mean(drawn, 0).sum(), expected, atol=0.01)
    if binding == "redrawn":
        added = np.mean(drawn, 0) - 21 * weights / weights.sum()  # in three batches
        within = weights / np.bincount(labels, weights)[labels]
        np.testing.assert_allclose(added / 3, within, atol=0.06)  # 5/sqrt(6,000)
    if binding == "fixed":
        assert all(set(map(labels.item, batch[-3:])) == {0, 1, 2} for batch in plan.batches(5))
        assert plan.batches(0)[0][-3:].tolist() == plan.batches(7)[1][-3:].tolist()
    assert plan.fingerprint() != BatchPlan(labels, 8, binding=binding, weights=weights[::-1].copy()).fingerprint()


def test_binding_rows_are_drawn_by_weight():
    labels, weights = np.repeat([0, 1], 10), np.ones(20)
    weights[3] = 20.0
    bound = [BatchPlan(labels, 8, seed=seed, weights=weights).examples[0][0] for seed in range(500)]
    assert np.mean(np.array(bound) == 3) == pytest.approx(20 / 29, abs=0.1)  # five deviations of sqrt(0.21/500)


def test_same_seed_same_bytes_with_weights():
    plan = BatchPlan([0, 0, 0, 0, 1, 1, 2], 4, seed=0, weights=[1, 2, 3, 4, 5, 6, 7])
    assert [batch.tolist() for batch in plan.batches(1)] == [[2, 4, 3, 5, 1, 4, 6], [1, 6, 5, 1, 4, 6]]
    assert plan.fingerprint() == "1d44c791ba9b544c"


@pytest.mark.parametrize("binding", ["fixed", "redrawn"])
def test_several_binding_rows_of_a_class_are_distinct(binding):
    weights = np.r_[np.full(4, 100.0), np.ones(16)]
    plan = BatchPlan(np.repeat([0, 1], 10), 8, binding=binding, bound_examples=3, weights=weights)
    tails = [batch[-6:].tolist() for epoch in range(20) for batch in plan.batches(epoch)]
    assert all(len(set(tail)) == 6 for tail in tails)
    assert np.mean([row < 4 for tail in tails for row in tail[:3]]) > 0.9


def test_equal_weights_show_every_sample_once():
    plan = BatchPlan(np.repeat([0, 1], [8, 3]), 4, binding="none", weights=np.full(11, 0.3))
    assert sorted(np.concatenate(plan.batches(3)).tolist()) == list(range(11))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scheme": "weighted"}, OptionError, "weights are for scheme='reshuffle' only"),
        ({"weights": [1.0, 2.0]}, ValueError, r"weights must have shape \[3\], one per sample, not \[2\]"),
        ({"weights": [1.0, 0.0, 1.0]}, ValueError, "weights must be positive"),
    ],
)
def test_weights_that_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        BatchPlan([0, 0, 1], 2, **{"weights": [1.0, 1.0, 2.0]} | options)
