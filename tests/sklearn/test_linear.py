"""The linear path: what it is equal to, when it is chosen, and sparse rows."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_blobs, make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from orthoframe.geometry import NearestCentre
from orthoframe.sklearn import FrameClassifier, StopReason
from orthoframe.sklearn._fit import _best, _is_better, linear_path
from orthoframe.sklearn._network import TableEncoder

ROWS, LABELS = make_blobs([120, 40, 15], 5, cluster_std=5.0, random_state=1)
LINEAR = FrameClassifier(hidden=(), adjust=None, class_weight=None, random_state=0)


@pytest.mark.parametrize("classes", [2, 3])
def test_alone_it_is_balanced_logistic_regression(classes, monkeypatch):
    monkeypatch.setattr("orthoframe.sklearn._fit._STRENGTHS", (1.0,))
    rows, labels = ROWS[classes > LABELS], LABELS[classes > LABELS]
    fitted = clone(LINEAR).fit(rows, labels)
    standard = StandardScaler().fit_transform(rows)
    peer = LogisticRegression(class_weight="balanced", max_iter=2000).fit(standard, labels)
    np.testing.assert_array_equal(fitted.predict(rows), peer.predict(standard))
    # Its features are the roots of the probabilities, and the cosine to an axis is a coordinate.
    np.testing.assert_allclose(fitted.transform(rows), np.sqrt(peer.predict_proba(standard)), atol=1e-4)
    np.testing.assert_allclose(fitted.rule_.scores(fitted.transform(rows)), fitted.transform(rows), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(fitted.transform(rows), axis=1), 1, rtol=1e-12)
    assert (fitted.stopped_, fitted.linear_share_, fitted.n_iter_) == (StopReason.SOLVED, 1.0, 1)
    assert fitted.certificate_ is None


def test_a_weight_is_a_repeated_row_in_it():
    weights = np.arange(len(LABELS)) % 3
    one = linear_path(ROWS, LABELS, weights / 2, 1.0)
    # The penalty stands beside the number of rows.
    other = linear_path(ROWS.repeat(weights, axis=0), LABELS.repeat(weights), None, len(LABELS) / weights.sum())
    torch.testing.assert_close(one.weight, other.weight, rtol=0, atol=2e-3)


def test_scores_of_both_are_mixed_by_the_share():
    encoder = TableEncoder(5, (8, 6), seed=1, classes=3, share=0.25)
    rows = torch.randn(20, 5, generator=torch.Generator().manual_seed(0))
    both, network = encoder(rows), TableEncoder(5, (8, 6), seed=1)(rows)
    torch.testing.assert_close(both[:, :6], network * 0.75**0.5)
    torch.testing.assert_close(both[:, 6:].square(), 0.25 * encoder.linear(rows).softmax(1))
    fitted = FrameClassifier(random_state=0).fit(*load_breast_cancer(return_X_y=True))
    fitted.encoder_.share, dim = 0.25, fitted.encoder_.dim
    fitted.encoder_.linear = torch.nn.Linear(30, 2).double()
    features = fitted.transform(load_breast_cancer().data)
    fitted.centres_ = np.random.default_rng(0).random((2, dim + 2))
    cosines = NearestCentre(fitted.centres_[:, :dim]).scores(features[:, :dim] / 0.75**0.5)
    expected = 0.75 * cosines + 0.5 * torch.from_numpy(features[:, dim:])
    np.testing.assert_allclose(NearestCentre(fitted.rule_.centres).scores(features), expected, atol=1e-12)


def test_cross_fitting_takes_the_path_that_suits_the_table():
    rows, labels = make_circles(300, noise=0.1, factor=0.4, random_state=0)  # no line tells them apart
    assert FrameClassifier(random_state=0).fit(rows, labels).linear_share_ < 1
    noise = np.random.default_rng(0)
    rows = noise.normal(size=(300, 20))
    labels = (rows[:, 0] + 2 * noise.normal(size=300) > 1).astype(int)
    assert FrameClassifier(random_state=0).fit(rows, labels).linear_share_ > 0


def test_a_choice_needs_more_than_its_standard_error():
    truth = torch.tensor([0] * 100 + [1] * 4)
    right, wrong = torch.eye(2)[truth], 1 - torch.eye(2)[truth]
    one_row = right.clone()
    one_row[-1] = wrong[-1]
    assert not _is_better(right, one_row, truth)  # a gain of 1/8, and an error of 1/8
    two_rows = right.clone()
    two_rows[-2:] = wrong[-2:]
    assert _is_better(right, two_rows, truth)  # 1/4, and 0.18
    assert not _is_better(right, two_rows, truth, errors=2)
    assert _best(torch.stack([two_rows, right, wrong, right, right]), truth) == 4  # the neighbour of another good one


@pytest.mark.parametrize("labels", [LABELS, LABELS > 0], ids=["three classes", "two classes"])
def test_sparse_rows(labels, tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    words = random.random((len(labels), 400)) * (random.random((len(labels), 400)) < 0.02)
    words[:, :3] = np.eye(3)[LABELS] * random.random((len(labels), 1))
    rows = csr_array(words)
    fitted = FrameClassifier(random_state=0).fit(rows, labels)
    assert fitted.linear_share_ == 1.0
    assert fitted.score(rows, labels) > 0.8
    monkeypatch.setattr("orthoframe.sklearn._classifier._ENTRIES_AT_ONCE", 4000)  # ten rows are dense at a time
    dense = fitted.predict_proba(rows.toarray())
    np.testing.assert_allclose(fitted.predict_proba(rows), dense, rtol=1e-9)
    length = np.sqrt((rows.toarray() ** 2).sum(1).mean())
    peers = (
        LinearSVC(C=c, class_weight="balanced", random_state=0).fit(rows / length, labels)
        for c in (3, 1, 0.3, 0.1, 0.03)
    )
    plain = FrameClassifier(adjust=None, random_state=0).fit(rows, labels).predict(rows)
    assert any((peer.predict(rows / length) == plain).mean() > 0.99 for peer in peers)
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(
        FrameClassifier.load(tmp_path / "model").predict_proba(rows), fitted.predict_proba(rows)
    )
    with pytest.raises(ValueError, match=r"sparse rows are not for hidden=\(8,\).*TruncatedSVD"):
        FrameClassifier(hidden=(8,)).fit(rows, labels)


def test_there_is_no_partial_fit_and_it_says_why():
    assert not hasattr(FrameClassifier(), "partial_fit")
    with pytest.raises(AttributeError, match=r"no partial_fit, because .*call fit with all rows"):
        FrameClassifier().partial_fit  # noqa: B018
