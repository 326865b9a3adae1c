"""Weights of rows against repeated rows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoframe import ClassStatistics, measure
from orthoframe.geometry import _measure, _statistics

OF_CLASSES = ("delta_of", "delta_etf", "mean_cosine", "max_cosine", "norm_ratio", "spread")


def draw(rows, dim, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(
    labels=st.lists(st.integers(0, 2), min_size=4, max_size=20).filter(lambda y: len(set(y)) > 1),
    seed=st.integers(0, 999),
    scale=st.sampled_from([1.0, 1e-300, 1e300]),
)
def test_a_weight_is_a_number_of_rows(labels, seed, scale):
    features, labels = draw(len(labels), 4, seed), torch.tensor(labels)
    times = torch.from_numpy(np.random.default_rng(seed).integers(1, 4, size=len(labels)))
    geometry = measure(features, labels, weights=scale * times.double())
    repeated = measure(features.repeat_interleave(times, 0), labels.repeat_interleave(times))
    assert torch.allclose(geometry.means, repeated.means, rtol=1e-12, atol=1e-15)
    assert torch.allclose(geometry.spreads, repeated.spreads, rtol=1e-10, atol=1e-15)
    for name in OF_CLASSES:
        assert math.isclose(getattr(geometry, name), getattr(repeated, name), rel_tol=1e-9, abs_tol=1e-12), name
    assert geometry.accuracy.by_class == pytest.approx(repeated.accuracy.by_class, rel=1e-12)
    assert geometry.counts == measure(features, labels).counts


def test_classes_count_by_their_rows(monkeypatch):
    """Balanced classes with weights that add up to the same in each: even beta_NC is that of repeated rows."""
    features, labels = draw(12, 5), torch.arange(12) % 3
    times = torch.tensor([1, 2, 3, 4]).repeat_interleave(3)
    expected = measure(features.repeat_interleave(times, 0), labels.repeat_interleave(times)).beta_nc
    # The weights of class 1 are ten times those of the others, which makes no difference.
    weights = times * torch.tensor([1.0, 10.0, 1.0])[labels]
    assert math.isclose(measure(features, labels, weights=weights).beta_nc, expected, rel_tol=1e-10)
    monkeypatch.setattr(_measure, "WIDE", 4)
    monkeypatch.setattr(_measure, "CHUNK", 20)
    assert math.isclose(measure(features, labels, weights=weights.tolist()).beta_nc, expected, rel_tol=1e-10)


def test_moments_of_weighted_rows_in_parts(monkeypatch):
    features, labels, times = draw(30, 4), torch.arange(30) % 3, torch.arange(30) % 4 + 1
    repeated, weighted = ClassStatistics(3, 4), ClassStatistics(3, 4)
    repeated.update(features.repeat_interleave(times, 0), labels.repeat_interleave(times))
    monkeypatch.setattr(_statistics, "CHUNK", 12)
    weighted.update(features, labels, times / 64)  # sums below 1
    assert torch.allclose(64 * weighted.counts, repeated.counts)
    assert torch.allclose(weighted.means, repeated.means, rtol=1e-12, atol=1e-15)
    assert torch.allclose(64 * weighted.spreads, repeated.spreads, rtol=1e-12)
    assert torch.allclose(64 * weighted.within, repeated.within, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"weights must have shape \[3\], not \[2\]"),
        ([1.0, 0.0, 1.0], r"weights\[1\] is 0.0; weights must be positive and finite"),
        ([1.0, 1.0, math.nan], r"weights\[2\] is nan"),
    ],
)
def test_weights_that_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        measure(torch.eye(3), [0, 1, 1], weights=weights)
