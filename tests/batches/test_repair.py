"""Repairs certify, and add as little as brute force does."""

import time
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import reference
from orthoframe import certify, repair
from orthoframe.batches._repair import _Moves


def disjoint(n):
    """Labels, and a partition of the samples into batches."""
    return st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
    ).map(lambda pair: (pair[0], [[i for i in range(n) if pair[1][i] == b] for b in sorted(set(pair[1]))]))


any_plan = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.lists(st.lists(st.integers(0, n - 1), max_size=4), min_size=1, max_size=5),
    )
)


def added(before, after):
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert new[: len(old)].tolist() == list(old)
    return sum(map(len, after)) - sum(map(len, before))


@given(any_plan, st.sampled_from([1, 2]))
@settings(max_examples=300)
def test_the_result_certifies(plan, views):
    labels, batches = plan
    assume(any(batches))
    mended = repair(labels, batches, views=views)
    certificate = certify(labels, batches, views=views)
    assert reference.certified(labels, [batch.tolist() for batch in mended], views)
    count = added(batches, mended)
    if certificate.holds:
        assert count == 0
    assert count >= certificate.additions_to_connect


def connected(labels, batches):
    return len(reference.effective_pieces(labels, batches)) == len(set(labels))


def fewest(labels, batches, limit):
    """The fewest additions that connect every class, by trying all."""
    moves = [(b, i) for b in range(len(batches)) for i in range(len(labels))]
    for count in range(limit):
        for chosen in combinations_with_replacement(moves, count):
            tried = [list(batch) for batch in batches]
            for b, i in chosen:
                tried[b].append(i)
            if connected(labels, tried):
                return count
    return limit


@given(st.integers(2, 5).flatmap(disjoint))
@settings(max_examples=150)
def test_no_list_of_additions_is_shorter_than_that_of_repair(plan):
    labels, batches = plan
    cost = certify(labels, batches).additions_to_connect
    assume(cost <= 4)
    assert fewest(labels, batches, cost) == cost


def fewest_that_certify(labels, batches, limit):
    """The fewest additions after which everything holds, by trying all, as soon as it is not below the limit."""
    moves = [(b, i) for b in range(len(batches)) for i in range(len(labels))]
    for count in range(certify(labels, batches).additions_to_connect, limit):
        for chosen in combinations_with_replacement(moves, count):
            tried = [[*batch, *(i for b, i in chosen if b == number)] for number, batch in enumerate(batches)]
            if certify(labels, tried).holds:
                return count
    return limit


@pytest.mark.parametrize(
    ("labels", "batches", "one_less"),
    [
        ([0, 0, 1, 1, 2], [[0, 2, 4], [1, 3]], True),
        ([0, 0, 1, 2], [[1, 3], [0, 2]], True),
        ([0, 0, 1, 2], [[0, 3], [1, 2]], False),
    ],
)
def test_a_repair_may_be_longer_than_the_shortest(labels, batches, one_less):
    count = added(batches, repair(labels, batches))
    assert fewest_that_certify(labels, batches, count) == count - one_less


@given(st.integers(2, 5).flatmap(disjoint))
@settings(max_examples=60, deadline=None)
def test_it_is_longer_by_one_addition_at_most(plan):
    """Of up to five samples in disjoint batches; all 11,917 cases of three classes were tried once."""
    labels, batches = plan
    count = added(batches, repair(labels, batches))
    assume(count <= 4)
    assert fewest_that_certify(labels, batches, count - 1) >= count - 1


@given(st.integers(2, 30).flatmap(disjoint))
def test_cost_is_the_lower_bound_of_the_theory(plan):
    """Disjoint batches of two rows or more: sum of (batches that hold the class - 1), and the batches of one class."""
    labels, batches = plan
    assume(all(len(batch) > 1 for batch in batches))
    held = sum(sum(any(labels[i] == c for i in batch) for batch in batches) - 1 for c in set(labels))
    single = sum(len({labels[i] for i in batch}) == 1 for batch in batches)
    assert certify(labels, batches).additions_to_connect == held + single
    mended = repair(labels, batches)
    pairs_met = {
        frozenset((labels[i], labels[j])) for batch in batches for i in batch for j in batch if labels[i] != labels[j]
    }
    if len(pairs_met) == len(set(labels)) * (len(set(labels)) - 1) // 2 and not single:
        # Every class pair shares a batch; connecting gives one of them two rows wherever it had one.
        assert added(batches, mended) <= held + single + 1


def test_additions_form_a_star():
    """One representative of a class goes to every batch, not a chain from each to the next."""
    labels = [0] * 6 + [1] * 6
    batches = [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]
    mended = repair(labels, batches)
    guests = [set(new.tolist()) - set(old) for old, new in zip(batches, mended, strict=True)]
    assert sum(map(len, guests)) == 10
    assert len(set().union(*guests)) == 2


def test_many_classes_in_few_batches():
    random = np.random.default_rng(0)
    labels = random.integers(60, size=600)
    order = random.permutation(600)
    batches = [order[start : start + 12] for start in range(0, 600, 12)]
    mended = repair(labels, batches)
    assert certify(labels, mended).holds
    binding = 60 * len(batches)
    assert added(batches, mended) < binding


def test_a_single_class_is_repaired_too():
    assert certify([0, 0, 0], repair([0, 0, 0], [[0, 1], [2]])).holds


@pytest.mark.parametrize("batches", [[], [[]], [[], []]])
def test_nothing_to_add_to(batches):
    with pytest.raises(ValueError, match="no batch to add samples to"):
        repair([0, 1], batches)


def test_missing_classes_outside_the_usual_places_are_brought_together():
    """Only classes 3 and 4 are missing each other, and 256 more varied batches hold neither."""
    labels = [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    batches = [[0, 1, 2, 3, 4, 5]] * 256 + [[6, 7, x] for x in (0, 2, 4)] + [[8, 9, x] for x in (0, 2, 4)]
    assert certify(labels, repair(labels, batches)).holds


def test_classes_that_are_in_no_batch_are_brought_together():
    assert certify([0, 0, 1, 2, 3], repair([0, 0, 1, 2, 3], [[0, 1]])).holds


def test_unshuffled_data_is_certified_and_repaired_in_time():
    """Sorted labels: every batch but a few is of a single class. Seconds would be hours if mends were one at a time."""
    labels = np.repeat(np.arange(10), 10000)
    batches = [np.arange(start, start + 50) for start in range(0, len(labels), 50)]
    begun = time.perf_counter()
    certificate = certify(labels, batches * 3)  # the same in every epoch
    assert certificate.additions_to_connect == 10 * 199 + 2000
    assert certify(labels, repair(labels, batches)).holds
    assert time.perf_counter() - begun < 30


def test_many_class_pairs_take_seconds():
    """5,619 additions for 1,000 classes; counting all pairs again after each took 16 times as long."""
    labels = np.repeat(np.arange(1000), 5)
    batches = np.split(np.random.default_rng(0).permutation(5000), 50)
    begun = time.process_time()
    mended = repair(labels, batches)
    assert time.process_time() - begun < 4
    assert added(batches, mended) == 5619
    assert certify(labels, mended).holds


@given(any_plan, st.sampled_from([1, 2]))
def test_what_moves_bring_together_is_kept_up_to_date(plan, views):
    labels, batches = np.array(plan[0]), [np.array(batch, dtype=int) for batch in plan[1]]
    names, numbers = np.unique(labels, return_inverse=True)
    rows = np.array([np.bincount(numbers[batch], minlength=len(names)) for batch in batches]) * views
    several, present = (rows > least for least in (1, 0))
    missing = ~((several.T @ present) | (present.T @ several) | np.eye(len(names), dtype=bool))
    moves = _Moves(rows, missing, views)
    while missing.any():
        moves.make(*moves.best())
        again = _Moves(rows, missing, views)
        assert np.array_equal(moves._with_any, again._with_any)
        assert np.array_equal(moves._with_several, again._with_several)


def test_narrow_integers():
    labels = np.arange(400) % 2
    batches = [np.arange(100, dtype=np.uint8), np.arange(100, 200, dtype=np.uint8)]
    assert certify(labels, repair(labels, batches)).holds
