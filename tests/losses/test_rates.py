"""What a gap says about angles, how fast it closes, and at which temperature fastest."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.losses.cases import DENOMINATORS, denominators, losses, mixed_rows, roundings, slow_terms, temperatures

import reference
from orthoframe import angle_bound, decay_rate, fastest_temperature, loss_floor, supcon_loss


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=10),
    losses(["all"]),
    st.integers(0, 2**31 - 1),
    st.floats(0.0, 1.0),
)
def test_the_gap_bounds_the_angles(labels, options, seed, mix):
    options |= {"temperature": max(options["temperature"], 0.1), "anchor_weights": None}
    rows = mixed_rows(labels, 5, mix**4, seed)
    rows = rows / rows.norm(dim=1, keepdim=True)
    y, cosines = torch.tensor(labels), rows @ rows.T
    weight = torch.tensor(options["class_weights"] or [1.0] * 5, dtype=torch.float64)
    gaps = slow_terms(rows, labels, [], **options) - loss_floor(labels, reduction="none", **options)
    counts = torch.bincount(y, minlength=5)
    for c in set(labels):
        members = (y == c).nonzero()[:, 0].tolist()
        if len(members) < 2 or len(set(labels)) < 2:
            continue
        # What each negative weighs: its class's weight, shared by the rows of the class if these are averaged.
        mass = weight[y] / (counts[y] if options["denominator"] == "class-average" else 1)
        mass = mass.masked_fill(y == c, 0.0)
        departures = []
        for i in members:
            positives = cosines[i, [j for j in members if j != i]].mean()
            departures.append(1 - positives + (cosines[i] * mass).sum() / mass.sum())
        shared = {name: options[name] for name in ("temperature", "denominator", "margin")}
        # Rounding of the gap near the floor is divided by q, which is as small as e^(-1/tau).
        gap = gaps[members].mean() + roundings(gaps, options)
        bound = angle_bound(gap, len(members) - 1, mass.sum(), own_weight=weight[c], **shared)
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


attached = st.sampled_from(["all", "sincere", "class-average"])
own_weights = st.sampled_from([0.02, 1.0, 1.0, 30.0])


def negatives_share(positives, negatives, temperature, denominator, margin, own_weight):
    """q, by its definition: the part of the denominator at the frame that negatives have."""
    if denominator == "negatives":
        return 1.0
    near = own_weight * (positives if denominator == "all" else 1) * math.exp((1 - margin) / temperature)
    return negatives / (near + negatives)


@given(st.integers(1, 50), st.floats(0.5, 2000), attached, st.sampled_from([-1.0, 0.0, 0.5, 0.9]), own_weights)
def test_fastest_temperature_is_the_fastest(positives, negatives, denominator, margin, own_weight):
    options = {"denominator": denominator, "margin": margin, "own_weight": own_weight}

    def force(temperature):
        return negatives_share(positives, negatives, temperature, **options) / temperature

    best = float(fastest_temperature(positives, negatives, **options))
    grid = ((1 - margin) * torch.logspace(-1.5, 1.5, 400, dtype=torch.float64)).tolist()
    assert force(best) >= max(force(t) for t in grid) * (1 - 1e-12)


@given(
    st.floats(1e-9, 5.0),
    st.integers(1, 40),
    st.integers(1, 400),
    denominators,
    temperatures,
    st.floats(-0.5, 2.0),
    own_weights,
)
def test_bound_formula(gap, positives, negatives, denominator, temperature, margin, own_weight):
    margin = 0.0 if denominator == "negatives" else margin
    options = {"temperature": temperature, "denominator": denominator, "margin": margin, "own_weight": own_weight}
    q = negatives_share(positives, negatives, **options)
    expected = temperature * math.log(1 + math.expm1(gap) / q)
    assume(expected > 1e-9)  # below that the plain formula on the line above has lost its digits
    assert math.isclose(angle_bound(gap, positives, negatives, **options), expected, rel_tol=1e-6)


def curvature(loss, rows, direction):
    """Second derivative of a loss along a line through rows, by differentiating twice."""
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(loss(rows + t * direction), t, create_graph=True)
    (bend,) = torch.autograd.grad(slope, t)
    return float(bend / direction.square().sum())


COUNTS = [4, 3, 2]


def frame_and_turn(c, rows=None):
    """Rows of a frame whose classes own two axes each; and a turn of rows of class c within its axes."""
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(COUNTS))
    axes = torch.kron(torch.eye(3), torch.ones(1, 2)).double() / 2**0.5
    turn = torch.zeros(len(labels), 6, dtype=torch.float64)
    members = (labels == c).nonzero()[:, 0][:rows]
    amounts = torch.randn(len(members), generator=torch.Generator().manual_seed(c), dtype=torch.float64)
    amounts = amounts - amounts.mean() if rows is None else amounts  # a spread leaves the mean where it is
    turn[members, 2 * c], turn[members, 2 * c + 1] = amounts, -amounts
    return axes, labels, axes[labels], turn


@pytest.mark.parametrize("denominator", DENOMINATORS)
@pytest.mark.parametrize("temperature", [0.1, 0.4])
@pytest.mark.parametrize("margin", [0.0, 0.6, 1.3])
@pytest.mark.parametrize("class_weights", [None, [0.2, 1.0, 7.0]])
@pytest.mark.parametrize("c", [0, 2])
def test_rates_are_curvatures(denominator, temperature, margin, class_weights, c):
    """The curvature of the summed loss at the frame: of the spread of a class, and of a row among fixed keys."""
    margin = 0.0 if denominator == "negatives" else margin
    options = {"temperature": temperature, "denominator": denominator, "margin": margin}
    weight, anchor_weights = class_weights or [1.0] * 3, [1.0, 2.0, 3.0]
    others = [i for i in range(3) if i != c]
    negatives = sum(weight[i] * (1 if denominator == "class-average" else COUNTS[i]) for i in others)
    weighted = {**options, "class_weights": class_weights, "anchor_weights": anchor_weights, "reduction": "sum"}

    _, labels, rows, turn = frame_and_turn(c)
    expected = anchor_weights[c] * decay_rate(COUNTS[c] - 1, negatives, own_weight=weight[c], **options)
    slow = curvature(lambda free: reference.supcon_loss(free, labels, **weighted), rows, turn)
    assert math.isclose(slow, expected, rel_tol=1e-9)

    _, labels, rows, turn = frame_and_turn(c, rows=1)
    keys = {"keys": rows, "key_labels": labels, "compare": "keys"}
    expected = anchor_weights[c] * decay_rate(COUNTS[c], negatives, own_weight=weight[c], fixed=True, **options)
    slow = curvature(lambda free: reference.supcon_loss(free, labels, **keys, **weighted), rows, turn)
    assert math.isclose(slow, expected, rel_tol=1e-9)


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


def test_bound_errors():
    with pytest.raises(ValueError, match="no fastest temperature"):
        fastest_temperature(1, 1, denominator="negatives")
    with pytest.raises(ValueError, match="positives must be at least 1"):
        angle_bound(0.1, 0, 3)
    with pytest.raises(ValueError, match=r"margin=1\.0 has no fastest temperature"):
        fastest_temperature(1, 1, margin=1.0)
    with pytest.raises(ValueError, match="own_weight must be positive"):
        decay_rate(1, 1, own_weight=0.0)
    assert math.isclose(decay_rate(1, 1, temperature=0.001, margin=3.0), 4000.0, rel_tol=1e-12)  # q is 1


def test_counts_without_a_number_are_refused():
    for function in (angle_bound_of, decay_rate, fastest_temperature):
        for positives, negatives in ((math.nan, 1), (1, math.nan), (0, 1), (1, -1)):
            with pytest.raises(ValueError, match="positives must be at least 1, and negatives at least 0"):
                function(positives, negatives)


def angle_bound_of(positives, negatives):
    return angle_bound(0.1, positives, negatives)
