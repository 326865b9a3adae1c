"""One pass, any order, any split."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoframe import ClassStatistics
from orthoframe.geometry import _statistics


def draw(rows, dim, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def of(features, labels, k=3, **options):
    statistics = ClassStatistics(k, features.shape[1], **options)
    statistics.update(features, labels)
    return statistics


def assert_same(one, other, tolerance=1e-12):
    assert torch.equal(one.counts, other.counts)
    assert torch.allclose(one.means, other.means, rtol=tolerance, atol=tolerance)
    assert torch.allclose(one.spreads, other.spreads, rtol=tolerance, atol=tolerance)
    if one.within is not None:
        assert torch.allclose(one.within, other.within, rtol=tolerance, atol=tolerance)
    assert one.dead_rows == other.dead_rows


@given(
    labels=st.lists(st.integers(0, 2), min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    seed=st.integers(0, 999),
)
def test_any_split_in_any_order(labels, cuts, seed):
    labels, features = torch.tensor(labels), draw(len(labels), 4, seed)
    whole = of(features, labels)
    edges = [0, *sorted(min(cut, len(labels)) for cut in cuts), len(labels)]
    parts = [slice(a, b) for a, b in pairwise(edges)]
    updated = ClassStatistics(3, 4)
    for part in parts[::-1]:
        updated.update(features[part], labels[part])
    assert_same(updated, whole)
    merged = ClassStatistics(3, 4)
    for part in parts:
        merged.merge(of(features[part], labels[part]))
    assert_same(merged, whole)


def test_definitions():
    features, labels = draw(30, 4), torch.arange(30) % 3
    statistics = of(features, labels)
    for c in range(3):
        rows = features[labels == c]
        assert torch.allclose(statistics.means[c], rows.mean(0))
        assert torch.allclose(statistics.spreads[c], ((rows - rows.mean(0)) ** 2).sum())
    apart = features - statistics.means[labels]
    assert torch.allclose(statistics.within, apart.T @ apart)
    assert torch.allclose(statistics.within.trace(), statistics.spreads.sum())


def test_chunks_change_nothing(monkeypatch):
    features, labels = draw(50, 4), torch.arange(50) % 3
    whole = of(features, labels)
    monkeypatch.setattr(_statistics, "CHUNK", 12)
    assert_same(of(features, labels), whole)


def test_no_cancellation_far_from_the_origin():
    """A spread of 1e-9 around a mean of length 1, over many updates."""
    noise, labels = draw(400, 5), torch.arange(400) % 2
    base = torch.nn.functional.normalize(draw(2, 5, seed=9))[labels]
    statistics = ClassStatistics(2, 5)
    for start in range(0, 400, 16):
        part = slice(start, start + 16)
        statistics.update(base[part] + 1e-9 * noise[part], labels[part])
    exact = of(noise, labels, k=2)
    assert torch.allclose(statistics.spreads, 1e-18 * exact.spreads, rtol=1e-5)


def test_wide_features_without_scatter():
    features, labels = draw(20, 6), torch.arange(20) % 3
    lean = of(features, labels, scatter=False)
    assert lean.within is None
    assert_same(lean, of(features, labels, scatter=False))
    assert torch.allclose(lean.spreads, of(features, labels).spreads)
    with pytest.raises(ValueError, match="can be merged"):
        lean.merge(of(features, labels))


def test_a_refused_update_adds_nothing():
    features, labels = draw(10, 4), torch.arange(10) % 3
    statistics = of(features, labels)
    bad = features.clone()
    bad[4, 1] = float("inf")
    for wrong, y in ((bad, labels), (features, labels + 5), (features[:, :3], labels), (features, labels[:3])):
        with pytest.raises(ValueError, match=r"features\[4, 1\] is inf|label 7 at|features must have|labels must have"):
            statistics.update(wrong, y)
    assert_same(statistics, of(features, labels))
