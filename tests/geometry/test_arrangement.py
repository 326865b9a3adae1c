"""What counts as a frame, for any number of classes; and class means between which there is nearly nothing."""

import math

import pytest
import torch

from orthoframe import measure
from orthoframe.geometry import (
    CLASS_COLLAPSE,
    Arrangement,
    distance_to_gram,
    etf_gram,
    frame_gram,
    is_frame,
)
from orthoframe.geometry._arrangement import cosine_blocks, etf_distance, frame_distance, near_pairs, pair_cosines
from orthoframe.options import FRAME_DISTANCE

SIZES = (2, 3, 10, 100, 800, 2000)
ROWS = 4  # per class


def frame(k):
    """Rows at a frame of k classes in k + 1 dimensions, and their labels."""
    labels = torch.arange(k).repeat_interleave(ROWS)
    return torch.eye(k, k + 1)[labels], labels


@pytest.mark.parametrize("k", SIZES)
def test_a_frame_of_any_size(k):
    geometry = measure(*frame(k))
    assert geometry.arrangement is Arrangement.FRAME
    assert geometry.collapsed


@pytest.mark.parametrize("k", SIZES[1:])
def test_one_merged_pair_is_no_frame(k):
    """The formula of the distance is that of the docstring of `FRAME_DISTANCE`."""
    features, labels = frame(k)
    features[labels == 1] = features[labels == 0]
    geometry = measure(features, labels)
    assert math.isclose(geometry.delta_of, math.sqrt(2 * (1 - math.sqrt(k / (k + 2)))), rel_tol=1e-9)
    assert (geometry.delta_of <= FRAME_DISTANCE) == (k >= 800)
    assert geometry.arrangement is not Arrangement.FRAME
    assert ("classes 0 and 1 are too near" in geometry.verdict()) == (k >= 800)
    assert geometry.collapsed


@pytest.mark.parametrize("k", [3, 10, 800])  # the centred means of two are an ETF
@pytest.mark.parametrize("cosine", [-1.0, -0.5])
def test_a_pair_that_points_apart_is_no_frame(k, cosine):
    features, labels = frame(k)
    features[labels == 1] = cosine * torch.eye(k + 1)[0] + math.sqrt(1 - cosine**2) * torch.eye(k + 1)[1]
    geometry = measure(features, labels)
    assert geometry.arrangement is Arrangement.NEITHER
    assert geometry.min_cosine == pytest.approx(cosine)
    assert (f"the smallest cosine of two is {cosine:.2f}" in geometry.verdict()) == (k >= 800)


@pytest.mark.parametrize("k", SIZES)
def test_one_spread_class_has_not_collapsed(k):
    """The rows of the last class are spread over two dimensions of its own, so that their mean is shorter, too."""
    features, labels = frame(k)
    last = torch.arange(ROWS) % 2
    features[labels == k - 1] = torch.eye(k + 1)[k - 1 + last]
    geometry = measure(features, labels)
    assert float(geometry.class_spreads.max()) == pytest.approx(0.5)
    assert geometry.arrangement is Arrangement.NEITHER
    assert not geometry.collapsed


def test_a_class_that_is_spread_a_little_has_not_collapsed():
    features, labels = frame(2000)
    angle = math.asin(math.sqrt(1.2 * CLASS_COLLAPSE))
    last = (torch.arange(ROWS) % 2) * 2 - 1
    features[labels == 1999, 1999] = math.cos(angle)
    features[labels == 1999, 2000] = math.sin(angle) * last
    geometry = measure(features, labels)
    assert geometry.orthogonal
    assert geometry.spread < 1e-3
    assert not geometry.collapsed


@pytest.mark.parametrize("k", SIZES)
def test_a_dead_class_is_no_frame(k):
    features, labels = frame(k)
    features[labels == 0] = 0
    geometry = measure(features, labels)
    assert geometry.arrangement is not Arrangement.FRAME
    assert "(the mean of class 0 is zero)" in geometry.verdict()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(20))
def test_rows_in_one_direction_coincide(dtype, seed):
    """Between their means are rounding errors, and the ratio to these says nothing."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.rand(7, generator=generator, dtype=dtype)
    lengths = torch.rand(60, 1, generator=generator, dtype=dtype) + 0.1
    geometry = measure(lengths * direction, torch.arange(60) % 6)
    assert geometry.arrangement is Arrangement.COINCIDENT
    assert geometry.collapsed
    assert geometry.verdict().startswith("Class means coincide: there is nearly nothing between classes")
    assert "not collapsed" not in geometry.verdict()


@pytest.mark.parametrize(("k", "dim"), [(2, 5), (6, 6), (7, 6), (8, 6), (30, 3), (5, 1)])
def test_distances_and_cosines_are_those_of_whole_matrices(k, dim):
    """With more classes than dimensions no matrix of pairs of classes is made."""
    means = torch.rand(k, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(k))
    centred, unit = means - means.mean(0), torch.nn.functional.normalize(means)
    assert math.isclose(frame_distance(means), distance_to_gram(means @ means.T, frame_gram(k)), rel_tol=1e-9)
    assert math.isclose(etf_distance(means), distance_to_gram(centred @ centred.T, etf_gram(k)), rel_tol=1e-9)
    pairs = (unit @ unit.T)[tuple(torch.triu_indices(k, k, 1))]
    assert pair_cosines(means) == pytest.approx((float(pairs.mean()), float(pairs.max())), rel=1e-12)
    expected = [(a, b) for a in range(k) for b in range(a + 1, k) if unit[a] @ unit[b] > 0.9]
    assert list(map(tuple, near_pairs(means, 0.9).T.tolist())) == expected


def test_whole_matrices_where_they_are_asked_for():
    features, labels = frame(3)
    features[labels == 0] = 0
    geometry = measure(features, labels)
    assert torch.equal(geometry.gram, torch.diag(torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)))
    zero = torch.tensor([True, False, False])
    assert torch.equal(geometry.cosines.isnan(), zero | zero[:, None])


def test_pairs_come_in_blocks(monkeypatch):
    means = torch.rand(9, 4, dtype=torch.float64)
    whole = pair_cosines(means)
    monkeypatch.setattr("orthoframe.geometry._arrangement._BLOCK", 20)
    assert [start for start, _ in cosine_blocks(means)] == [0, 2, 4, 6, 8]
    assert pair_cosines(means) == pytest.approx(whole, rel=1e-14)


def test_many_classes_need_no_matrix_of_pairs():
    """Ten thousand: every pair is looked at, and none is kept; the record leaves cosines out and says so by None."""
    k = 10_000
    features = torch.rand(2 * k, 16, generator=torch.Generator().manual_seed(0))
    geometry = measure(features, torch.arange(2 * k) % k)
    assert not {"gram", "cosines"} & vars(geometry).keys()
    assert geometry.max_cosine > 0.99
    assert geometry.to_dict()["cosines"] is None


def test_an_etf_has_no_merged_or_opposite_pair_either():
    k = 1200
    centred = torch.eye(k, dtype=torch.float64) - 1 / k
    assert measure(centred, torch.arange(k)).arrangement is Arrangement.ETF
    for sign in (1, -1):
        centred[1] = sign * centred[0]
        geometry = measure(centred, torch.arange(k))
        assert geometry.delta_etf < FRAME_DISTANCE
        assert geometry.arrangement is Arrangement.NEITHER


def test_the_definition():
    assert is_frame(0.05, 0.1, 1.1)
    assert is_frame(0.0, math.nan)  # one class has no pair
    assert not is_frame(0.051, 0.0)
    assert not is_frame(0.0, 0.0, min_cosine=-0.11)
    assert not is_frame(0.0, 0.11)
    assert not is_frame(0.0, 0.0, 1.11)
    assert not is_frame(math.nan, 0.0)
