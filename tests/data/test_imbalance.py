"""Profiles, and what is drawn for them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoframe.data import PROFILES, equal_counts, hold_out, imbalanced_indices, long_tail_counts, step_counts
from orthoframe.errors import DataError

LABELS = st.lists(st.integers(0, 4), max_size=60)


def test_the_profiles_of_the_paper():
    for ratio in (1, 5, 10, 50, 100):
        assert step_counts(10, 5000, ratio) == [5000] * 5 + [5000 // ratio] * 5
        tail = long_tail_counts(10, 5000, ratio)
        assert tail == [int(5000 * ratio ** (-c / 9)) for c in range(10)]
        assert (tail[0], tail[-1]) == (5000, 5000 // ratio)
    assert long_tail_counts(10, 5000, 100) == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]


@given(classes=st.integers(1, 30), majority=st.integers(1, 6000), ratio=st.floats(1, 2000))
def test_profiles_fall_from_the_majority_and_leave_no_class_empty(classes, majority, ratio):
    for counts in (step_counts(classes, majority, ratio), long_tail_counts(classes, majority, ratio)):
        assert len(counts) == classes
        assert counts[0] == majority
        assert counts == sorted(counts, reverse=True)
        assert counts[-1] >= 1
    step = step_counts(classes, majority, ratio)
    large, small = (classes + 1) // 2, classes // 2
    assert sum(step) == large * majority + small * max(1, int(majority // ratio))
    assert long_tail_counts(classes, majority, 1) == step_counts(classes, majority, 1) == [majority] * classes


@pytest.mark.parametrize("profile", [step_counts, long_tail_counts])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, 2), "num_classes must be at least 1, not 0"),
        ((2, 0, 2), "majority must be at least 1, not 0"),
        ((2, 1.5, 2), "majority must be a whole number, at least 1, not 1.5"),
        ((2, 10, 0.5), "ratio must be at least 1 and finite, not 0.5; 1 is balanced"),
        ((2, 10, float("nan")), "ratio must be at least 1 and finite"),
        ((2, 10, float("inf")), "ratio must be at least 1 and finite"),
    ],
)
def test_profiles_that_are_refused(profile, arguments, message):
    with pytest.raises(ValueError, match=message):
        profile(*arguments)


@given(labels=LABELS, data=st.data(), seed=st.integers(0, 2**40))
def test_each_class_has_as_many_as_asked_for(labels, data, seed):
    counts = [data.draw(st.integers(0, labels.count(c))) for c in range(5)]
    indices = imbalanced_indices(labels, counts, seed=seed)
    assert indices.dtype == np.int64
    assert indices.tolist() == sorted(set(indices.tolist()))
    assert [sum(labels[i] == c for i in indices) for c in range(5)] == counts
    for same in (np.asarray(labels, np.uint8), torch.tensor(labels, dtype=torch.int64)):
        assert np.array_equal(imbalanced_indices(same, counts, seed=seed), indices)
    fewer = imbalanced_indices(labels, [count // 2 for count in counts], seed=seed)
    assert set(fewer.tolist()) <= set(indices.tolist())
    everything = [labels.count(c) for c in range(5)]
    assert imbalanced_indices(labels, everything, seed=seed).tolist() == list(range(len(labels)))


@given(labels=st.lists(st.integers(0, 3), min_size=4, max_size=40), seed=st.integers(0, 9))
def test_the_numbers_of_other_classes_do_not_matter(labels, seed):
    counts = [labels.count(c) // 2 for c in range(4)]
    whole = imbalanced_indices(labels, counts, seed=seed).tolist()
    for c in range(4):
        alone = imbalanced_indices(labels, [counts[c] if c == d else 0 for d in range(4)], seed=seed)
        assert alone.tolist() == [i for i in whole if labels[i] == c]


def test_nothing_of_nothing():
    assert imbalanced_indices([], [], seed=0).tolist() == []
    assert imbalanced_indices([], [0, 0], seed=0).dtype == np.int64


def test_draws_are_random_and_spread():
    labels = np.repeat([0, 1], 1000)
    draws = [imbalanced_indices(labels, [100, 10], seed=seed) for seed in range(50)]
    assert len({tuple(draw) for draw in draws}) == 50
    hits = np.bincount(np.concatenate(draws), minlength=2000)
    # 5000 draws of class 0 over its halves: five standard deviations of a binomial are 177.
    assert abs(hits[:500].sum() - 2500) < 177


def test_same_seed_same_bytes():
    """What a seed draws is part of the interface: a resumed run of another version must see the same samples."""
    labels = np.arange(30) % 3
    assert imbalanced_indices(labels, [4, 2, 1], seed=0).tolist() == [2, 10, 12, 18, 24, 27, 28]
    assert hold_out(labels, 0.2, seed=0)[1].tolist() == [2, 5, 10, 13, 21, 27]


@pytest.mark.parametrize(
    ("counts", "seed", "error", "message"),
    [
        ([2, 5], 0, DataError, "class 1 has 3 samples, and 5 were asked for; ask for no more than there are"),
        ([2, 3, 1], 0, DataError, "class 2 has 0 samples, and 1 were asked for"),
        ([2], 0, ValueError, "label 1 is out of range: class_counts has 1 entries"),
        ([2, -1], 0, ValueError, r"class_counts\[1\] must be at least 0, not -1"),
        ([2, 1.0], 0, ValueError, r"class_counts\[1\] must be a whole number, at least 0, not 1.0"),
        ([2, 1], -1, ValueError, "seed must be at least 0, not -1"),
    ],
)
def test_what_cannot_be_drawn(counts, seed, error, message):
    with pytest.raises(error, match=message):
        imbalanced_indices([0, 0, 1, 1, 1], counts, seed=seed)
    with pytest.raises(ValueError, match="label -1 is out of range"):
        imbalanced_indices([0, -1], [1], seed=0)


@given(labels=LABELS, fraction=st.sampled_from([0.2, 0.25]), seed=st.integers(0, 99))
def test_what_is_held_out_is_a_part_of_each_class(labels, fraction, seed):
    classes = np.asarray(labels, np.int64)
    train, test = hold_out(classes, fraction, seed)
    assert sorted([*train, *test]) == list(range(len(labels)))
    assert train.tolist() == sorted(train)
    assert test.tolist() == sorted(test)
    for c in set(labels):
        of_class, held = labels.count(c), int((classes[test] == c).sum())
        assert held < of_class
        assert held >= (of_class > 1)
        assert held == 1 or abs(held - fraction * of_class) <= 0.5
    again = hold_out(classes, fraction, seed)
    assert all(np.array_equal(a, b) for a, b in zip(again, (train, test), strict=True))


def test_profiles_by_name():
    assert PROFILES["step"](4, 100, 10) == step_counts(4, 100, 10)
    assert PROFILES["none"](3, 7, 10) == equal_counts(3, 7) == [7, 7, 7]
