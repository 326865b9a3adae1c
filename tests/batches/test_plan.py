"""Every scheme and every binding against its promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orthoframe import BatchPlan, PlanSampler, certify, repair
from orthoframe.errors import OptionError

LABELS = np.repeat([0, 1, 2, 3], [60, 30, 8, 3])
SCHEMES = ["full", "partition", "reshuffle", "balanced", "weighted", "rare-hub"]
BINDINGS = ["none", "fixed", "present", "redrawn", "random"]


def plan_of(labels, batch_size, *, scheme, **options):
    """A plan; `full` has no batch size."""
    return BatchPlan(labels, None if scheme == "full" else batch_size, scheme=scheme, **options)


def same(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("binding", BINDINGS)
def test_a_pure_function_of_seed_and_epoch(scheme, binding):
    def plan(seed=3):
        return plan_of(LABELS, 16, scheme=scheme, binding=binding, seed=seed)

    first, again = plan(), plan()
    later = again.batches(5)  # asked for out of order
    assert same(first.batches(0), again.batches(0))
    assert same(first.batches(5), later)
    assert first.fingerprint() == again.fingerprint()
    assert plan(4).fingerprint() != first.fingerprint()
    if (scheme, binding) not in {("full", b) for b in ("none", "present")}:
        assert not same(plan(4).batches(0), first.batches(0))
    assert same(list(first), first.batches(0))


@pytest.mark.parametrize("scheme", ["full", "partition", "reshuffle", "rare-hub"])
@given(labels=st.lists(st.integers(0, 5), min_size=1, max_size=60), size=st.integers(1, 20), epoch=st.integers(0, 3))
def test_every_sample_exactly_once_an_epoch(scheme, labels, size, epoch):
    plan = plan_of(labels, size, scheme=scheme, binding="none", seed=1)
    batches = plan.batches(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(labels)))
    if scheme != "full":
        assert all(0 < len(batch) <= size for batch in batches)


def test_full_is_one_batch():
    assert [len(batch) for batch in BatchPlan(LABELS, None, scheme="full", binding="none").batches(0)] == [101]


def test_partition_never_changes_and_reshuffle_always_does():
    fixed, fresh = (BatchPlan(LABELS, 16, scheme=s, binding="none") for s in ("partition", "reshuffle"))
    assert same(fixed.batches(0), fixed.batches(7))
    assert not same(fresh.batches(0), fresh.batches(7))
    assert [len(batch) for batch in fresh.batches(0)] == [16] * 6 + [5]
    dropped = BatchPlan(LABELS, 16, binding="none", drop_last=True)
    assert [len(batch) for batch in dropped.batches(0)] == [16] * 6


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=40), each=st.integers(1, 4), epoch=st.integers(0, 2))
def test_balanced_has_as_many_of_each_class_and_leaves_none_out(labels, each, epoch):
    classes = len(set(labels))
    batches = BatchPlan(labels, each * classes, scheme="balanced", binding="none").batches(epoch)
    for batch in batches:
        counts = np.unique(np.asarray(labels)[batch], return_counts=True)[1]
        assert counts.tolist() == [each] * classes
    assert set(np.concatenate(batches).tolist()) == set(range(len(labels)))
    largest = max(labels.count(c) for c in labels)
    assert len(batches) == -(-largest // each)


def test_rare_hub_keeps_rare_classes_whole_and_moves_them():
    labels = np.repeat(np.arange(20), [400, 300] + [5] * 18)
    plan = BatchPlan(labels, 32, scheme="rare-hub", binding="none")
    homes = set()
    for epoch in range(5):
        batches = plan.batches(epoch)
        for c in range(2, 20):
            holding = [number for number, batch in enumerate(batches) if (labels[batch] == c).any()]
            assert len(holding) == 1
            homes.add(holding[0])
        components = certify(labels, batches).components
        assert all(components[c] == 1 for c in range(2, 20))
    assert len(homes) > 10


def test_rare_hub_where_all_classes_are_rare():
    labels = np.repeat(np.arange(50), 5)
    batches = BatchPlan(labels, 10, scheme="rare-hub", binding="none").batches(0)
    assert all(
        len({number for number, batch in enumerate(batches) if (labels[batch] == c).any()}) == 1 for c in range(50)
    )


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("binding", ["fixed", "present"])
@pytest.mark.parametrize("views", [1, 2])
def test_binding_certifies_every_epoch(scheme, binding, views):
    plan = plan_of(LABELS, 16, scheme=scheme, binding=binding, seed=2, views=views)
    for epoch in range(3):
        certificate = certify(LABELS, plan.batches(epoch), views=views)
        assert certificate.holds or scheme == "weighted"
        if binding == "fixed":  # only what this epoch does not show is loose
            assert sum(certificate.components.values()) == len(plan.labels.names) + certificate.absent
    assert plan.certificate(epochs=2).holds  # by then `weighted` has shown all samples


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=30), size=st.integers(1, 12), seed=st.integers(0, 99))
def test_present_always_certifies_and_fixed_does_where_a_class_has_two_rows(labels, size, seed):
    assert BatchPlan(labels, size, binding="present", seed=seed).certificate().holds
    fixed = BatchPlan(labels, size, binding="fixed", seed=seed)
    # Exact also where it fails: with fixed binding every batch holds every class, so only single rows can be at fault.
    certificate = fixed.certificate()
    assert certificate.holds_as_stated
    assert certificate.missing_pairs == certificate.singleton_pairs
    if len(set(labels)) > 1:
        assert all(count == 1 for count in certificate.components.values())


def test_fixed_adds_the_same_example_of_each_class_to_every_batch():
    plan = BatchPlan(LABELS, 16, binding="fixed", seed=5, bound_examples=2)
    bare = BatchPlan(LABELS, 16, binding="none", seed=5)
    tails = {
        tuple(bound[len(batch) :])
        for e in range(3)
        for batch, bound in zip(bare.batches(e), plan.batches(e), strict=True)
    }
    assert len(tails) == 1
    (tail,) = tails
    assert LABELS[list(tail)].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(set(tail)) == 8
    assert plan.examples == {c: list(tail[2 * c : 2 * c + 2]) for c in range(4)}


def test_present_is_cheaper_than_fixed():
    labels = np.repeat(np.arange(50), 20)
    sizes = {b: sum(map(len, BatchPlan(labels, 20, binding=b).batches(0))) - 1000 for b in ("fixed", "present")}
    assert sizes["fixed"] == 2500
    assert 0 < sizes["present"] < 1500
    plan = BatchPlan(labels, 20, binding="present")
    examples = {sample for samples in plan.examples.values() for sample in samples}
    bare = BatchPlan(labels, 20, binding="none").batches(0)
    added = [i for old, new in zip(bare, plan.batches(0), strict=True) for i in new[len(old) :].tolist()]
    assert set(added) <= examples  # always the same representative of a class


@pytest.mark.parametrize("bound_examples", [1, 3])
def test_the_controls_are_of_equal_size(bound_examples):
    bare = BatchPlan(LABELS, 16, binding="none", seed=5)
    drawn = {}
    for binding in ("redrawn", "random"):
        plan = BatchPlan(LABELS, 16, binding=binding, seed=5, bound_examples=bound_examples)
        tails = [
            bound[len(batch) :] for e in range(4) for batch, bound in zip(bare.batches(e), plan.batches(e), strict=True)
        ]
        assert all(len(tail) == 4 * bound_examples for tail in tails)
        drawn[binding] = tails
    for tail in drawn["redrawn"]:
        assert LABELS[tail].tolist() == np.repeat(np.arange(4), bound_examples).tolist()
        assert len(set(tail.tolist())) == 4 * bound_examples
    assert len({tuple(tail) for tail in drawn["redrawn"]}) > 20
    assert len({tuple(LABELS[tail]) for tail in drawn["random"]}) > 5


def test_fewer_bound_classes_may_fail_and_the_certificate_says_so():
    labels = np.repeat([0, 1, 2], [40, 40, 4])
    bound = BatchPlan(labels, 8, scheme="partition", bound_classes=[0, 1], seed=0)
    assert set(bound.examples) == {0, 1}
    certificate = bound.certificate()
    assert not certificate.holds
    assert certificate.components[2] > 1
    assert certificate.components[0] == certificate.components[1] == 1


def test_examples_that_the_user_gives():
    plan = BatchPlan(["a", "a", "b", "b"], 2, examples={"b": 3}, seed=0)
    assert plan.examples["b"] == [3]
    drawn = BatchPlan(["a", "a", "b", "b"], 2, seed=0)
    assert plan.examples["a"] == drawn.examples["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "random"}, "scheme must be one of 'full'"),
        ({"binding": "some"}, "binding must be one of 'none'"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"batch_size": None}, "scheme='reshuffle' needs a batch_size"),
        ({"scheme": "full"}, "scheme='full' is one batch of all samples; leave out batch_size"),
        ({"batch_size": 2.5}, "batch_size must be a whole number, at least 1, not 2.5"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"views": 0}, "views must be at least 1"),
        ({"bound_examples": 4}, "class 3 has 3 samples, and bound_examples=4"),
        ({"bound_classes": [0, 9]}, "there is no class 9 among the labels; classes are 0, 1, 2, 3"),
        ({"examples": {3: 0}}, "the examples 0 of class 3 must be samples of that class"),
        ({"examples": {3: [98, 99]}, "bound_examples": 3}, "class 3 has 2 entries in examples, and bound_examples=3"),
        ({"scheme": "balanced", "batch_size": 3}, "needs a batch_size of at least 4"),
        ({"binding": "present", "bound_examples": 2}, "leave out bound_examples"),
        ({"binding": "present", "drop_last": True}, "leave out drop_last"),
        ({"bound_classes": [0], "examples": {3: 99}}, "examples has class 3, which is not bound"),
        ({"examples": {3: [98, 99]}}, "class 3 has 2 entries in examples, and bound_examples=1"),
        ({"binding": "present", "bound_classes": [0]}, "leave out bound_classes"),
        ({"power": 0.5}, "power is for scheme='weighted' only; leave it out"),
        ({"scheme": "weighted", "power": 1.5}, "power must be from 0 to 1, not 1.5"),
        ({"scheme": "weighted", "power": -0.5}, "power must be from 0 to 1, not -0.5"),
        ({"scheme": "weighted", "power": float("nan")}, "power must be from 0 to 1, not nan"),
        ({"labels": []}, "labels are empty"),
        ({"labels": [], "scheme": "weighted"}, "labels are empty"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        BatchPlan(**{"labels": LABELS, "batch_size": 16, **options})
    with pytest.raises(ValueError, match="epoch must be at least 0"):
        BatchPlan(LABELS, 16).batches(-1)


def test_same_seed_same_bytes():
    """The batches of a seed are part of the interface: a resumed run of another version must see the same."""
    plan = BatchPlan([0, 0, 0, 1, 1, 2], 3, scheme="reshuffle", binding="fixed", seed=0)
    assert [batch.tolist() for batch in plan.batches(1)] == [[0, 5, 4, 2, 3, 5], [1, 3, 2, 2, 3, 5]]
    assert plan.fingerprint() == "0aa9b32bcb7b81c9"


def test_numpy_numbers_are_numbers():
    one, other = BatchPlan(LABELS, 16, seed=3), BatchPlan(LABELS, np.int64(16), seed=np.int64(3), views=np.int32(1))
    assert one.fingerprint() == other.fingerprint()
    assert certify(LABELS, one, views=np.int64(2)).holds


def test_the_certificate_of_a_plan_counts_its_views():
    single = BatchPlan([0, 1], 2, binding="none", views=2)
    assert certify([0, 1], single).holds
    assert not certify([0, 1], single, views=1).holds


def test_the_first_classes_are_bound_by_their_number():
    labels = [0, 0, 1, 1, 2, 2]
    assert sorted(BatchPlan(labels, 3, bound_classes=2).examples) == [0, 1]
    with pytest.raises(OptionError, match="bound_classes must be at most 3"):
        BatchPlan(labels, 3, bound_classes=9)


@pytest.mark.parametrize("binding", ["none", "fixed", "redrawn", "random"])
@pytest.mark.parametrize("bound_examples", [1, 2])
def test_a_plan_without_batches_is_empty(binding, bound_examples):
    """All samples together are fewer than a batch, and short batches are dropped."""
    plan = BatchPlan([0, 0, 1, 1], 8, binding=binding, bound_examples=bound_examples, drop_last=True)
    assert plan.batches(3) == []
    assert not plan.certificate().holds
    assert list(PlanSampler(plan)) == []


@pytest.mark.parametrize("batch_size", [5, 2**40, 2**70])
@pytest.mark.parametrize("scheme", ["partition", "reshuffle", "weighted", "rare-hub"])
def test_a_batch_that_is_larger_than_the_data(batch_size, scheme):
    (batch,) = BatchPlan([0, 0, 1], batch_size, scheme=scheme, binding="none").batches()
    assert len(batch) == 3
    if scheme != "weighted":
        assert sorted(batch.tolist()) == [0, 1, 2]


def test_balanced_does_not_fill_batches_without_end():
    with pytest.raises(OptionError, match="scheme='balanced' needs a batch_size of at most 16777216"):
        BatchPlan([0, 0, 1], 2**70, scheme="balanced")


def test_numbers_of_every_size_in_a_plan():
    labels = [0, 0, 1, 1]
    assert len(BatchPlan(labels, 2, seed=2**200).batches(2**200)) == 2
    assert BatchPlan(labels, 2, bound_classes=np.int64(1)).examples.keys() == {0}
    assert BatchPlan(labels, 4, views=2**70).certificate().holds
    assert len(repair(labels, [[0, 2]], views=2**70)) == 1
    for epochs in (0, -1, 1.5):
        with pytest.raises(OptionError, match="epochs must be "):
            BatchPlan(labels, 2).certificate(epochs)
    for index, error in ((2**63, ValueError), (2**70, TypeError), (-(2**70), TypeError)):
        with pytest.raises(error, match="batch 1 "):
            certify(labels, [[0, 1], [index]])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_shares_are_those_of_many_epochs(scheme, binding, drop_last):
    if binding == "present" and drop_last:
        pytest.skip("not allowed")
    labels = np.repeat(["a", "b", "c"], [13, 7, 4])
    plan = plan_of(labels, 5, scheme=scheme, binding=binding, seed=3, drop_last=drop_last)
    rows = np.zeros(3)
    for epoch in range(400):
        for batch in plan.batches(epoch):
            rows += np.bincount(plan.labels.classes[batch], minlength=3)
    expected = plan.shares()
    assert np.isclose(expected.sum(), 1)
    # An epoch has about thirty rows: the mean of 400 is within 0.01, and exact where nothing is drawn.
    assert np.allclose(expected, rows / rows.sum(), atol=0.01)


def test_shares_of_some_bound_classes():
    plan = BatchPlan([0] * 6 + [1] * 2, 4, binding="redrawn", bound_classes=[1])
    assert np.allclose(plan.shares(), [6 / 10, 4 / 10])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("drop_last", [False, True])
def test_chances_are_those_of_many_epochs(scheme, drop_last):
    labels = np.repeat(["a", "b", "c"], [13, 7, 4])
    plan = plan_of(labels, 5, scheme=scheme, binding="fixed", seed=3, drop_last=drop_last)
    bare = plan_of(labels, 5, scheme=scheme, binding="none", seed=3, drop_last=drop_last)
    epochs = 400
    times = np.zeros(24)
    for epoch in range(epochs):
        np.add.at(times, np.concatenate(bare.batches(epoch)), 1 / epochs)
    # What an epoch has of a sample varies by half a row at most: 400 epochs are within five standard deviations.
    exact = scheme == "weighted" and not drop_last
    assert np.allclose(plan.chances(), times, atol=2 / epochs if exact else 0.125)
    if not drop_last and scheme not in ("balanced", "weighted"):
        assert np.array_equal(plan.chances(), np.ones(24))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_epochs_that_show_every_sample(scheme):
    plan = plan_of(LABELS, 16, scheme=scheme, binding="none")
    needed = plan.epochs_to_show_all
    assert (needed > 1) == (scheme == "weighted")
    assert plan.certificate(needed).absent == 0
    assert needed == 1 or plan.certificate(needed - 1).absent
    assert BatchPlan(LABELS, 16, binding="none", drop_last=True).epochs_to_show_all is None


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 40), st.integers(0, 3))
def test_weighted_batches_have_their_share_of_each_class(counts, batch_size, epoch):
    """Rows of a class are equally far apart; a batch is an interval whose length the other classes make uncertain."""
    labels = np.repeat(np.arange(len(counts)), counts)
    plan = BatchPlan(labels, batch_size, scheme="weighted", binding="none", seed=epoch)
    batches = plan.batches(epoch)
    k, n = len(counts), len(labels)
    drawn = np.bincount(labels[np.concatenate(batches)], minlength=k)
    for batch in batches:
        expected = drawn * len(batch) / n
        assert (abs(np.bincount(labels[batch], minlength=k) - expected) <= 1 + k * drawn / n + 1e-9).all()
