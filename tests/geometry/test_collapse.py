"""CDNV, NC3 and NC4 against their definitions, and what must not change them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from orthoframe import ClassStatistics, measure
from orthoframe.geometry import _statistics, geometry_of
from orthoframe.geometry._arrangement import classifier_distance
from orthoframe.geometry._statistics import class_distance_variance

LABELS = st.lists(st.integers(0, 3), min_size=4, max_size=24).filter(lambda y: len(set(y)) > 1)
SEEDS = st.integers(0, 999)


def draw(rows, dim, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def unit(rows):
    return torch.nn.functional.normalize(rows, dim=1)


@given(labels=LABELS, dim=st.integers(2, 6), seed=SEEDS)
def test_equal_to_the_definitions(labels, dim, seed):
    features, k = draw(len(labels), dim, seed), len(set(labels))
    weights, bias = draw(k, dim, seed + 1), draw(k, 1, seed + 2)[:, 0]
    geometry = measure(features, labels, classifier=weights, bias=bias)
    assert math.isclose(geometry.cdnv, reference.cdnv(unit(features), labels), rel_tol=1e-9)
    # Differences of numbers of length 1, whose squares are rounded to 1e-16.
    assert math.isclose(geometry.nc3, reference.nc3(weights, unit(features), labels), rel_tol=1e-9, abs_tol=1e-12)
    assert geometry.nc4 == reference.nc4(weights, bias, features, labels, geometry.means)
    raw = measure(features, labels, classifier=weights.numpy(), normalize=False)
    assert math.isclose(raw.cdnv, reference.cdnv(features, labels), rel_tol=1e-9)
    assert math.isclose(raw.nc3, reference.nc3(weights, features, labels), rel_tol=1e-9, abs_tol=1e-12)
    assert raw.nc4 == reference.nc4(weights, torch.zeros(k), features, labels, raw.means)


@given(labels=LABELS, seed=SEEDS, scale=st.floats(1e-3, 1e3))
def test_rotations_scales_and_shifts(labels, seed, scale):
    features, k = draw(len(labels), 5, seed), len(set(labels))
    weights, bias, rotation = draw(k, 5, seed + 1), draw(k, 1, seed + 2)[:, 0], torch.linalg.qr(draw(5, 5, seed + 3))[0]
    one = measure(features, labels, classifier=weights, bias=bias, normalize=False)
    # Larger features and smaller weights: the classifier says the same.
    turned = (scale * features @ rotation, weights @ rotation / scale)
    other = measure(turned[0], labels, classifier=turned[1], bias=bias, normalize=False)
    assert math.isclose(one.cdnv, other.cdnv, rel_tol=1e-8)
    assert math.isclose(one.nc3, other.nc3, rel_tol=1e-8, abs_tol=1e-10)
    assert one.nc4 == other.nc4
    shifted = measure(features + 7.0, labels, classifier=weights, normalize=False)
    assert math.isclose(one.cdnv, shifted.cdnv, rel_tol=1e-8)
    assert math.isclose(one.nc3, shifted.nc3, rel_tol=1e-8, abs_tol=1e-10)


@given(labels=LABELS, seed=SEEDS)
def test_zero_at_collapse(labels, seed):
    """Rows that are their class mean, and a classifier that is dual to the means."""
    names = sorted(set(labels))
    means = unit(draw(len(names), 5, seed))
    features = means[[names.index(label) for label in labels]]
    dual = 3.0 * (means - means.mean(0))
    geometry = measure(features, labels, classifier=dual, bias=-dual @ means.mean(0))
    assert geometry.cdnv < 1e-28  # squares of rounding errors
    assert geometry.nc3 < 1e-14
    assert geometry.to_dict()["nc4"] == geometry.nc4
    opposite = measure(features, labels, classifier=-dual)
    assert math.isclose(opposite.nc3, 2.0, rel_tol=1e-12)


def test_a_frame_and_its_dual_classifier_agree():
    labels = [0] * 9 + [1] * 3 + [2]
    frame = torch.eye(3, 6)[labels]
    geometry = measure(frame, labels, classifier=torch.eye(3, 6) - torch.eye(3, 6).mean(0))
    assert (geometry.cdnv, geometry.nc4) == (0.0, 0.0)
    assert geometry.nc3 < 1e-7  # float32
    assert "classifier: NC3, NC4" in str(geometry)
    wrong = measure(frame, labels, classifier=torch.eye(3, 6)[[1, 0, 2]])
    assert wrong.nc4 == 12 / 13
    plain = measure(frame, labels)
    assert (plain.nc3, plain.nc4) == (None, None)
    assert "nc3" not in plain.to_dict()
    assert "classifier" not in str(plain)
    assert plain.to_dict()["cdnv"] == 0.0


def test_the_classifier_gets_features_as_they_are_given():
    """With a bias, lengths decide; the centres are compared by angle all the same."""
    features, labels = torch.tensor([[3.0, 1.0], [0.3, 0.1], [0.1, 0.9]]), [0, 0, 1]
    weights, bias = torch.eye(2), torch.tensor([-1.0, 0.0])
    assert measure(features, labels, classifier=weights, bias=bias).nc4 == 1 / 3
    assert measure(unit(features), labels, classifier=weights, bias=bias).nc4 == 2 / 3


def test_classes_without_rows():
    features, labels = draw(12, 4), [0, 2, 3] * 4
    weights = draw(5, 4, seed=1)
    geometry = measure(features, labels, num_classes=5, classifier=weights)
    here = measure(features, labels, classifier=weights[[0, 2, 3]])
    assert math.isclose(geometry.nc3, here.nc3, rel_tol=1e-12)
    said = (features @ weights.T).argmax(1)
    nearest = (unit(features) @ unit(geometry.means).T).argmax(1)
    assert geometry.nc4 == float((said != torch.tensor([0, 2, 3])[nearest]).double().mean())
    assert math.isclose(geometry.cdnv, here.cdnv, rel_tol=1e-12)


@given(labels=LABELS, cut=st.integers(1, 23), seed=SEEDS)
def test_cdnv_from_moments_in_any_parts(labels, cut, seed):
    features, labels = draw(len(labels), 4, seed), torch.tensor(labels)
    one, other = ClassStatistics(4, 4), ClassStatistics(4, 4, scatter=True)
    one.update(features[:cut], labels[:cut])
    other.update(features[cut:], labels[cut:])
    one.merge(other)
    assert math.isclose(geometry_of(one).cdnv, reference.cdnv(features, labels.tolist()), rel_tol=1e-9)


def test_means_that_nearly_coincide(monkeypatch):
    """Their distance is 1e-9 of their length: as a difference of products it would be lost."""
    monkeypatch.setattr(_statistics, "_PAIRS", 2)
    means = unit(draw(4, 6))[[0, 0, 0, 1, 2]] + torch.tensor([0.0, 1e-9, 3e-9, 0.0, 0.0]).double()[:, None]
    variances = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).double() * 1e-20
    pairs = [(a, b) for a in range(5) for b in range(a)]
    exact = [
        float(variances[a] + variances[b])
        / 2
        / math.fsum((x - y) ** 2 for x, y in zip(*means[[a, b]].tolist(), strict=True))
        for a, b in pairs
    ]
    assert math.isclose(class_distance_variance(means, variances), math.fsum(exact) / len(pairs), rel_tol=1e-12)


def test_values_that_are_not_defined():
    rows = draw(20, 4)
    twice = measure(torch.cat([rows, rows]), [0] * 20 + [1] * 20, classifier=torch.ones(2, 4))
    assert twice.cdnv == math.inf  # two means coincide
    assert twice.to_dict()["cdnv"] is None
    assert math.isnan(twice.nc3)
    assert math.isnan(measure(rows, [0] * 20).cdnv)  # no pair
    assert math.isnan(classifier_distance(torch.zeros(2, 4), torch.eye(2, 4)))


def test_weights_of_rows_count():
    features, labels, times = draw(20, 4), torch.arange(20) % 2, torch.arange(20) // 2 + 1  # the same for both
    weights = draw(2, 4, seed=5)
    geometry = measure(features, labels, classifier=weights, weights=times)
    repeated = measure(features.repeat_interleave(times, 0), labels.repeat_interleave(times), classifier=weights)
    for name in ("cdnv", "nc3", "nc4"):
        assert math.isclose(getattr(geometry, name), getattr(repeated, name), rel_tol=1e-10), name


@pytest.mark.parametrize(
    ("classifier", "bias", "message"),
    [
        (
            torch.ones(3, 4),
            None,
            r"classifier must have shape \[2, 4\], one row per class .*, not \[3, 4\]; .* num_classes",
        ),
        (np.ones((2, 5)), None, r"classifier must have shape \[2, 4\]"),
        (torch.ones(2, 4), torch.ones(3), r"bias must have shape \[2\], one number per class, not \[3\]"),
        (torch.full((2, 4), math.inf), None, "must be finite"),
        (torch.ones(2, 4), [1.0, math.nan], "must be finite"),
        (None, torch.ones(2), "bias belongs to a classifier"),
    ],
)
def test_classifiers_that_are_refused(classifier, bias, message):
    with pytest.raises(ValueError, match=message):
        measure(draw(6, 4), [0, 1] * 3, classifier=classifier, bias=bias)


def test_the_mean_of_all_samples_as_centre():
    """Zhu et al. centre class means by the mean of all samples: the same for balanced classes, and not for others."""

    def trace(features, labels):
        means = torch.stack([features[labels == c].mean(0) for c in range(3)])
        apart, centred = features - means[labels], means - features.mean(0)
        within, between = apart.T @ apart / len(features), centred.T @ centred / 3
        return float((within @ torch.linalg.pinv(between, rtol=1e-9)).trace()) / 3

    for counts, same in (([20, 20, 20], True), ([50, 5, 5], False)):
        labels = torch.arange(3).repeat_interleave(torch.tensor(counts))
        features = torch.eye(3, 6, dtype=torch.float64)[labels] + 0.2 * draw(60, 6)
        beta_nc = measure(features, labels, normalize=False).beta_nc
        assert math.isclose(beta_nc, trace(features, labels), rel_tol=1e-9) == same
