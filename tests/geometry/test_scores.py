"""Scores that make up for class sizes: against a slow search, closed forms, invariances, and the Bayes rule."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive
from scipy.stats import vonmises_fisher

from orthoframe import NearestCentre
from orthoframe.geometry import Calibration, accuracy_of, fit_adjustment

NAN = float("nan")


def draw(rows, dim, seed=0):
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def balanced_cross_entropy(cosines, labels, shares, slope, adjust):
    """The definition, row by row."""
    by_class = {}
    for row, label in zip(cosines.tolist(), labels.tolist(), strict=True):
        scores = [slope * (x - adjust * math.log(n / max(shares))) for x, n in zip(row, shares, strict=True)]
        largest = max(scores)
        total = largest + math.log(sum(math.exp(score - largest) for score in scores))
        by_class.setdefault(label, []).append(total - scores[label])
    return sum(sum(terms) / len(terms) for terms in by_class.values()) / len(by_class)


@given(seed=st.integers(0, 999), adjust=st.floats(-1, 1), k=st.integers(1, 4))
def test_scores_by_the_obvious_way(seed, adjust, k):
    features, centres = draw(6, 3, seed), draw(k, 3, seed + 1)
    shares = [1.5 + (seed * 7 + c * 13) % 11 for c in range(k)]
    rule = NearestCentre(centres, shares, adjust, temperature=0.3)
    cosines = NearestCentre(centres).scores(features)
    expected = [[x - adjust * math.log(n / max(shares)) for x, n in zip(row, shares, strict=True)] for row in cosines]
    expected = torch.tensor(expected, dtype=torch.float64)
    assert torch.allclose(rule.scores(features), expected, rtol=1e-13, atol=1e-13)
    assert torch.equal(rule.predict(features), rule.scores(features).argmax(1))
    assert torch.allclose(rule.confidences(features), (expected / 0.3).softmax(1), rtol=1e-12)


@given(seed=st.integers(0, 999), factor=st.floats(1e-3, 1e3))
def test_shares_have_no_scale_and_zero_is_the_nearest_centre(seed, factor):
    features, centres = draw(6, 3, seed), draw(4, 3, seed + 1)
    shares = np.array([100.0, 30.0, 2.0, 1.0])
    plain = NearestCentre(centres)
    assert torch.equal(NearestCentre(centres, shares).scores(features), plain.scores(features))
    one, other = NearestCentre(centres, shares, 0.2), NearestCentre(centres, torch.tensor(factor * shares), 0.2)
    assert torch.allclose(one.scores(features), other.scores(features), rtol=0, atol=1e-12)
    equal = NearestCentre(centres, [7, 7, 7, 7], 0.2)
    assert torch.equal(equal.scores(features), plain.scores(features))


def test_classes_without_a_centre_are_never_predicted_and_need_no_share():
    centres = torch.tensor([[1.0, 0.0], [NAN, NAN], [0.0, 1.0]])
    rule = NearestCentre(centres, [100, 0, 1], adjust=0.5, temperature=1.0)
    features = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
    assert rule.scores(features)[:, 1].tolist() == [-math.inf, -math.inf]
    assert rule.predict(features).tolist() == [2, 2]
    assert rule.confidences(features)[:, 1].tolist() == [0.0, 0.0]
    held_out, labels = draw(30, 2).abs(), torch.arange(30) % 3
    fitted = NearestCentre.fitted(centres, [100, 0, 1], held_out, labels)
    without = NearestCentre.fitted(centres[[0, 2]], [100, 1], held_out[labels != 1], labels[labels != 1] // 2)
    assert (fitted.adjust, fitted.temperature) == (without.adjust, without.temperature)


@settings(max_examples=15)
@given(seed=st.integers(0, 999))
def test_the_fit_is_the_best_of_a_slow_search(seed):
    """No point of a grid, and none near the answer, has a smaller loss by more than the search's own tolerance."""
    cosines, labels = draw(24, 3, seed) * 0.3, torch.arange(24) % 3
    cosines[torch.arange(24), labels] += 0.3
    cosines[labels == 2, 2] -= 0.2
    shares = [50.0, 10.0, 1.0]
    fitted = fit_adjustment(cosines, labels, shares)
    most = 2 / math.log(50)
    assert 0 <= fitted <= most
    slopes = np.geomspace(0.1, 100, 61)

    def best(adjust):
        return min(balanced_cross_entropy(cosines, labels, shares, slope, adjust) for slope in slopes)

    # At the grid's slopes: a step of 12 % from the best slope costs up to the tolerance.
    assert best(fitted) <= min(map(best, np.linspace(0, most, 13))) + 2e-3


def test_the_fit_in_closed_form():
    """Two classes with cosine differences +-d about an offset: by symmetry the threshold is in the middle."""
    margins, offset, shares = torch.tensor([0.3, -0.05, 0.1, 0.2]), 0.25, [20.0, 1.0]
    first = torch.stack([margins + offset, torch.zeros(4)], 1)
    second = torch.stack([-margins + offset, torch.zeros(4)], 1)
    cosines, labels = torch.cat([first, second]).double(), torch.tensor([0] * 4 + [1] * 4)
    assert fit_adjustment(cosines, labels, shares) == pytest.approx(offset / math.log(20), rel=1e-5)
    # Rows that are there several times change nothing: each class counts the same.
    again = torch.cat([cosines, first.double(), first.double()])
    labels = torch.cat([labels, torch.zeros(8).long()])
    assert fit_adjustment(again, labels, shares) == pytest.approx(offset / math.log(20), rel=1e-5)


def test_fits_that_have_nothing_to_say():
    cosines, labels = draw(20, 2).abs(), torch.arange(20) % 2
    assert fit_adjustment(cosines, labels, [5, 5]) == 0.0
    assert fit_adjustment(cosines[:0], labels[:0], [9, 5]) == 0.0
    assert fit_adjustment(torch.zeros(20, 2), labels, [9, 5]) == 0.0
    for only in (0, 1):  # rows of one class do not say where it ends
        assert fit_adjustment(cosines, torch.full((20,), only), [9, 5]) == 0.0
    # Small classes win too often: by the sign of lambda the nearest centre is the best of these rules.
    assert fit_adjustment(cosines + torch.tensor([0.0, 0.3]), labels, [9, 5]) == 0.0
    nothing = NearestCentre.fitted(torch.eye(2), [9, 5], torch.empty(0, 2), torch.empty(0).long())
    assert (nothing.adjust, nothing.temperature) == (0.0, None)
    with pytest.raises(ValueError, match="confidences need a temperature"):
        nothing.confidences(torch.eye(2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adjust": 0.1}, "adjust is 0.1, and there are no shares"),
        ({"shares": [1, 0]}, "shares must be positive and finite; the share of class 1 is 0"),
        ({"shares": [-2, 1]}, "the share of class 0 is -2"),
        ({"shares": [1, NAN]}, "the share of class 1 is nan"),
        ({"shares": [1, 2, 3]}, r"shares must have shape \[2\], one per class, not \[3\]"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"adjust": NAN}, "adjust must be finite"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        NearestCentre(torch.eye(2), **options)


def log_normaliser(kappa, dim):
    """log C(kappa) of the von Mises-Fisher density, up to what all kappa share."""
    order = dim / 2 - 1
    return order * math.log(kappa) - math.log(ive(order, kappa)) - kappa


@pytest.mark.parametrize("seed", range(3))
def test_it_comes_near_the_bayes_rule_where_small_classes_scatter_more(seed):
    """Von Mises-Fisher features around a frame, whose concentration grows with the class size."""
    k = dim = 8
    counts = np.array([1000, 500, 200, 100, 50, 20, 10, 5])
    kappas = 3.0 * counts**0.4  # 47 to 6
    random = np.random.default_rng(seed)

    def rows_of(number):
        drawn = [vonmises_fisher(np.eye(dim)[c], kappas[c], seed=random).rvs(number) for c in range(k)]
        return torch.from_numpy(np.concatenate(drawn)), torch.arange(k).repeat_interleave(number)

    fitted = NearestCentre.fitted(torch.eye(k), counts, *rows_of(20))
    features, labels = rows_of(1000)
    cosines = NearestCentre(torch.eye(k)).scores(features)
    bayes = torch.from_numpy(kappas) * cosines + torch.tensor([log_normaliser(x, dim) for x in kappas])
    names = list(range(k))
    plain, best = (accuracy_of(scores, labels, names).balanced for scores in (cosines, bayes))
    balanced = accuracy_of(fitted.scores(features), labels, names).balanced
    assert plain < balanced <= best + 0.005  # 8,000 rows: a standard error of at most 0.005
    assert balanced - plain > 0.5 * (best - plain)
    calibration = Calibration.fitted(fitted.scores(features), labels)
    assert calibration is not None
    assert fitted.temperature == pytest.approx(calibration.temperature, rel=0.4)  # from 160 rows


def test_the_order_of_rows_and_classes_does_not_matter():
    cosines, labels, shares = draw(30, 3, 4) * 0.3, torch.arange(30) % 3, torch.tensor([90.0, 9.0, 3.0])
    cosines[torch.arange(30), labels] += torch.tensor([0.6, 0.4, 0.3])[labels]
    adjust = fit_adjustment(cosines, labels, shares)
    assert adjust > 0
    for order in itertools.permutations(range(3)):
        new = torch.tensor(order)
        rows = torch.randperm(30, generator=torch.Generator().manual_seed(sum(order)))
        again = fit_adjustment(cosines[rows][:, new], new.argsort()[labels[rows]], shares[new])
        assert again == pytest.approx(adjust, rel=1e-4)


def test_scores_of_a_wider_range():
    """Those of a linear classifier that has learnt class shares: taking their logarithm off is what is best."""
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor([0.9, 0.09, 0.01], dtype=torch.float64)
    labels = torch.arange(3).repeat_interleave(4000)
    means = 3 * torch.eye(3, dtype=torch.float64)
    rows = means[labels] + torch.randn(len(labels), 3, generator=generator, dtype=torch.float64)
    logits = rows @ means.T - means.square().sum(1) / 2 + shares.log()
    # The optimum of the balanced problem, exactly; sampling moves it by a few hundredths.
    assert fit_adjustment(logits, labels, shares) == pytest.approx(1.0, abs=0.1)
