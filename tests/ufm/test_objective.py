"""What is minimised, and where: the loss over all batches, and rows of unit length."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.ufm.cases import DENOMINATORS

import reference
from orthoframe import angle_bound, frame_floor, make_frame
from orthoframe.ufm._descent import project, tangent
from orthoframe.ufm._objective import FreeLoss, FreeObjective


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=9),
    st.lists(st.lists(st.integers(0, 100), min_size=0, max_size=6), min_size=1, max_size=4),
    st.sampled_from(DENOMINATORS),
    st.booleans(),
)
def test_the_objective_is_the_sum_over_batches(labels, batches, denominator, bound):
    batches = [[index % len(labels) for index in batch] for batch in batches]
    k = len(set(labels))
    prototypes = torch.eye(k, 5, dtype=torch.float64) if bound else None
    generator = torch.Generator().manual_seed(0)
    rows = project(torch.rand(len(labels), 5, dtype=torch.float64, generator=generator), True).requires_grad_()
    names = sorted(set(labels))
    total, anchors, floor = torch.zeros((), dtype=torch.float64), 0, 0.0
    for batch in batches:
        members = [names.index(labels[i]) for i in batch] + (list(range(k)) if bound else [])
        features = torch.cat([rows[batch], prototypes]) if bound else rows[batch]
        terms = reference.supcon_terms(features, members, 0.5, denominator)
        total = total + sum(term for term in terms if term is not None)
        anchors += sum(term is not None for term in terms)
        floor += sum(term for term in reference.floor_terms(members, 0.5, denominator) if term is not None)
    if not anchors:
        with pytest.raises(ValueError, match="the loss is 0 everywhere"):
            FreeObjective(labels, batches, prototypes, FreeLoss(temperature=0.5, denominator=denominator))
        return
    objective = FreeObjective(labels, batches, prototypes, FreeLoss(temperature=0.5, denominator=denominator))
    value, gradient = objective(rows)
    assert objective.divisor == anchors
    assert value == pytest.approx(float(total.detach()) / anchors, rel=1e-12, abs=1e-14)
    assert objective.floor == pytest.approx(floor / anchors, rel=1e-12, abs=1e-14)
    (expected,) = torch.autograd.grad(total / anchors, rows)
    torch.testing.assert_close(tangent(gradient, rows), tangent(expected, rows), atol=1e-12, rtol=1e-10)


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=8),
    st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=6), min_size=1, max_size=3),
    st.sampled_from(DENOMINATORS),
    st.sampled_from([0.0, 0.7]),
    st.booleans(),
)
def test_margins_weights_and_the_frame_term(labels, batches, denominator, supcon, bound):
    """By loops over the rows of each batch; shares are those of the rows."""
    batches = [[index % len(labels) for index in batch] for batch in batches]
    names = sorted(set(labels))
    k, classes = len(names), [names.index(label) for label in labels]
    options = {"margin": 0.0 if denominator == "negatives" else 0.4}
    options |= {"class_weights": [0.5, 1.0, 2.0, 4.0][:k], "anchor_weights": [3.0, 1.0, 1.0, 0.5][:k]}
    generator = torch.Generator().manual_seed(0)
    rows = project(torch.rand(len(labels), 5, dtype=torch.float64, generator=generator), True).requires_grad_()
    prototypes = torch.eye(k, 5, dtype=torch.float64).flip(1) if bound else None
    frame = make_frame(k, 5, dtype=torch.float64) if prototypes is None else prototypes
    seen = [classes[i] for batch in batches for i in batch]
    shares = [max(1, seen.count(c)) for c in range(k)]
    total = floor = 0.0
    for batch in batches:
        members = [classes[i] for i in batch]
        total = total + reference.frame_terms(rows[batch], members, frame, 0.5, shares, options["margin"]).sum()
        term_options = {"temperature": 0.5, "shares": shares, "margin": options["margin"], "reduction": "sum"}
        floor += float(frame_floor(members, k, **term_options))
        if bound:
            features, members = torch.cat([rows[batch], prototypes]), members + list(range(k))
        else:
            features = rows[batch]
        terms = reference.supcon_terms(features, members, 0.5, denominator, **options)
        total = total + supcon * sum(term for term in terms if term is not None)
        floors = reference.floor_terms(members, 0.5, denominator, **options)
        floor += supcon * sum(term for term in floors if term is not None)
    terms = FreeLoss(temperature=0.5, denominator=denominator, frame=True, supcon=supcon, **options)
    objective = FreeObjective(labels, batches, prototypes, terms)
    value, gradient = objective(rows)
    assert objective.divisor == len(seen)
    assert value == pytest.approx(float(total.detach()) / len(seen), rel=1e-12, abs=1e-13)
    assert objective.floor == pytest.approx(floor / len(seen), rel=1e-12, abs=1e-13)
    (expected,) = torch.autograd.grad(total / len(seen), rows)
    torch.testing.assert_close(tangent(gradient, rows), tangent(expected, rows), atol=1e-11, rtol=1e-10)


@pytest.mark.parametrize("denominator", ["all", "sincere", "negatives"])
def test_weights_far_apart_leave_the_negatives_of_each_class(denominator):
    """The heavy class has two negatives of weight 1, which are lost in a sum of everything less its own."""
    weights = [1e20, 1.0]
    objective = FreeObjective(
        [0, 0, 1, 1], None, None, FreeLoss(temperature=0.5, denominator=denominator, class_weights=weights)
    )
    assert objective._negatives.tolist() == [2.0, 2e20]
    gap = 1e-3 + objective.rounding
    bounds = [
        angle_bound(gap * 4 / 2, 1, negatives, own_weight=weight, temperature=0.5, denominator=denominator)
        for negatives, weight in ((2.0, 1e20), (2e20, 1.0))
    ]
    assert objective.angle(1e-3) == pytest.approx(max(map(float, bounds)), rel=1e-12)


@given(st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=1, max_size=4), st.randoms())
def test_the_projection_is_the_nearest_unit_row(values, random):
    rows = torch.tensor(values, dtype=torch.float64)
    nearest = project(rows, nonnegative=True)
    torch.testing.assert_close(nearest.norm(dim=1), torch.ones(len(rows), dtype=torch.float64))
    assert bool((nearest >= 0).all())
    for _ in range(20):
        other = torch.tensor([[random.random() for _ in range(3)] for _ in rows], dtype=torch.float64) + 1e-9
        other = other / other.norm(dim=1, keepdim=True)
        assert bool(((rows - nearest).norm(dim=1) <= (rows - other).norm(dim=1) + 1e-9).all())
