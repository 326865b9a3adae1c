"""The measures against their definitions and against exact arrangements."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference
from orthoframe import NearestCentre, measure
from orthoframe.geometry import Arrangement, _measure, accuracy_of, etf_gram

NAMES = ("delta_of", "delta_etf", "beta_nc", "collapse_trace", "mean_cosine", "max_cosine", "norm_ratio")


def draw(rows, dim, seed=0, dtype=torch.float64):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def etf(k, dim):
    """The vertices of a simplex around the origin."""
    return torch.cat([torch.eye(k, dtype=torch.float64) - 1 / k, torch.zeros(k, dim - k, dtype=torch.float64)], 1)


@given(
    labels=st.lists(st.integers(0, 3), min_size=4, max_size=30).filter(lambda y: len(set(y)) > 1),
    dim=st.integers(2, 6),
    seed=st.integers(0, 999),
)
def test_equals_the_definitions(labels, dim, seed):
    features = draw(len(labels), dim, seed)
    geometry, expected = measure(features, labels), reference.geometry(features, labels)
    for name in NAMES:
        assert math.isclose(getattr(geometry, name), expected[name], rel_tol=1e-8, abs_tol=1e-11), name


def test_an_exact_orthogonal_frame():
    labels = torch.tensor([0] * 50 + [1] * 5 + [2] * 2)
    geometry = measure(torch.eye(3, 8)[labels], labels)
    assert geometry.delta_of < 1e-15
    assert geometry.delta_etf < 1e-15  # a centred frame is an ETF
    assert geometry.beta_nc < 1e-15
    assert geometry.max_cosine == geometry.mean_cosine == 0
    assert geometry.norm_ratio == 1
    assert geometry.ownership.owners.tolist() == [0, 1, 2] + [-1] * 5
    assert (geometry.ownership.owned, geometry.ownership.shared, geometry.ownership.dead) == (3, 0, 5)
    assert geometry.accuracy.balanced == geometry.accuracy.worst == 1
    assert "form an orthogonal frame, and classes have collapsed" in str(geometry)


def test_an_exact_etf():
    labels = torch.arange(10).repeat_interleave(3)
    geometry = measure(etf(10, 12)[labels], labels)
    assert abs(geometry.delta_of - 0.3204) < 5e-5  # the theory's figure
    assert geometry.delta_etf < 1e-14
    assert math.isclose(geometry.mean_cosine, -1 / 9, rel_tol=1e-12)
    assert "a simplex ETF, not an orthogonal frame" in geometry.verdict()
    assert geometry.distance_to(etf_gram(10)) < 1e-14
    with pytest.raises(ValueError, match=r"target must have shape \[10, 10\]"):
        geometry.distance_to(torch.eye(3))


def test_collapse_of_a_billionth_is_measured():
    """Features that differ by 1e-9 of their length: differences of large sums would see nothing but rounding."""
    labels = torch.arange(4).repeat_interleave(200)
    noise = draw(800, 6)
    features = torch.eye(4, 6, dtype=torch.float64)[labels]
    near = features + 1e-9 * noise
    geometry, scaled = measure(near, labels), measure(features + 1e-3 * noise, labels)
    assert math.isclose(geometry.beta_nc, 1e-12 * scaled.beta_nc, rel_tol=1e-2)  # the square, up to curvature
    assert math.isclose(geometry.beta_nc, reference.geometry(near, labels.tolist())["beta_nc"], rel_tol=1e-6)


def test_rotation_changes_ownership_and_nothing_else():
    labels = torch.arange(3).repeat_interleave(20)
    features = torch.eye(3, 5, dtype=torch.float64)[labels] + 0.05 * draw(60, 5).abs()
    rotation = torch.linalg.qr(draw(5, 5, seed=3))[0]
    one, other = measure(features, labels), measure(features @ rotation, labels)
    for name in NAMES:
        assert math.isclose(getattr(one, name), getattr(other, name), rel_tol=1e-9, abs_tol=1e-12), name
    assert one.accuracy.by_class == other.accuracy.by_class
    assert math.isclose(one.accuracy.margin, other.accuracy.margin, rel_tol=1e-9)
    assert one.ownership.owned >= 3
    assert other.ownership.owned < 3


def test_order_and_names_of_classes():
    labels = ["emu"] * 3 + ["cat"] * 9 + ["dog"] * 6
    features = draw(18, 4)
    order = torch.randperm(18, generator=torch.Generator().manual_seed(0))
    one = measure(features, labels)
    other = measure(features[order], [labels[i] for i in order])
    assert one.names == ("cat", "dog", "emu")
    assert one.counts == (9, 6, 3)
    for name in NAMES:
        assert math.isclose(getattr(one, name), getattr(other, name), rel_tol=1e-10)


def test_classes_that_are_missing_are_said_to_be():
    features, labels = draw(12, 5), torch.arange(12) % 3
    geometry = measure(features, labels + 1, num_classes=6)
    assert geometry.missing == (0, 4, 5)
    assert geometry.names == (1, 2, 3)
    assert math.isclose(geometry.delta_of, measure(features, labels).delta_of, rel_tol=1e-14)
    assert "classes without rows" in str(geometry)
    assert geometry.to_dict()["missing"] == [0, 4, 5]


def test_one_sample_in_a_class_and_one_class():
    geometry = measure(torch.eye(3), [0, 1, 2])
    assert geometry.spreads.tolist() == [0, 0, 0]
    assert geometry.beta_nc == 0
    alone = measure(torch.eye(3), [7, 7, 7])
    assert alone.verdict() == "One class: there is nothing to compare."
    assert math.isnan(alone.beta_nc)
    assert json.loads(json.dumps(alone.to_dict()))["beta_nc"] is None


def test_dead_rows_are_counted():
    features = torch.eye(3, 4)[torch.tensor([0, 1, 2, 0])]
    features[3] = 0
    geometry = measure(features, [0, 1, 2, 0])
    assert geometry.dead_rows == 1
    assert math.isfinite(geometry.delta_of)


def test_accuracy_of_halves_and_worst_class():
    """Class 2 lies where class 0 is; classes by size are 0, 1 and then 2."""
    features = torch.tensor([[1.0, 0, 0]] * 6 + [[0, 1.0, 0]] * 4 + [[1.0, 0, 0], [0, 0, 1.0]])
    labels = [0] * 6 + [1] * 4 + [2] * 2
    accuracy = measure(features, labels).accuracy
    assert accuracy.worst_class == 2
    assert accuracy.worst == 0.5
    assert math.isclose(accuracy.overall, 11 / 12)
    assert math.isclose(accuracy.balanced, 2.5 / 3)
    assert accuracy.majority == 1.0
    assert accuracy.minority == 0.75
    assert accuracy.by_class == (1.0, 1.0, 0.5)


def test_means_and_thresholds():
    labels = torch.arange(3).repeat_interleave(4)
    features = torch.eye(3, 5, dtype=torch.float64)[labels] + 0.05 * draw(12, 5).abs()
    unit = torch.nn.functional.normalize(features)
    geometry = measure(features, labels)
    expected = torch.stack([unit[labels == c].mean(0) for c in range(3)])
    assert geometry.means.dtype == torch.float64
    assert torch.allclose(geometry.means, expected, rtol=1e-12)
    assert (geometry.orthogonal, geometry.collapsed) == (False, True)
    assert geometry.arrangement is Arrangement.NEITHER
    frame = measure(torch.eye(3)[labels], labels)
    assert frame.orthogonal
    assert frame.collapsed
    assert frame.arrangement is Arrangement.FRAME
    assert frame.to_dict()["arrangement"] == "frame"
    assert measure(torch.eye(3), [7, 7, 7]).collapsed is False


def test_accuracy_is_that_of_the_nearest_mean():
    features, labels = draw(60, 4), torch.arange(60) % 3
    geometry = measure(features, labels)
    scores = NearestCentre(geometry.means).scores(features)
    accuracy = accuracy_of(scores, labels, geometry.names)
    assert accuracy.by_class == geometry.accuracy.by_class
    assert math.isclose(accuracy.margin, geometry.accuracy.margin, rel_tol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_other_dtypes_and_arrays(dtype):
    features, labels = draw(40, 6).to(dtype), np.arange(40) % 4
    exact = measure(features.double(), labels)
    assert math.isclose(measure(features, labels).delta_of, exact.delta_of, rel_tol=1e-6)
    array = features.double().numpy()
    assert measure(array, labels).delta_of == exact.delta_of
    assert measure(np.asfortranarray(array), labels.tolist()).delta_of == pytest.approx(exact.delta_of, rel=1e-12)


def test_wide_features_need_no_square(monkeypatch):
    features, labels = draw(60, 12), torch.arange(60) % 4
    full = measure(features, labels)
    monkeypatch.setattr(_measure, "WIDE", 4)
    monkeypatch.setattr(_measure, "CHUNK", 36)
    wide = measure(features, labels)
    for name in NAMES:
        assert math.isclose(getattr(full, name), getattr(wide, name), rel_tol=1e-10), name


def test_without_normalising():
    labels = torch.arange(3).repeat_interleave(4)
    features = torch.diag(torch.tensor([1.0, 2.0, 5.0]))[labels]
    assert measure(features, labels, normalize=False).norm_ratio == 5
    assert measure(features, labels).norm_ratio == 1


def test_json_and_words():
    geometry = measure(draw(30, 5), [0, 1, 2] * 10)
    data = json.loads(json.dumps(geometry.to_dict()))
    assert data["delta_of"] == geometry.delta_of
    assert data["cosines"] == geometry.cosines.tolist()
    assert data["accuracy"]["balanced"] == geometry.accuracy.balanced
    assert "neither an orthogonal frame nor a simplex ETF" in str(geometry)


@pytest.mark.parametrize(
    ("features", "labels", "options", "kind", "message"),
    [
        (torch.zeros(3), [0, 0, 1], {}, ValueError, r"features must have shape \[rows, dim\], not \[3\]"),
        (torch.eye(3), [0, 1], {}, ValueError, "features have 3 rows and labels 2"),
        (torch.eye(3).long(), [0, 1, 1], {}, TypeError, "features must be floating point"),
        (torch.eye(3), [0.5, 1, 1], {}, TypeError, "labels must be integers or strings"),
        (torch.eye(3), [0, 1, 3], {"num_classes": 3}, ValueError, "label 3 at position 2, and num_classes is 3"),
        (torch.eye(3), list("abc"), {"num_classes": 3}, TypeError, "num_classes is for integer labels"),
        (torch.empty(0, 3), [], {}, ValueError, "no rows to measure"),
        (torch.tensor([[1.0, 2.0], [1.0, math.nan]]), [0, 1], {}, ValueError, r"features\[1, 1\] is nan"),
        (torch.tensor([[1.0, math.inf], [1.0, 1.0]]), [0, 1], {}, ValueError, r"features\[0, 1\] is inf"),
    ],
)
def test_errors(features, labels, options, kind, message):
    with pytest.raises(kind, match=message):
        measure(features, labels, **options)


def test_a_nan_far_down_is_found():
    features = torch.ones(20000, 4)
    features[17003, 2] = math.nan
    with pytest.raises(ValueError, match=r"features\[17003, 2\] is nan"):
        measure(features, torch.arange(20000) % 3)


def test_a_wrong_label_far_down_is_found():
    labels = torch.zeros(200_000, dtype=torch.long)
    labels[190_003] = 9
    with pytest.raises(ValueError, match="label 9 at position 190003, and num_classes is 3"):
        measure(torch.ones(200_000, 4), labels, num_classes=3)


def raw_moments(features, labels):
    """What rhubarbwu/neural-collapse starts from: class means, and the covariance within classes over all rows."""
    means = torch.stack([features[labels == c].mean(0) for c in range(int(labels.max()) + 1)])
    apart = features - means[labels]
    return means, apart.T @ apart / len(features)


def test_variability_collapse_as_others_define_it():
    """Their NC1 is tr(Sigma_W Sigma_B^+)/k with a pseudo-inverse over all directions: the same number."""
    labels = torch.arange(5).repeat_interleave(30)
    features = torch.nn.functional.normalize(etf(5, 7)[labels] + 0.1 * draw(150, 7))
    means, within = raw_moments(features, labels)
    centred = means - means.mean(0)
    between = centred.T @ centred / 5
    expected = float((within @ torch.linalg.pinv(between, rtol=1e-10)).trace()) / 5
    assert math.isclose(measure(features, labels).beta_nc, expected, rel_tol=1e-9)


def test_accuracy_of_classes_that_are_close_together_in_float32():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 10
    means = 1e-4 * torch.randn(10, 64, generator=generator) + torch.randn(64, generator=generator)
    features = (means[labels] + 1e-6 * torch.randn(200, 64, generator=generator)).float()
    assert measure(features, labels).accuracy.overall == 1.0


@pytest.mark.parametrize("length", [1.0, 100.0])
def test_spread_at_right_angles_to_all_means_is_no_collapse(length):
    """Each class is spread evenly around its mean, over dimensions of its own: beta_NC is zero."""
    rows = length * torch.eye(12, dtype=torch.float64)
    geometry = measure(rows, torch.arange(12) // 4, normalize=False)
    assert geometry.beta_nc < 1e-12
    assert abs(geometry.spread - 0.75) < 1e-12
    assert geometry.verdict() == "Class means form an orthogonal frame, and classes have not collapsed."
    assert geometry.to_dict()["spread"] == geometry.spread


def test_means_that_coincide_are_no_collapse():
    rows = draw(50, 8)
    geometry = measure(torch.cat([rows, rows]), torch.arange(100) // 50)
    assert math.isnan(geometry.beta_nc)
    assert geometry.arrangement is Arrangement.COINCIDENT
    assert not geometry.collapsed


@pytest.mark.parametrize("length", [1e-11, 1.0, 1e30, 1e200])
def test_the_length_of_rows_does_not_matter(length):
    features, labels = draw(30, 5), torch.arange(30) % 3
    geometry = measure(features * length, labels)
    assert geometry.dead_rows == 0
    assert math.isclose(geometry.delta_of, measure(features, labels).delta_of, rel_tol=1e-9)


def test_rows_that_are_too_short_to_have_a_direction_count_as_zero():
    features = torch.eye(3)
    features[2] *= 0.9e-12
    assert measure(features, [0, 1, 0]).dead_rows == 1


@pytest.mark.parametrize("size", [1e200, 1.5e308])
def test_sums_that_overflow_are_refused(size):
    with pytest.raises(ValueError, match="so large that their squares overflow"):
        measure(torch.full((20, 4), size, dtype=torch.float64), torch.arange(20) % 2, normalize=False)


@given(st.integers(0, 10**6), st.lists(st.integers(0, 3), min_size=4, max_size=20))
def test_the_distance_of_live_rows_is_that_without_the_others(seed, dead):
    """Rows of zeros change it by nothing, however they are spread over the classes."""
    labels = [0, 0, 1, 1, 2, 2, 3, 3]
    features = draw(8, 5, seed).abs()
    alone = measure(features, labels)
    both = measure(torch.cat([features, torch.zeros(len(dead), 5, dtype=torch.float64)]), [*labels, *dead])
    assert alone.live_delta_of == pytest.approx(alone.delta_of)
    assert both.live_delta_of == pytest.approx(alone.delta_of)
    assert both.dead_rows == len(dead)


def test_a_class_of_dead_rows_leaves_the_cosines_of_others():
    features = torch.eye(3, 4)
    features[2] = 0
    geometry = measure(features, [0, 1, 2])
    assert geometry.mean_cosine == geometry.max_cosine == 0
    assert "the mean of class 2 is zero" in geometry.verdict()


def test_strings_of_other_kinds():
    for dtype in ("S", object):
        geometry = measure(np.eye(2), np.array(["a", "b"], dtype=dtype))
        assert geometry.names == ("a", "b")
        json.dumps(geometry.to_dict())


def test_features_of_a_graph_are_measured_without_a_warning(recwarn):
    features = torch.eye(2, requires_grad=True).relu()
    assert measure(features, [0, 1]).delta_of == 0
    assert not recwarn.list
