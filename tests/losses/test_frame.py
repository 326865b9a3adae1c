"""The frame term: against its definition, its floor, its optimum, across processes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from orthoframe import (
    FrameLoss,
    SupConLoss,
    angle_bound,
    decay_rate,
    fastest_temperature,
    frame_collapsed,
    frame_floor,
    frame_loss,
    loss_floor,
    make_frame,
)
from orthoframe.errors import OptionError

cases = st.tuples(
    st.integers(2, 5),  # classes
    st.integers(0, 4),  # dimensions more
    st.integers(1, 8),  # rows
    st.floats(0.05, 5.0),
    st.floats(-0.5, 1.5),
    st.integers(0, 2**31),
)


def drawn(case):
    k, more, rows, temperature, margin, seed = case
    random = torch.Generator().manual_seed(seed)
    features = torch.rand(rows, k + more, generator=random, dtype=torch.float64) + 1e-3
    labels = torch.randint(k, (rows,), generator=random)
    shares = torch.rand(k, generator=random, dtype=torch.float64) + 0.01
    return features, labels, make_frame(k, k + more, dtype=torch.float64), temperature, shares, margin


@settings(max_examples=60, deadline=None)
@given(cases)
def test_definition(case):
    features, labels, frame, temperature, shares, margin = drawn(case)
    terms = frame_loss(features, labels, frame, temperature=temperature, shares=shares, margin=margin, reduction="none")
    expected = reference.frame_terms(features, labels, frame, temperature, shares, margin)
    assert torch.allclose(terms, expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_floor_is_reached_at_the_frame_alone(case):
    """Non-negative rows are above it, unless they are the rows of the frame; each row by itself."""
    features, labels, frame, temperature, shares, margin = drawn(case)
    options = {"temperature": temperature, "shares": shares, "margin": margin, "reduction": "none"}
    floor = frame_floor(labels, len(frame), **options)
    assert torch.allclose(frame_loss(frame[labels], labels, frame, **options), floor, rtol=1e-9, atol=1e-12)
    assert bool((frame_loss(features, labels, frame, **options) > floor).all())
    others = shares.sum() - shares[labels]
    closed = torch.log1p(others / shares[labels] * math.exp(-(1 - margin) / temperature))
    assert torch.allclose(floor, closed, rtol=1e-9, atol=1e-12)


def test_the_sum_has_the_sum_of_the_floors():
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    loss = FrameLoss(3, 6, temperature=0.3, supcon=0.7)
    features = loss.frame[labels]
    floor = frame_floor(labels, 3, temperature=0.3) + 0.7 * loss_floor(labels, temperature=0.3)
    assert math.isclose(float(loss(features, labels)), float(floor), rel_tol=1e-5)
    assert float(loss(features + 0.1, labels)) > float(floor)


@pytest.mark.parametrize("batches", [[[0], [1], [2], [3]], [[0, 1], [2, 3]]])
def test_every_list_of_batches_leads_to_the_frame(batches):
    """Rows that never meet another: with non-negative features the contrastive loss does nothing with them."""
    labels, frame = torch.tensor([0, 0, 1, 1]), make_frame(2, 4)
    free = torch.rand(4, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    optimizer = torch.optim.SGD([free], lr=1.0)
    for _ in range(600):
        for batch in batches:
            optimizer.zero_grad()
            frame_loss(free.relu()[batch], labels[batch], frame, margin=1.0).backward()
            optimizer.step()
    reached = torch.nn.functional.normalize(free.detach().relu())
    assert torch.allclose(reached, frame[labels], atol=0.02)


@pytest.mark.parametrize(("k", "dim"), [(1, 1), (3, 3), (3, 8), (5, 12)])
def test_frame(k, dim):
    frame = make_frame(k, dim, dtype=torch.float64)
    assert frame.shape == (k, dim)
    assert bool((frame >= 0).all())
    assert torch.allclose(frame @ frame.T, torch.eye(k, dtype=torch.float64))
    assert bool((frame > 0).any(0).all())  # no axis is left over


def test_arrays_and_gradients():
    features = np.abs(np.random.default_rng(0).normal(size=(5, 4))).astype(np.float32)
    labels, frame = np.array([0, 1, 2, 2, 1]), make_frame(3, 4)
    tensor = torch.from_numpy(features).requires_grad_()
    loss = frame_loss(tensor, torch.from_numpy(labels), frame)
    assert loss.item() == float(frame_loss(features, labels, frame.numpy()))
    loss.backward()
    assert tensor.grad.abs().sum() > 0
    zero = torch.zeros(2, 4, requires_grad=True)
    frame_loss(zero, [0, 1], frame).backward()
    assert zero.grad.abs().sum() == 0


def test_gradient_by_differences():
    features, labels, frame, temperature, shares, margin = drawn((3, 2, 4, 0.4, 0.3, 5))
    features.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda rows: frame_loss(rows, labels, frame, temperature=temperature, shares=shares, margin=margin), features
    )


def test_no_rows():
    assert float(frame_loss(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), make_frame(3, 3))) == 0
    assert float(frame_floor([], 3)) == 0


def test_nothing_is_read_from_the_device_in_a_step():
    """Reading a value would make a GPU wait."""
    loss, labels = FrameLoss(3, 5, shares=[0.5, 0.3, 0.2], margin=0.2), torch.tensor([0, 1, 2, 2])
    features = torch.rand(4, 5, requires_grad=True)
    with torch.profiler.profile() as profile:
        loss(features, labels).backward()
    assert "aten::_local_scalar_dense" not in {event.key for event in profile.key_averages()}


def test_compiles_whole():
    loss, labels = FrameLoss(3, 5, margin=0.2), torch.tensor([0, 1, 2, 2])
    features = torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(features, labels), loss(features, labels))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[1.0, 0.0]], [2]), {}, "label 2 has no row in the frame: labels go from 0 to 1"),
        (([[1.0, 0.0]], [2]), {"margin": 0.5}, "label 2 has no row in the frame"),
        (([[1.0, 0.0]], [-100]), {}, "label -100 has no row"),
        (([[1.0, 0.0, 0.0]], [0]), {}, r"frame must have shape \[k, 3\]"),
        (([[1.0, 0.0]], [0, 1]), {}, "labels must have shape"),
        (([[1.0, 0.0]], [0]), {"shares": [0.5, 0.0]}, "shares must be positive"),
        (([[1.0, 0.0]], [0]), {"shares": [1.0]}, "shares must have shape"),
        (([[1.0, 0.0]], [0]), {"temperature": 0.0}, "temperature must be"),
        (([[1.0, 0.0]], [0]), {"margin": math.inf}, "margin must be"),
        (([[1.0, 0.0]], [0]), {"reduction": "max"}, "reduction must be one of"),
    ],
)
def test_errors(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        frame_loss(*arguments, make_frame(2, 2), **options)


def test_too_few_dimensions():
    with pytest.raises(OptionError, match="dim must be at least 3, the number of classes, not 2"):
        make_frame(3, 2)


def test_a_schedule_sets_the_weight():
    loss, labels = FrameLoss(2, 4), torch.tensor([0, 0, 1])
    features = torch.rand(3, 4, generator=torch.Generator().manual_seed(1))
    alone = loss(features, labels)
    loss.supcon = 2.0
    assert torch.allclose(loss(features, labels), alone + 2 * SupConLoss()(features, labels))
    assert "supcon=2.0" in repr(loss)


@given(cases)
def test_collapsed_rows(case):
    """All rows alike, and equally far from every row of the frame: the shares are all that is left."""
    _, labels, frame, temperature, shares, margin = drawn(case)
    options = {"temperature": temperature, "shares": shares, "margin": margin, "reduction": "none"}
    alike = frame.sum(0).expand(len(labels), -1)
    terms = frame_collapsed(labels, len(frame), **options)
    assert torch.allclose(reference.frame_terms(alike, labels, frame, temperature, shares, margin), terms, rtol=1e-9)
    if not margin:
        assert torch.allclose(terms, -(shares / shares.sum()).log()[labels], rtol=1e-12)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=5), st.floats(0.05, 5.0), st.booleans(), st.integers(0, 2**31))
def test_no_other_common_row_is_better(counts, temperature, even, seed):
    """With the shares of the rows and no margin, or equal shares and any margin; features may even be negative."""
    counts = torch.tensor([counts[0]] * len(counts) if even else counts)
    k, random = len(counts), torch.Generator().manual_seed(seed)
    labels, margin = torch.arange(k).repeat_interleave(counts), 0.7 if even else 0.0
    options = {"temperature": temperature, "shares": counts.double(), "margin": margin}
    stuck = frame_collapsed(labels, k, **options)
    for scale in (0.01, 0.3, 3.0):
        row = torch.ones(k, dtype=torch.float64) + scale * torch.randn(k, generator=random, dtype=torch.float64)
        loss = frame_loss(row.expand(len(labels), -1), labels, make_frame(k, k, dtype=torch.float64), **options)
        assert float(loss) >= float(stuck) - 1e-12 / temperature


@given(cases)
def test_the_gap_of_a_row_bounds_its_angles(case):
    features, labels, frame, temperature, shares, margin = drawn(case)
    features = frame[labels] + (case[-1] % 100 / 100) ** 3 * features
    terms = reference.frame_terms(features, labels, frame, temperature, shares, margin)
    gaps = terms - frame_floor(
        labels, len(frame), temperature=temperature, shares=shares, margin=margin, reduction="none"
    )
    cosines = features @ frame.T / features.norm(dim=1, keepdim=True)
    weights = shares[labels] / shares.sum()
    others = (cosines * shares).sum(1) - cosines[range(len(labels)), labels] * shares[labels]
    departures = 1 - cosines[range(len(labels)), labels] + others / (shares.sum() - shares[labels])
    options = {"temperature": temperature, "margin": margin}
    bound = angle_bound(gaps + 1e-13 / temperature, 1, 1 - weights, own_weight=weights, **options)
    assert bool((departures <= bound + 1e-12).all())


@pytest.mark.parametrize("temperature", [0.1, 0.5])
@pytest.mark.parametrize("margin", [0.0, 0.5, 1.2])
def test_the_rate_is_a_curvature(temperature, margin):
    """A row that turns within the axes of its class: the second derivative of its term, without a factor for others."""
    shares, frame = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64), make_frame(3, 6, dtype=torch.float64)
    options = {"temperature": temperature, "margin": margin}
    for y in range(3):
        t = torch.zeros((), dtype=torch.float64, requires_grad=True)
        turn = torch.zeros(6, dtype=torch.float64)
        turn[y], turn[y + 3] = 0.5**0.5, -(0.5**0.5)
        term = reference.frame_terms((frame[y] + t * turn)[None], [y], frame, shares=shares, **options).sum()
        (slope,) = torch.autograd.grad(term, t, create_graph=True)
        (bend,) = torch.autograd.grad(slope, t)
        expected = decay_rate(1, 1 - shares[y], own_weight=shares[y], fixed=True, **options)
        assert math.isclose(float(bend), float(expected), rel_tol=1e-9)


def test_the_fastest_temperature_of_a_row():
    share, margin = 0.2, 0.3
    best = float(fastest_temperature(1, 1 - share, own_weight=share, margin=margin))

    def force(temperature):
        return (1 - share) / (share * math.exp((1 - margin) / temperature) + 1 - share) / temperature

    assert force(best) >= max(force(best * factor) for factor in np.geomspace(0.05, 20, 999)) * (1 - 1e-12)


def test_a_schedule_sets_the_temperature_of_both_parts():
    features, labels = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 0, 1, 1])
    later = FrameLoss(2, 4, supcon=0.5)
    later.temperature = 0.7
    assert torch.equal(later(features, labels), FrameLoss(2, 4, temperature=0.7, supcon=0.5)(features, labels))
    with pytest.raises(OptionError, match="temperature must be from"):
        later.temperature = 0.0
