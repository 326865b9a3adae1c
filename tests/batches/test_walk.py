"""Rows drawn by class weight against endless lists of permutations, and against exact shares."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from orthoframe import BatchPlan, PlanSampler
from orthoframe._rows import Labels
from orthoframe.batches._walk import ClassWalk

LABELS = st.lists(st.integers(0, 6), min_size=1, max_size=60)
POWERS = st.sampled_from([0, 0.25, 0.5, 0.999999, 1]) | st.floats(0, 1)


def drawn(labels, epoch, power=0.5, seed=0):
    plan = BatchPlan(labels, 7, scheme="weighted", binding="none", seed=seed, power=power)
    return np.concatenate(plan.batches(epoch))


@given(labels=LABELS, power=POWERS, epochs=st.integers(1, 8))
def test_equals_the_slow_version(labels, power, epochs):
    """Pieces of a list that holds every permutation of a class, one after the other."""
    walk = ClassWalk(Labels.of(labels), power, np.array([1, 2], np.uint64))
    expected = reference.class_walk(labels, walk.expected(), walk._permutation, epochs)
    for epoch in reversed(range(epochs)):
        assert sorted(walk.rows(epoch).tolist()) == sorted(expected[epoch])


@given(labels=LABELS, power=POWERS, epoch=st.integers(0, 50))
def test_shown_is_less_than_a_row_from_expected(labels, power, epoch):
    walk = ClassWalk(Labels.of(labels), power, np.array([1, 2], np.uint64))
    quotas = [Fraction(quota) for quota in walk.expected().tolist()]
    assert sum(quotas) == len(labels)
    shown, later = walk.shown(epoch), walk.shown(epoch + 1)
    assert shown.sum() == epoch * len(labels)
    assert all(abs(found - epoch * quota) < 1 for found, quota in zip(shown.tolist(), quotas, strict=True))
    assert (later >= shown).all()
    counts = Labels.of(labels).counts
    exact = len(labels) * counts**power / (counts**power).sum()
    assert np.abs(walk.expected() - exact).max() < 1e-9  # 32 bits of a fraction
    assert walk.expected().min() >= 1


@given(labels=LABELS, power=POWERS, seed=st.integers(0, 9), epochs=st.integers(1, 6))
def test_samples_of_a_class_are_shown_equally_often(labels, power, seed, epochs):
    times = sum(np.bincount(drawn(labels, e, power, seed), minlength=len(labels)) for e in range(epochs))
    for c in set(labels):
        own = times[np.array(labels) == c]
        assert own.max() - own.min() <= 1


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
    walk = ClassWalk(Labels.of(labels), 0.5, np.array([1, 2], np.uint64))
    for epoch in (2**31 - 1, 2**31):  # in 64 bits, and in numbers of any size
        quotas = [Fraction(quota) for quota in walk.expected().tolist()]
        assert walk.shown(epoch).sum() == epoch * 63
        assert all(abs(int(n) - epoch * quota) < 1 for n, quota in zip(walk.shown(epoch), quotas, strict=True))
    for epoch in (2**31, 2**64, 2**200):
        assert len(drawn(labels, epoch)) == 63
    assert not np.array_equal(drawn(labels, 2**64), drawn(labels, 2**64 + 2**80))


def test_permutations_are_fair():
    """Every order of three samples has one sixth of 6,000 permutations: within five standard deviations (29)."""
    walk = ClassWalk(Labels.of([0, 0, 0]), 0.5, np.array([1, 2], np.uint64))
    orders = np.array([walk._permutation(0, number) for number in range(6000)]) @ [9, 3, 1]
    assert np.abs(np.unique(orders, return_counts=True)[1] - 1000).max() < 145


def test_classes_have_streams_of_their_own():
    walk = ClassWalk(Labels.of([0] * 20 + [1] * 20), 0.5, np.array([1, 2], np.uint64))
    first, other = walk._permutation(0, 0), walk._permutation(1, 0) - 20
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, walk._permutation(0, 1))
    assert np.array_equal(first, walk._permutation(0, 0))


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
