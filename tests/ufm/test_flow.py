"""Gradient flow near the frame decays as predicted, and fastest at the predicted temperature."""

import math

import pytest
import torch

from orthoframe import decay_rate, fastest_temperature, gradient_flow, make_frame, measure, solve_ufm
from orthoframe.ufm import random_rows

COUNTS = torch.tensor([12, 12, 4, 4])
LABELS = torch.repeat_interleave(torch.arange(4), COUNTS)


def rate(counts, temperature, denominator, c, margin=0.0):
    """Measured and predicted rate at which the spread of class c decays, close to a frame."""
    k = len(counts)
    labels = torch.repeat_interleave(torch.arange(k), counts)
    means = torch.kron(torch.eye(k, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64)) / 3**0.5
    frame = means[labels]
    noise = torch.randn(frame.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start = frame + 1e-4 * noise * (frame > 0)  # turned inside the dimensions that the class owns
    others = torch.full_like(counts, k - 1) if denominator == "class-average" else counts.sum() - counts
    options = {"temperature": temperature, "denominator": denominator, "margin": margin}
    predicted = float(decay_rate(counts - 1, others, **options)[c])
    path = gradient_flow(labels, start, [0.0, 1 / predicted], **options)
    rows = path.features[:, labels == c]
    spread = (rows - rows.mean(1, keepdim=True)).square().sum((1, 2)).sqrt()
    return float(torch.log(spread[0] / spread[1])) * predicted, predicted


@pytest.mark.parametrize("denominator", ["all", "sincere", "negatives", "class-average"])
@pytest.mark.parametrize("temperature", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("c", [0, 3])
def test_the_spread_decays_as_predicted(denominator, temperature, c):
    measured, predicted = rate(COUNTS, temperature, denominator, c)
    assert measured == pytest.approx(predicted, rel=0.01)
    if denominator != "negatives":
        measured, predicted = rate(COUNTS, temperature, denominator, c, margin=0.5)
        assert measured == pytest.approx(predicted, rel=0.01)


def test_weights_multiply_the_rates():
    """An anchor weight is a factor; a class weight changes the share of the negatives."""
    labels, frame = [0, 0, 0, 1, 1], torch.kron(torch.eye(2), torch.ones(1, 3)).double() / 3**0.5
    noise = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start = frame[labels] * (1 + 1e-4 * noise)
    predicted = 5.0 * float(decay_rate(2, 2 * 3.0, temperature=0.4, own_weight=0.5))
    weights = {"class_weights": [0.5, 3.0], "anchor_weights": [5.0, 1.0]}
    path = gradient_flow(labels, start, [0.0, 1 / predicted], temperature=0.4, **weights)
    rows = path.features[:, :3]
    spread = (rows - rows.mean(1, keepdim=True)).square().sum((1, 2)).sqrt()
    assert float(torch.log(spread[0] / spread[1])) == pytest.approx(1.0, rel=0.01)


def test_a_row_approaches_the_frame_alone():
    """By the frame term, at the rate of a positive that does not move."""
    labels, frame = [0, 0, 0, 1], make_frame(2, 6, dtype=torch.float64)
    noise = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start = frame[labels] * (1 + 1e-4 * noise)
    for c, share in ((0, 0.75), (1, 0.25)):
        predicted = float(decay_rate(1, 1 - share, own_weight=share, temperature=0.3, margin=0.2, fixed=True))
        options = {"temperature": 0.3, "margin": 0.2, "frame": True, "supcon": 0.0}
        path = gradient_flow(labels, start, [0.0, 1 / predicted], **options)
        off = (path.features - frame[labels])[:, 3 * c].norm(dim=1)
        assert float(torch.log(off[0] / off[1])) == pytest.approx(1.0, rel=0.01)


def time_to_the_frame(**options):
    """When the distance of class means to a frame falls below 0.01, for three classes of 8 rows in 8 dimensions."""
    labels = torch.arange(3).repeat_interleave(8)
    times = torch.logspace(-2, 3, 80, dtype=torch.float64)
    path = gradient_flow(labels, random_rows(24, 8, True, 0), times, **options)
    distances = [measure(rows, labels).delta_of for rows in path.features]
    after = next(i for i, distance in enumerate(distances) if distance < 0.01)
    # The distance falls exponentially, so that its logarithm is followed between two times.
    levels = torch.tensor(distances).log()
    part = (levels[after - 1] - math.log(0.01)) / (levels[after - 1] - levels[after])
    return float(times[after - 1] * (times[after] / times[after - 1]) ** part)


def test_a_margin_makes_a_small_temperature_fast():
    """At 0.1; with 60, 120 and 240 times the same number to 3 %, which is what the steps of the flow leave open."""
    assert time_to_the_frame() == pytest.approx(307, rel=0.05)
    assert time_to_the_frame(margin=0.5) == pytest.approx(2.18, rel=0.05)
    assert time_to_the_frame(margin=1.0) == pytest.approx(0.151, rel=0.05)
    assert time_to_the_frame(frame=True, supcon=0.0, margin=0.5) < time_to_the_frame(frame=True, supcon=0.0) / 50


@pytest.mark.parametrize("denominator", ["all", "sincere"])
def test_the_fastest_temperature_is_where_the_formula_says(denominator):
    counts = torch.tensor([8, 8, 8])
    best = float(fastest_temperature(7, 16, denominator=denominator))
    measured = {t: rate(counts, t * best, denominator, 0)[0] for t in (0.8, 0.9, 1.0, 1.1, 1.25)}
    assert max(measured, key=measured.get) == 1.0
    # A quadratic through the logarithms around the peak has it within a few per cent of the formula.
    left, middle, right = (measured[t] for t in (0.9, 1.0, 1.1))
    peak = 1.0 + 0.05 * (left - right) / (left - 2 * middle + right)
    assert peak == pytest.approx(1.0, abs=0.03)


def test_the_flow_goes_downhill_to_where_the_solver_ends():
    labels = [0] * 6 + [1] * 4 + [2] * 3
    start = random_rows(13, 6, True, 5)
    path = gradient_flow(labels, start, torch.linspace(0, 60, 30), temperature=1.0)
    assert bool((path.losses.diff() <= 1e-9).all())
    assert bool((path.features >= 0).all())
    torch.testing.assert_close(path.features[0], start)
    solution = solve_ufm(labels, 6, temperature=1.0, start=path.features[-1])
    assert float(path.losses[-1]) == pytest.approx(solution.loss, abs=1e-6)


def test_a_flow_that_has_come_to_rest_ends():
    """At a small temperature forces are soon below rounding, and time without end takes no time."""
    path = gradient_flow([0, 0, 1, 1], random_rows(4, 3, True, 0), [0.0, 1e20], temperature=0.02)
    assert bool(path.features.isfinite().all())


def test_halving_the_steps_changes_little():
    """Two goals on the way make steps shorter; the path is the same."""
    labels = [0] * 4 + [1] * 4
    start = random_rows(8, 4, False, 1)
    once = gradient_flow(labels, start, [2.0], temperature=0.5, nonnegative=False)
    often = gradient_flow(labels, start, torch.linspace(0, 2, 400), temperature=0.5, nonnegative=False)
    torch.testing.assert_close(once.features[-1], often.features[-1], atol=2e-3, rtol=0)


@pytest.mark.parametrize("times", [[], [[0.0]], [-1.0], [0.0, 0.0], [1.0, 0.5], [0.0, float("nan")]])
def test_times_that_are_refused(times):
    with pytest.raises(ValueError, match="increasing numbers"):
        gradient_flow([0, 0, 1, 1], torch.ones(4, 2), times)
