"""The certificate against networkx, a slow decision, and the loss itself."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, RandomSampler, WeightedRandomSampler

import reference
from orthoframe import BatchPlan, certify, frame_floor, frame_loss, loss_floor, supcon_loss
from orthoframe.errors import InputError

PLANS = st.integers(1, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.lists(st.lists(st.integers(0, n - 1), max_size=5), max_size=5),
        st.sampled_from([1, 1, 2]),
    )
)
# The plain statement holds, and yet classes 0 and 1 are not pushed apart.
SINGLE_ROWS = ([0, 0, 1, 1, 2, 2], [[0, 2, 4, 5], [0, 1, 4], [2, 3, 5]], 1)
# Class 0 is connected by a batch of its own only.
ONE_CLASS = ([0, 0, 0, 1, 1], [[0, 1, 2], [0, 3, 4], [1, 3, 4], [2, 3, 4]], 1)


@given(PLANS)
@example(SINGLE_ROWS)
@example(ONE_CLASS)
def test_agrees_with_the_slow_decisions(plan):
    labels, batches, views = plan
    certificate = certify(labels, batches, views=views)
    assert certificate.holds == reference.certified(labels, batches, views)
    # The paper speaks of samples, so views play no part in its graph.
    assert certificate.holds_as_stated == reference.connected_as_stated(labels, batches)
    pieces = reference.effective_pieces(labels, batches, views)
    for report in certificate.classes:
        parts = [piece for piece in pieces if labels[min(piece)] == report.name]
        assert report.components == len(parts)
        assert report.samples == labels.count(report.name)
        if len(parts) > 1:
            assert sorted(map(len, parts))[0] >= len(report.smallest[0])
            assert any(set(report.smallest[0]) <= piece for piece in parts)
    met = reference.effective_pairs(labels, batches, views)
    assert not {frozenset(pair) for pair in certificate.missing_pairs} & met
    names = len(set(labels))
    assert len(certificate.missing_pairs) == names * (names - 1) // 2 - len(met)
    shared = {frozenset((labels[i], labels[j])) for batch in batches for i in batch for j in batch}
    assert {frozenset(pair) for pair in certificate.singleton_pairs} == {
        frozenset(pair) for pair in certificate.missing_pairs if frozenset(pair) in shared
    }
    assert certificate.absent == len(set(range(len(labels))) - {i for batch in batches for i in batch})
    assert certificate.single_class_batches == sum(len({labels[i] for i in batch}) == 1 for batch in batches)
    assert certificate.memberships == sum(map(len, batches))
    assert certificate.num_batches == len(batches)


@given(PLANS)
@example(SINGLE_ROWS)
@example(ONE_CLASS)
@example(([0, 0, 0, 0, 1, 1], [[0, 1, 2, 3], [0, 4, 5], [1, 4, 5], [2, 4, 5], [3, 4, 5]], 1))
def test_every_witness_is_at_the_floor_and_no_frame(plan):
    labels, batches, views = plan
    certificate = certify(labels, batches, views=views)
    witness = certificate.witness()
    if certificate.holds:
        assert witness is None
        return
    features, y = torch.from_numpy(witness), torch.tensor(labels)
    assert (features >= 0).all()
    assert torch.allclose(features.norm(dim=1), torch.ones(len(labels), dtype=torch.float64))
    for batch in batches:
        rows = [i for i in batch for _ in range(views)]
        options = {"temperature": 0.3, "reduction": "sum"}
        loss = supcon_loss(features[rows], y[rows], **options)
        assert math.isclose(loss, loss_floor(y[rows], **options), abs_tol=1e-12)
    gram = features @ features.T
    frame = (y[:, None] == y).double()
    assert (gram - frame).abs().max() > 0.1


@pytest.mark.parametrize(
    ("labels", "batches", "tolerance"),
    [
        ([0, 0, 1, 1, 2, 2], [[0, 2, 4, 5, 0], [0, 1, 4], [2, 3, 5]], 1e-6),
        # A batch of one class feels the fourth power of an angle, so the last of it goes very slowly.
        ([0, 0, 0, 1, 1], [[0, 1, 2], [0, 1, 3], [2, 3, 4]], 2e-3),
    ],
)
def test_where_it_holds_optimisation_ends_at_a_frame(labels, batches, tolerance):
    assert certify(labels, batches).holds
    y = torch.tensor(labels)
    features = torch.rand(len(labels), 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for _ in range(3000):  # projected gradient steps on the non-negative part of the sphere
        features = (features / features.norm(dim=1, keepdim=True)).requires_grad_()
        loss = sum(supcon_loss(features[b], y[b], temperature=0.7, reduction="sum") for b in batches)
        features = (features.detach() - 0.2 * torch.autograd.grad(loss, features)[0]).clamp(min=0)
    features = features / features.norm(dim=1, keepdim=True)
    assert torch.allclose(features @ features.T, (y[:, None] == y).double(), atol=tolerance)


def test_the_two_counterexamples():
    labels, batches, _ = SINGLE_ROWS
    certificate = certify(labels, batches)
    assert certificate.holds_as_stated
    assert not certificate.holds
    assert certificate.missing_pairs == certificate.singleton_pairs == ((0, 1),)
    certificate = certify(*ONE_CLASS[:2])
    assert certificate.holds_as_stated
    assert not certificate.holds
    assert certificate.components == {0: 3, 1: 1}


def test_rows_count_with_multiplicity():
    labels, batches = SINGLE_ROWS[:2]
    assert certify(labels, batches, views=2).holds  # two views are two rows, and push
    assert certify(labels, [[*batches[0], 0], *batches[1:]]).holds  # so does a binding example that is also drawn
    # The views of a sample coincide, so a batch of one class collapses.
    assert certify([0, 0, 1], [[0, 1], [0, 2]], views=2).holds
    assert not certify([0, 0, 1], [[0, 1], [0, 2]]).holds


def test_single_class_batches_act_once_two_rows_coincide():
    labels = [0, 0, 0, 0, 1]
    # 0 and 1 coincide by the last batch, so 1, 2 in the second, so 3 in the first.
    assert certify(labels, [[1, 2, 3], [0, 1, 2], [0, 1, 4]]).holds
    assert certify(labels, [[0, 1, 4], [1, 2], [2, 3]]).components == {0: 3, 1: 1}  # two rows are free


def test_labels_and_batches_of_any_kind():
    labels = ["cat", "cat", "dog", "dog"]
    batches = [[0, 1, 2, 3]]
    assert certify(labels, batches).components == {"cat": 1, "dog": 1}
    assert certify(np.array([7, 7, -2, -2]), np.array(batches)).components == {-2: 1, 7: 1}
    assert certify(torch.tensor([0, 0, 1, 1]), [torch.tensor([0, 1, 2, 3])]).holds
    assert certify(labels, iter(batches)).holds
    sampler = BatchSampler(RandomSampler(range(4), generator=torch.Generator().manual_seed(0)), 4, drop_last=False)
    assert certify(labels, sampler).holds
    assert certify([10**12, 10**12, 5], [[0, 1, 2]]).components == {5: 1, 10**12: 1}
    assert certify(np.array(labels, dtype=object), batches).holds
    assert certify(np.array(labels, dtype="S"), batches).components == {"cat": 1, "dog": 1}


def test_batches_in_a_file(tmp_path):
    path = tmp_path / "batches.jsonl"
    path.write_text("[0, 1]\n\n[0, 1, 2]\n")
    for batches in (path, str(path)):
        assert certify([0, 0, 1], batches).holds
    path.write_text("[0]\n\n[0, 3]\n")
    with pytest.raises(InputError, match=r"batches.jsonl, line 3: index 3;.* from 0 to 2"):
        certify([0, 0, 1], path)


def test_many_classes_and_few_rows():
    """More classes than rows in a chunk: the other way of counting."""
    labels = np.repeat(np.arange(3000), 2)
    batches = [[2 * c, 2 * c + 1, (2 * c + 2) % 6000] for c in range(3000)]
    certificate = certify(labels, batches)
    assert all(count == 1 for count in certificate.components.values())
    assert certificate.num_missing_pairs == 3000 * 2999 // 2 - 3000
    assert len(certificate.missing_pairs) == 100_000  # the first of them
    assert certificate.missing_pairs[:2] == ((0, 2), (0, 3))
    assert certificate.singleton_pairs == ()


def test_the_empty_cases():
    assert certify([], []).holds  # nothing to get wrong
    assert not certify([0, 1], []).holds
    assert certify([0], []).holds
    assert not certify([0, 0], [[], []]).holds
    assert "2 samples are in no batch" in certify([0, 0], []).sentence()


def test_output_for_people_and_programs():
    certificate = certify(*SINGLE_ROWS[:2])
    text = str(certificate)
    assert text.startswith("Not certified: classes 0 and 1 share batches only as singletons")
    assert "The paper's condition, as stated, holds." in text
    data = json.loads(json.dumps(certificate.to_dict()))
    assert data["holds"] is False
    assert data["holds_as_stated"] is True
    assert data["missing_pairs"] == [[0, 1]]
    assert [entry["components"] for entry in data["classes"]] == [1, 1, 1]
    assert str(certify([0, 0, 1], [[0, 1, 2]])).startswith("Certified: with non-negative features of at least 2 dim")
    assert certificate.piece_sizes() == {0: [2], 1: [2], 2: [2]}


@pytest.mark.parametrize(
    ("labels", "batches", "options", "kind", "message"),
    [
        ([0, 1], [[0], [0, 2]], {}, ValueError, "batch 1 holds index 2; there are 2 labels"),
        ([0, 1], [[-1]], {}, ValueError, "batch 0 holds index -1"),
        ([0, 1], [[0], [[1]]], {}, ValueError, "batch 1 must be a list of indices"),
        ([0, 1], [[0.5]], {}, TypeError, "batch 0 must hold integers of at most 64 bits, not float64"),
        ([0.5, 1], [[0]], {}, TypeError, "labels must be integers or strings, not float64"),
        ([[0, 1]], [[0]], {}, ValueError, "labels must be one-dimensional"),
        ([0, 1], [[0]], {"denominator": "none"}, ValueError, "denominator must be one of 'all'"),
        ([0, 1], [[0]], {"views": 0}, ValueError, "views must be at least 1"),
    ],
)
def test_errors(labels, batches, options, kind, message):
    with pytest.raises(kind, match=message):
        certify(labels, batches, **options)


@given(st.integers(0, 10**6))
def test_large_random_plans_agree_with_networkx(seed):
    """Enough rows for several chunks of the pass to matter is too slow here; enough unions to nest is not."""
    random = np.random.default_rng(seed)
    labels = random.integers(4, size=60).tolist()
    batches = [random.integers(60, size=random.integers(1, 6)).tolist() for _ in range(random.integers(10, 60))]
    certificate = certify(labels, batches)
    assert certificate.holds_as_stated == reference.connected_as_stated(labels, batches)
    pieces = reference.effective_pieces(labels, batches)
    assert sum(certificate.components.values()) == len(pieces)


def test_chunks_change_nothing(monkeypatch):
    from orthoframe.batches import _lists

    random = np.random.default_rng(0)
    labels = random.integers(5, size=300)
    batches = [random.integers(300, size=4) for _ in range(400)]
    whole = certify(labels, batches).to_dict()
    monkeypatch.setattr(_lists, "_FIRST_CHUNK", 7)
    monkeypatch.setattr(_lists, "_LARGEST_CHUNK", 50)
    assert certify(labels, batches).to_dict() == whole


@pytest.mark.parametrize("step", [1, -1])
def test_a_long_chain_takes_no_longer_than_other_batches(step):
    """Following it link by link would take minutes."""
    chain = 300_000
    batches = [np.array([i, i + 1, chain]) for i in range(chain - 1)][::step]
    assert certify([0] * chain + [1], batches).components == {0: 1, 1: 1}


@given(PLANS)
@example(SINGLE_ROWS)
@example(ONE_CLASS)
def test_a_frame_term_needs_every_sample_in_a_batch_and_nothing_else(plan):
    """Each term by itself is at its floor at the frame alone, so that only samples without a term are free."""
    labels, batches, views = plan
    certificate = certify(labels, batches, views=views, frame=True)
    if len(set(labels)) == 1:  # the frame term is 0 everywhere
        expected = certify(labels, batches, views=views)
        assert (certificate.holds, certificate.classes) == (expected.holds, expected.classes)
        assert certificate.additions_to_connect == expected.additions_to_connect
        assert np.array_equal(certificate.witness(), expected.witness())
        return
    absent = sorted(set(range(len(labels))) - {i for batch in batches for i in batch})
    assert certificate.holds == (not absent)
    assert list(certificate.absent_samples) == absent
    assert certificate.additions_to_connect == len(absent)
    assert certificate.holds_as_stated == certify(labels, batches, views=views).holds_as_stated
    gone = {name: sum(labels[i] == name for i in absent) for name in set(labels)}
    for report in certificate.classes:
        assert report.components == gone[report.name] + (gone[report.name] < report.samples)
    empty = {name for name in gone if gone[name] == labels.count(name)}
    assert all(set(pair) & empty for pair in certificate.missing_pairs)
    k = len(set(labels))
    assert len(certificate.missing_pairs) == math.comb(k, 2) - math.comb(k - len(empty), 2)
    witness = certificate.witness()
    if certificate.holds:
        assert witness is None
        return
    names = sorted(set(labels))
    classes = torch.tensor([names.index(y) for y in labels])
    rows = torch.from_numpy(witness)
    frame = torch.eye(k, rows.shape[1], dtype=torch.float64)
    assert bool((rows >= 0).all())
    assert torch.allclose(rows.norm(dim=1), torch.ones(len(rows), dtype=torch.float64))
    seen = [i for i in range(len(labels)) if i not in absent]
    options = {"temperature": 0.5, "reduction": "none"}
    terms = frame_loss(rows[seen], classes[seen], frame, **options)
    assert torch.allclose(terms, frame_floor(classes[seen], k, **options))
    assert not torch.allclose(rows, frame[classes])


ANEW = "If each epoch draws its batches anew, more epochs cost nothing; if not, bind or repair the batches."


def test_batches_of_epochs_that_differ_are_not_told_to_add_samples():
    labels = np.repeat([0, 1, 2], [300, 60, 9])
    weights = (1 / np.bincount(labels))[labels]
    drawn = WeightedRandomSampler(weights, len(labels), generator=torch.Generator().manual_seed(0))
    sampler = BatchSampler(drawn, 8, drop_last=False)
    certificate = certify(labels, [batch for _ in range(3) for batch in sampler])
    assert certificate.sentence() == f"Not certified: {certificate.reasons()}. {ANEW}"
    assert certificate.additions_to_connect > 100  # which `repair` would make
    plan = BatchPlan(labels, 8, binding="none")
    assert ANEW in plan.certificate(2).sentence()
    many = BatchPlan(np.arange(300_000) % 3, 1000, binding="none")  # of which a part is followed
    assert ANEW not in many.certificate(1).sentence()
    assert certify(many.labels, [batch[:2] for _ in range(2) for batch in many]).sentence().endswith("every class.")
    assert (
        ANEW
        in certify(many.labels, [row for batch in many._first_epochs(2) for row in np.split(batch, 500)]).sentence()
    )


@pytest.mark.parametrize("options", [{"binding": "none"}, {"binding": "fixed", "bound_classes": [0]}])
def test_batches_that_never_change_are_told_how_many_additions(options):
    """However often they come, and although binding examples are in all of them."""
    labels = np.repeat([0, 1, 2], [300, 60, 9])
    fixed = BatchPlan(labels, 8, scheme="partition", **options)
    for epochs in (1, 3):
        sentence = certify(labels, [batch[::-1] for batch in fixed] * epochs).sentence()
        assert "additions connect every class" in sentence
        assert ANEW not in sentence


def test_what_it_says_of_a_frame_term():
    labels = [0, 0, 1, 1, 2]
    whole = certify(labels, [[0], [1, 2], [3, 4]], frame=True)
    assert whole.frame
    assert whole.to_dict()["frame"] is True
    assert whole.sentence() == (
        "Certified: with non-negative features of at least 3 dimensions, the frame term has a unique optimum for "
        "every sample, and every sample is in a batch."
    )
    part = certify(labels, [[0]], frame=True)
    assert "4 samples are in no batch (1, 2, 3, ...); the frame term never reaches them" in part.sentence()
    assert part.to_dict()["absent_samples"] == [1, 2, 3, 4]
    assert "sample 4 is in no batch" in certify(labels, [[0, 1, 2, 3]], frame=True).sentence()
    assert "sample 4 is in no batch" in certify(labels, [[0, 1, 2, 3]]).sentence()
    assert not certify(labels, [[0, 1, 2, 3, 4]]).frame


def test_a_frame_term_of_one_class_is_0_everywhere():
    """So any witness is optimal, and the batches are judged without it."""
    apart = certify([0, 0], [[0], [1]], frame=True)
    assert not apart.holds
    assert apart.sentence() == (
        f"{certify([0, 0], [[0], [1]]).sentence()} The frame term of a single class is 0, so the loss alone decides."
    )
    terms = frame_loss(torch.from_numpy(apart.witness()), [0, 0], torch.eye(1, 2).double(), reduction="none")
    assert terms.tolist() == frame_floor([0, 0], 1, reduction="none").tolist() == [0.0, 0.0]
    assert certify([0, 0], [[0, 0, 1]], frame=True).holds  # by the loss alone
