"""Gradient flow near the frame decays as predicted, and fastest at the predicted temperature."""

import pytest
import torch

from orthoframe import decay_rate, fastest_temperature, gradient_flow, solve_ufm
from orthoframe.ufm import random_rows

COUNTS = torch.tensor([12, 12, 4, 4])
LABELS = torch.repeat_interleave(torch.arange(4), COUNTS)


def rate(counts, temperature, denominator, c):
    """Measured and predicted rate at which the spread of class c decays, close to a frame."""
    k = len(counts)
    labels = torch.repeat_interleave(torch.arange(k), counts)
    means = torch.kron(torch.eye(k, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64)) / 3**0.5
    frame = means[labels]
    noise = torch.randn(frame.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start = frame + 1e-4 * noise * (frame > 0)  # turned inside the dimensions that the class owns
    others = torch.full_like(counts, k - 1) if denominator == "class-average" else counts.sum() - counts
    predicted = float(decay_rate(counts - 1, others, temperature=temperature, denominator=denominator)[c])
    path = gradient_flow(labels, start, [0.0, 1 / predicted], temperature=temperature, denominator=denominator)
    rows = path.features[:, labels == c]
    spread = (rows - rows.mean(1, keepdim=True)).square().sum((1, 2)).sqrt()
    return float(torch.log(spread[0] / spread[1])) * predicted, predicted


@pytest.mark.parametrize("denominator", ["all", "sincere", "negatives", "class-average"])
@pytest.mark.parametrize("temperature", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("c", [0, 3])
def test_the_spread_decays_as_predicted(denominator, temperature, c):
    measured, predicted = rate(COUNTS, temperature, denominator, c)
    assert measured == pytest.approx(predicted, rel=0.01)


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
    few = path.evenly(7)
    assert len(few.times) <= 7
    assert float(few.times[0]) == 0
    torch.testing.assert_close(few.features[-1], path.features[-1], atol=1e-6, rtol=0)


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
