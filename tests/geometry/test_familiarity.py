"""Rows of no known class: the threshold against closed forms, and its promise on new rows."""

import math

import pytest
import torch
from scipy.stats import beta, kstest

from orthoframe.errors import OptionError
from orthoframe.geometry import Familiarity


def drawn(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_largest_cosine_to_a_class_mean():
    rows, labels = drawn(12, 4) + 0.1, torch.tensor([0, 1, 3] * 4)
    rows[3] *= 100  # of the same direction: each row counts as much
    held_out = drawn(5, 4, seed=1)
    familiarity = Familiarity.fitted(rows, labels, 4, held_out)
    means = [sum(row / row.norm() for row in rows[labels == c]) / 4 for c in (0, 1, 3)]
    for row, score in zip(held_out, familiarity.held_out.tolist(), strict=True):
        assert score == pytest.approx(max(float(row @ mean / row.norm() / mean.norm()) for mean in means), abs=1e-12)
    assert familiarity.means[2].isnan().all()  # a class without rows is nothing that others are like
    assert torch.equal(familiarity.of(held_out), familiarity.held_out)


@pytest.mark.parametrize(
    ("n", "error", "rank"), [(99, 0.05, 5), (99, 0.07, 7), (100, 0.05, 5), (19, 0.05, 1), (3, 0.99, 3)]
)
def test_the_threshold_is_an_order_statistic(n, error, rank):
    """Also where error (n + 1) is a whole number that decimal fractions miss, such as 0.07 * 100."""
    scores = torch.randperm(n, generator=torch.Generator().manual_seed(n)).double()
    familiarity = Familiarity(torch.eye(2), scores)
    assert familiarity.threshold(error) == rank - 1
    assert rank / (n + 1) <= error + 1e-12


@pytest.mark.parametrize("n", [1, 9, 57, 136, 999])
def test_the_smallest_error_that_is_named_is_one(n):
    familiarity = Familiarity(torch.eye(2), torch.arange(float(n)))
    with pytest.raises(OptionError, match=f"with {n} validation image") as refusal:
        familiarity.threshold(0.4 / (n + 1))
    least = float(str(refusal.value).split("at least ")[1].split()[0])
    assert 1 / (n + 1) <= least < 1.1 / (n + 1)
    if least < 1:
        assert familiarity.threshold(least) == 0.0
    for wrong in (0.0, 1.0, math.nan, -0.1):
        with pytest.raises(OptionError, match="reject must be"):
            familiarity.threshold(wrong)


def test_rows_of_known_classes_are_refused_as_rarely_as_promised():
    """Of uniform scores the refused fraction, given the held-out rows, is the threshold itself: Beta(j, n + 1 - j)."""
    n, error, trials = 59, 0.1, 2000
    rank = 6  # of 60
    scores = drawn(trials, n, seed=5)
    thresholds = [Familiarity(torch.eye(2), row).threshold(error) for row in scores]
    mean, deviation = rank / (n + 1), beta(rank, n + 1 - rank).std()
    assert sum(thresholds) / trials == pytest.approx(mean, abs=4 * deviation / math.sqrt(trials))
    assert mean <= error
    assert kstest(thresholds, beta(rank, n + 1 - rank).cdf).pvalue > 0.001


def test_rows_that_are_not_finite_are_refused_and_equal_ones_are_not():
    familiarity = Familiarity(torch.eye(2), torch.ones(20))
    rows = torch.tensor([[1.0, 0.0], [0.0, 3.0], [1.0, 1.0], [math.nan, 1.0], [-1.0, -1.0]])
    assert familiarity.refused(rows, 0.1).tolist() == [False, False, True, True, True]
