"""The floor, the collapsed value, the bound on angles, the fastest temperature."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

import reference
from orthoframe import angle_bound, collapsed_loss, decay_rate, fastest_temperature, loss_floor, supcon_loss

DENOMINATORS = ["all", "sincere", "negatives", "class-average"]
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
denominators = st.sampled_from(DENOMINATORS)
counts_of_any_size = st.one_of(
    st.integers(0, 3), st.integers(0, 10**6), st.integers(2**53, 2**64), st.integers(0, 10**30)
)
temperatures = st.sampled_from([0.05, 0.1, 0.5, 1.0, 10.0])


@pytest.mark.parametrize("counts", VECTORS, ids=str)
def test_published_vectors(counts):
    for temperature, expected in zip((1.0, 0.1), VECTORS[counts], strict=True):
        floor = loss_floor(class_counts=counts, temperature=temperature, reduction="sum")
        assert floor.dtype == torch.float64
        assert abs(float(floor) - expected) < 6e-11  # half of the last digit given, and a bit


@given(labels_lists, key_lists, denominators, temperatures)
def test_counted_row_by_row(labels, key_labels, denominator, temperature):
    terms = reference.floor_terms(labels, temperature, denominator, key_labels)
    options = {"key_labels": key_labels, "temperature": temperature, "denominator": denominator}
    each = loss_floor(labels, reduction="none", **options)
    assert torch.allclose(each, torch.tensor([term or 0.0 for term in terms], dtype=torch.float64), atol=1e-13)
    valid = [term for term in terms if term is not None]
    assert math.isclose(loss_floor(labels, reduction="sum", **options), sum(valid), abs_tol=1e-12)
    assert math.isclose(loss_floor(labels, **options), sum(valid) / max(1, len(valid)), abs_tol=1e-12)
    assert math.isclose(loss_floor(labels, singletons="count", **options), sum(valid) / len(terms), abs_tol=1e-12)


@given(labels_lists, key_lists, denominators, temperatures)
def test_labels_and_counts_agree(labels, key_labels, denominator, temperature):
    options = {"temperature": temperature, "denominator": denominator}
    counts, keys = ([values.count(c) for c in range(5)] for values in (labels, key_labels))
    by_labels = loss_floor(labels, key_labels=key_labels, **options)
    assert torch.allclose(by_labels, loss_floor(class_counts=counts, key_counts=keys, **options), rtol=1e-14)


@given(labels_lists, key_lists, denominators, temperatures, st.sampled_from(["mean", "sum"]), st.integers(0, 2**31 - 1))
def test_no_nonnegative_features_go_below(labels, key_labels, denominator, temperature, reduction, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(len(labels) + len(key_labels), 6, generator=generator, dtype=torch.float64)
    # Sparse and almost orthogonal rows come nearer to the floor than dense ones.
    rows = rows * (torch.rand(rows.shape, generator=generator) < 0.4) + 1e-9 * rows
    frame = reference.orthogonal_frame([*labels, *key_labels], 6)
    mix = torch.rand((), generator=generator) ** 4
    rows = mix * rows / rows.norm(dim=1, keepdim=True) + (1 - mix) * frame
    options = {"temperature": temperature, "denominator": denominator, "reduction": reduction}
    keys = {"keys": rows[len(labels) :], "key_labels": torch.tensor(key_labels, dtype=torch.long)}
    loss = supcon_loss(rows[: len(labels)], torch.tensor(labels), **keys, **options)
    floor = loss_floor(labels, key_labels=key_labels, **options)
    assert loss >= floor - 1e-12 * len(labels) / temperature


@given(labels_lists, key_lists, denominators, temperatures)
def test_an_orthogonal_frame_is_at_the_floor(labels, key_labels, denominator, temperature):
    frame = reference.orthogonal_frame([*labels, *key_labels], 6)
    options = {"temperature": temperature, "denominator": denominator, "reduction": "none"}
    keys = {"keys": frame[len(labels) :], "key_labels": torch.tensor(key_labels, dtype=torch.long)}
    terms = supcon_loss(frame[: len(labels)], torch.tensor(labels), **keys, **options)
    floor = loss_floor(labels, key_labels=key_labels, **options)
    assert torch.allclose(terms, floor, rtol=1e-13, atol=1e-13 / temperature)


@given(labels_lists, key_lists, denominators, temperatures)
def test_collapsed(labels, key_labels, denominator, temperature):
    rows = torch.ones(len(labels) + len(key_labels), 3, dtype=torch.float64)
    keys = {"keys": rows[len(labels) :], "key_labels": torch.tensor(key_labels, dtype=torch.long)}
    options = {"denominator": denominator, "reduction": "none"}
    terms = supcon_loss(rows[: len(labels)], torch.tensor(labels), temperature=temperature, **keys, **options)
    assert torch.allclose(
        terms, collapsed_loss(labels, key_labels=key_labels, **options), rtol=1e-12, atol=1e-13 / temperature
    )


def test_the_famous_stuck_value():
    """SupContrast's "loss stuck at 8.909": 512 rows collapsed, and its factor of 0.1/0.07."""
    assert abs(float(collapsed_loss(class_counts=[128] * 4)) * 0.1 / 0.07 - 8.909) < 1e-3


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=10),
    denominators,
    st.sampled_from([0.1, 0.3, 1.0]),
    st.integers(0, 2**31 - 1),
    st.floats(0.0, 1.0),
)
def test_the_gap_bounds_the_angles(labels, denominator, temperature, seed, mix):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(len(labels), 5, generator=generator, dtype=torch.float64)
    rows = (1 - mix**4) * reference.orthogonal_frame(labels, 5) + mix**4 * noise
    rows = rows / rows.norm(dim=1, keepdim=True)
    y = torch.tensor(labels)
    cosines = rows @ rows.T
    options = {"temperature": temperature, "denominator": denominator, "reduction": "none"}
    gaps = supcon_loss(rows, y, **options) - loss_floor(y, **options)
    for c in set(labels):
        members = (y == c).nonzero()[:, 0].tolist()
        rest = [j for j in range(len(labels)) if labels[j] != c]
        if len(members) < 2 or not rest:
            continue
        departures = []
        for i in members:
            positives = cosines[i, [j for j in members if j != i]].mean()
            if denominator == "class-average":
                names = set(labels) - {c}
                negatives = torch.stack([cosines[i, (y == name)].mean() for name in names]).mean()
            else:
                negatives = cosines[i, rest].mean()
            departures.append(1 - positives + negatives)
        count = len(set(labels)) - 1 if denominator == "class-average" else len(rest)
        # Rounding of the gap near the floor is divided by q, which is as small as e^(-1/tau).
        slack = 1e-13 / temperature
        bound = angle_bound(
            gaps[members].mean() + slack,
            len(members) - 1,
            count,
            temperature=temperature,
            denominator=denominator,
        )
        assert torch.stack(departures).mean() <= bound + 1e-12


def test_the_bound_is_met_where_all_cosines_are_equal():
    """Positives at one angle, negatives at another: every step of the bound is an equality."""
    labels, temperature = torch.tensor([0, 0, 1, 1]), 0.5
    a, b = 0.9, 0.2
    gram = torch.full((4, 4), b, dtype=torch.float64)
    gram[:2, :2] = gram[2:, 2:] = a
    gram.fill_diagonal_(1.0)
    rows = torch.linalg.cholesky(gram)
    gap = supcon_loss(rows, labels, temperature=temperature) - loss_floor(labels, temperature=temperature)
    assert math.isclose(angle_bound(gap, 1, 2, temperature=temperature), 1 - a + b, rel_tol=1e-12)


@pytest.mark.parametrize(("rho", "expected"), [(1, 0.782), (9, 0.476), (100, 0.275), (1000, 0.184)])
def test_fastest_temperature_of_the_theory(rho, expected):
    assert abs(float(fastest_temperature(1, rho)) - expected) <= 6e-4
    assert torch.equal(fastest_temperature(7, 7 * rho), fastest_temperature(1, rho))


@given(st.integers(1, 50), st.integers(1, 2000), st.sampled_from(["all", "sincere", "class-average"]))
def test_fastest_temperature_is_the_fastest(positives, negatives, denominator):
    def force(temperature):
        x = math.exp(1 / temperature)
        attached = positives if denominator == "all" else 1
        return negatives / (attached * x + negatives) / temperature

    best = float(fastest_temperature(positives, negatives, denominator=denominator))
    grid = torch.logspace(-1.5, 1.5, 400, dtype=torch.float64).tolist()
    assert force(best) >= max(force(t) for t in grid) * (1 - 1e-12)


@given(st.floats(1e-9, 5.0), st.integers(1, 40), st.integers(1, 400), denominators, temperatures)
def test_bound_formula(gap, positives, negatives, denominator, temperature):
    x = math.exp(1 / temperature)
    q = {
        "all": negatives / (positives * x + negatives),
        "sincere": negatives / (x + negatives),
        "negatives": 1.0,
        "class-average": negatives / (x + negatives),
    }[denominator]
    expected = temperature * math.log(1 + math.expm1(gap) / q)
    assume(expected > 1e-9)  # below that the plain formula on the line above has lost its digits
    bound = angle_bound(gap, positives, negatives, temperature=temperature, denominator=denominator)
    assert math.isclose(bound, expected, rel_tol=1e-6)


@pytest.mark.parametrize("denominator", DENOMINATORS)
def test_bound_out_of_range(denominator):
    """Where e^gap or e^(-1/tau) leave the range of float64, the bound does not."""
    assert angle_bound(0.0, 49, 450, temperature=0.001, denominator=denominator) == 0
    assert math.isclose(angle_bound(1000.0, 3, 5, temperature=1.0, denominator=denominator), 1000, rel_tol=0.01)
    assert angle_bound(1e-4, 49, 450, temperature=0.001, denominator=denominator) < 1.0
    assert angle_bound(0.0, 3, 0, denominator=denominator) == math.inf
    assert angle_bound(0.1, 3, 0, denominator=denominator) == math.inf


def test_gaps_below_zero_are_rounding():
    assert angle_bound(-1e-18, 3, 5) == 0


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
    ],
)
def test_floor_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        loss_floor(**arguments)


def test_bound_errors():
    with pytest.raises(TypeError, match="must be integers"):
        loss_floor(torch.tensor([0.5, 1.0]))
    with pytest.raises(ValueError, match="no fastest temperature"):
        fastest_temperature(1, 1, denominator="negatives")
    with pytest.raises(ValueError, match="positives must be at least 1"):
        angle_bound(0.1, 0, 3)


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
@example([(2**63 - 1, 0), (2**63 - 1, 0)], "all", 0.1, "mean")
@example([(2**63 - 1, 0), (2**63 - 1, 2**63 - 1)], "sincere", 0.1, "sum")
@example([(2**63 - 1, 0), (1, 0), (1, 0)], "negatives", 0.1, "none")
def test_counts_of_any_size(counts, denominator, temperature, reduction):
    rows, keys = ([pair[i] for pair in counts] for i in (0, 1))
    expected = exact_floor(rows, keys, temperature, denominator, reduction)
    options = {"temperature": temperature, "denominator": denominator, "reduction": reduction}
    found = loss_floor(class_counts=rows, key_counts=keys, **options).reshape(-1)
    # Small terms are the difference of 1 and its logarithm; sums of several signs lose what they cancel.
    scale = max(map(abs, exact_floor(rows, keys, temperature, denominator, "none")))
    allowed = 1e-14 * scale * (float(sum(rows)) if reduction == "sum" else 1.0)
    assert found.tolist() == pytest.approx(expected, rel=1e-13, abs=allowed)
    whole = torch.tensor(rows, dtype=torch.uint64) if max(rows) < 2**64 else np.array(rows, dtype=object)
    again = loss_floor(class_counts=whole, key_counts=np.array(keys, dtype=object), **options).reshape(-1)
    assert torch.equal(found, again)


def test_counts_without_a_number_are_refused():
    for function in (angle_bound_of, decay_rate, fastest_temperature):
        for positives, negatives in ((math.nan, 1), (1, math.nan), (0, 1), (1, -1)):
            with pytest.raises(ValueError, match="positives must be at least 1, and negatives at least 0"):
                function(positives, negatives)


def angle_bound_of(positives, negatives):
    return angle_bound(0.1, positives, negatives)
