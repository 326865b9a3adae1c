"""Shares of blocks against loops over dimensions, and against exact frames."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoframe import NearestCentre, explain, measure


def draw(rows, dim, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def obvious(row, centres):
    """Shares of each class and the rest, a dimension at a time."""
    k, shares, rest = len(centres), [0.0] * len(centres), 0.0
    for j, value in enumerate(row.tolist()):
        energies = [float(centre[j]) ** 2 for centre in centres]
        if max(energies) == 0:
            rest += value**2
        else:
            shares[max(range(k), key=lambda c: energies[c])] += value**2
    total = sum(shares) + rest
    return ([share / total for share in shares], rest / total) if total else (shares, 1.0)


@given(k=st.integers(1, 5), dim=st.integers(1, 8), seed=st.integers(0, 999), relu=st.booleans())
def test_equals_the_definition(k, dim, seed, relu):
    features, centres = draw(7, dim, seed), draw(k, dim, seed + 1)
    if relu:
        features, centres = features.relu(), centres.relu()
    explanation = explain(features, centres)
    for number, row in enumerate(features):
        shares, rest = obvious(row, centres)
        assert explanation.shares[number].tolist() == pytest.approx(shares, abs=1e-12)
        assert float(explanation.unowned[number]) == pytest.approx(rest, abs=1e-12)
        assert float(explanation.outside[number]) == pytest.approx(
            1 - shares[int(explanation.winners[number])], abs=1e-12
        )
    assert torch.allclose(explanation.shares.sum(1) + explanation.unowned, torch.ones(7, dtype=torch.float64))
    unit = torch.nn.functional.normalize(features, dim=1)
    assert torch.equal(explanation.winners, NearestCentre(centres).predict(unit))


def test_at_a_frame_a_share_is_no_less_than_the_squared_cosine():
    centres = torch.zeros(3, 9, dtype=torch.float64)
    for c in range(3):
        centres[c, 3 * c : 3 * c + 3] = draw(1, 3, c).abs()
    unit = torch.nn.functional.normalize(centres, dim=1)
    assert torch.allclose(explain(unit, unit).shares, torch.eye(3, dtype=torch.float64))
    assert float(explain(unit, unit).outside.abs().max()) < 1e-15
    features = torch.nn.functional.normalize(draw(50, 9, 7).abs(), dim=1)
    assert bool((explain(features, unit).shares >= (features @ unit.T).square() - 1e-12).all())


def test_length_order_and_precision_do_not_matter():
    features, centres = draw(6, 5).abs(), draw(3, 5, 1).abs()
    explanation = explain(features, centres)
    long = explain((1e30 * features).float(), centres.float())
    assert torch.allclose(explanation.shares, long.shares, atol=1e-6)
    assert torch.allclose(long.shares.sum(1) + long.unowned, torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-14)
    turned = explain(features, centres.flip(0))
    assert torch.allclose(explanation.shares, turned.shares.flip(1))
    assert torch.allclose(explanation.outside, turned.outside)


def test_rows_and_classes_that_are_not_there():
    centres = torch.eye(3, 4)
    centres[1] = math.nan
    explanation = explain(torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]]), centres)
    assert explanation.shares.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert explanation.unowned.tolist() == [1, 1, 0]
    assert explanation.outside.tolist() == [1, 1, 0]
    assert int(explanation.winners[2]) == 2
    empty = explain(torch.zeros(0, 4), centres)
    assert (empty.shares.shape, empty.outside.shape) == ((0, 3), (0,))


@pytest.mark.parametrize(
    ("features", "centres", "error", "sentence"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), ValueError, r"with the same d, not \[2, 3\] and \[2, 4\]"),
        (torch.zeros(3), torch.zeros(2, 3), ValueError, r"not \[3\] and \[2, 3\]"),
        (torch.full((2, 3), math.inf), torch.eye(3), ValueError, "every feature must be finite"),
        (torch.ones(2, 3, dtype=torch.long), torch.eye(3), TypeError, "must be floating point"),
    ],
)
def test_what_cannot_be_explained(features, centres, error, sentence):
    with pytest.raises(error, match=sentence):
        explain(features, centres)


def test_the_table_of_owners():
    labels = ["cat"] * 6 + ["dog"] * 4 + ["emu"] * 2
    rows = torch.eye(3, 8, dtype=torch.float64)[torch.tensor([0] * 6 + [1] * 4 + [2] * 2)]
    rows[:6, 3], rows[6:10, 3] = 0.5, 0.25
    geometry = measure(rows, labels)
    ownership = geometry.ownership
    assert ownership.dimensions.tolist() == [2, 1, 1]
    assert ownership.inside.tolist() == pytest.approx([1, 1 / (1 + 0.25**2), 1])
    lines = ownership.table(geometry.names).splitlines()
    assert [line.split()[:2] for line in lines] == [["class", "dimensions"], ["cat", "2"], ["dog", "1"], ["emu", "1"]]
    entries = geometry.to_dict()["classes"]
    assert [entry["dimensions"] for entry in entries] == [2, 1, 1]
    zero = measure(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), ["a", "b"])
    assert zero.ownership.table(zero.names).splitlines()[2].split() == ["b", "0", "-", "-"]
    assert zero.to_dict()["classes"][1]["inside"] is None
