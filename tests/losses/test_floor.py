"""The floor and the collapsed value."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tests.losses.cases import denominators, losses, mixed_rows, roundings, slow_terms

import reference
from orthoframe import collapsed_loss, loss_floor, supcon_loss

# Sum form, one batch: at temperature 1 and at temperature 0.1.
VECTORS = {
    (2, 2): (2.2057788557, 0.0003631829),
    (3, 1): (2.5859844122, 2.0795096408),
    (3, 2, 1): (5.2073901112, 2.0800090009),
    (20, 20, 4, 4): (158.7380897228, 126.5744587452),
    (5,) * 10: (151.1541768368, 69.3402489971),
}

labels_lists = st.lists(st.integers(0, 3), min_size=1, max_size=10)
key_lists = st.lists(st.integers(0, 4), max_size=4)
counts_of_any_size = st.one_of(st.integers(0, 3), st.integers(0, 10**6), st.integers(2**40, 2**50))


@pytest.mark.parametrize("counts", VECTORS, ids=str)
def test_published_vectors(counts):
    for temperature, expected in zip((1.0, 0.1), VECTORS[counts], strict=True):
        floor = loss_floor(class_counts=counts, temperature=temperature, reduction="sum")
        assert floor.dtype == torch.float64
        assert abs(float(floor) - expected) < 6e-11  # half of the last digit given, and a bit


@given(labels_lists, key_lists, losses())
def test_counted_row_by_row(labels, key_labels, options):
    terms = reference.floor_terms(labels, options["temperature"], options["denominator"], key_labels, **_rest(options))
    options = {"key_labels": key_labels, **options}
    each = loss_floor(labels, reduction="none", **options)
    slack = {"rel_tol": 1e-12, "abs_tol": 1e-11}
    assert torch.allclose(each, torch.tensor([term or 0.0 for term in terms], dtype=torch.float64), atol=1e-13)
    total = sum(term for term in terms if term is not None)
    assert math.isclose(loss_floor(labels, reduction="sum", **options), total, **slack)
    for singletons in ("skip", "count"):
        count = reference.anchors_counted(labels, terms, singletons, options["anchor_weights"])
        assert math.isclose(loss_floor(labels, singletons=singletons, **options), total / (count or 1), **slack)


def _rest(options):
    return {name: value for name, value in options.items() if name not in ("temperature", "denominator")}


@given(labels_lists, key_lists, losses())
def test_labels_and_counts_agree(labels, key_labels, options):
    counts, keys = ([values.count(c) for c in range(5)] for values in (labels, key_labels))
    for function in (loss_floor, collapsed_loss):
        by_labels = function(labels, key_labels=key_labels, **options)
        by_counts = function(class_counts=counts, key_counts=keys, **options)
        assert torch.allclose(by_labels, by_counts, rtol=1e-13, atol=1e-13)


@given(labels_lists, key_lists, losses(), st.integers(0, 2**31 - 1), st.floats(0.0, 1.0))
def test_no_nonnegative_features_go_below(labels, key_labels, options, seed, mix):
    """Each term by itself: whatever the weights and the margin."""
    rows = mixed_rows([*labels, *key_labels], 6, mix**4, seed)
    terms = slow_terms(rows, labels, key_labels, **options)
    floor = loss_floor(labels, key_labels=key_labels, reduction="none", **options)
    assert bool((terms >= floor - roundings(terms, options)).all())


@given(labels_lists, key_lists, losses())
def test_an_orthogonal_frame_is_at_the_floor(labels, key_labels, options):
    terms = slow_terms(reference.orthogonal_frame([*labels, *key_labels], 6), labels, key_labels, **options)
    floor = loss_floor(labels, key_labels=key_labels, reduction="none", **options)
    assert torch.allclose(terms, floor, rtol=1e-13, atol=roundings(terms, options))


@given(labels_lists, key_lists, losses())
def test_collapsed(labels, key_labels, options):
    rows = torch.ones(len(labels) + len(key_labels), 3, dtype=torch.float64)
    terms = slow_terms(rows, labels, key_labels, **options)
    collapsed = collapsed_loss(labels, key_labels=key_labels, reduction="none", **options)
    assert torch.allclose(terms, collapsed, rtol=1e-13, atol=roundings(terms, options))


def test_the_famous_stuck_value():
    """SupContrast's "loss stuck at 8.909": 512 rows collapsed, and its factor of 0.1/0.07."""
    assert abs(float(collapsed_loss(class_counts=[128] * 4)) * 0.1 / 0.07 - 8.909) < 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "labels or class_counts"),
        ({"labels": [0], "class_counts": [1]}, "labels or class_counts"),
        ({"labels": [0, 0], "key_counts": [1]}, "key_labels go with labels"),
        ({"class_counts": [2, 2], "key_counts": [1]}, "they must agree"),
        ({"class_counts": [2, -2]}, "must not be negative"),
        ({"class_counts": [[2, 2]]}, "one-dimensional"),
        ({"labels": [0, 0], "temperature": 0.0}, "from 0.001 to 1e"),
        ({"labels": [0, 0], "denominator": "out"}, "must be one of"),
        ({"labels": [0, 0, 1], "singletons": "error"}, "class 1 has no positive"),
        ({"labels": [0, 0], "compare": "rows"}, "compare must be one of"),
        ({"labels": [0, 0], "margin": math.nan}, "margin must be from -1 to 10"),
        ({"labels": [0, 0], "margin": 0.5, "denominator": "negatives"}, "^margin=0.5 "),
        ({"labels": [0, 0], "class_weights": [0.0, 1.0]}, "class_weights must be positive and finite"),
        ({"labels": [0, 0], "anchor_weights": [[1.0]]}, "anchor_weights must be one-dimensional"),
        ({"labels": [0, 2], "class_weights": [1.0, 1.0]}, "label 2 has no entry in class_weights"),
        ({"labels": ["a", "b"], "class_weights": [1.0, 1.0]}, "label 'a' has no entry in class_weights"),
        ({"class_counts": [2, 2], "anchor_weights": [1.0]}, "label 1 has no entry in anchor_weights"),
    ],
)
def test_floor_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        loss_floor(**arguments)


def test_labels_of_keys_alone_need_no_anchor_weight():
    """The loss asks for none: at a frame it is at this floor."""
    rows, keys = torch.eye(4, dtype=torch.float64)[[0, 0, 1, 1]], torch.eye(4, dtype=torch.float64)[2:]
    options = {"key_labels": [-1, 7], "anchor_weights": [1.0, 3.0], "temperature": 1.0}
    expected = float(supcon_loss(rows, [0, 0, 1, 1], keys=keys, **options))
    assert math.isclose(loss_floor([0, 0, 1, 1], **options), expected, rel_tol=1e-13)
    with pytest.raises(ValueError, match="label 7 has no entry in anchor_weights"):
        loss_floor([0, 0, 7], **options)


def test_labels_must_be_whole():
    with pytest.raises(TypeError, match="must be integers"):
        loss_floor(torch.tensor([0.5, 1.0]))


def test_nothing_leaves_the_range_of_numbers():
    """Not even with the smallest temperature and a large margin, where the exponential itself does."""
    options = {"temperature": 0.001, "margin": 3.0}
    assert math.isclose(loss_floor([0, 0, 1], **options), 2000.0, rel_tol=1e-12)
    assert math.isclose(collapsed_loss([0, 0, 1], **options), 3000.0, rel_tol=1e-12)


def exact_floor(counts, keys, tau, denominator, reduction):
    """With whole numbers for counts, and forty digits for the rest."""
    with localcontext(prec=40):
        push, total = (-1 / Decimal(tau)).exp(), [n + m for n, m in zip(counts, keys, strict=True)]
        terms = []
        for n in total:
            positives, negatives, others = n - 1, sum(total) - n, sum(m > 0 for m in total) - 1
            there = n > 1 and (denominator != "negatives" or negatives > 0)
            inside = {
                "all": lambda p=positives, m=negatives: p + m * push,
                "sincere": lambda m=negatives: 1 + m * push,
                "negatives": lambda m=negatives: m * push,
                "class-average": lambda m=others: 1 + m * push,
            }[denominator]
            terms.append(inside().ln() if there else None)
        if reduction == "none":
            return [float(term or 0) for term in terms]
        total_loss = sum(n * term for n, term in zip(counts, terms, strict=True) if term is not None)
        anchors = sum(n for n, term in zip(counts, terms, strict=True) if term is not None)
        return [float(total_loss if reduction == "sum" else total_loss / max(anchors, 1))]


@given(
    st.lists(st.tuples(counts_of_any_size, counts_of_any_size), min_size=1, max_size=5),
    denominators,
    st.sampled_from([0.001, 0.1, 1.0, 1000.0]),
    st.sampled_from(["mean", "sum", "none"]),
)
@example([(2**52, 0), (2**52, 0)], "all", 0.1, "mean")
@example([(2**52, 0), (2**52, 2**52)], "sincere", 0.1, "sum")
@example([(2**53 - 2, 0), (1, 0), (1, 0)], "negatives", 0.1, "none")
def test_counts_of_any_size(counts, denominator, temperature, reduction):
    rows, keys = ([pair[i] for pair in counts] for i in (0, 1))
    expected = exact_floor(rows, keys, temperature, denominator, reduction)
    options = {"temperature": temperature, "denominator": denominator, "reduction": reduction}
    floors = loss_floor(class_counts=rows, key_counts=keys, **options).reshape(-1)
    # Small terms are the difference of 1 and its logarithm; sums of several signs lose what they cancel.
    scale = max(map(abs, exact_floor(rows, keys, temperature, denominator, "none")))
    allowed = 1e-14 * scale * (float(sum(rows)) if reduction == "sum" else 1.0)
    assert floors.tolist() == pytest.approx(expected, rel=1e-13, abs=allowed)
    unsigned = torch.tensor(rows, dtype=torch.uint64)
    again = loss_floor(class_counts=unsigned, key_counts=np.array(keys, dtype=object), **options).reshape(-1)
    assert torch.equal(floors, again)
