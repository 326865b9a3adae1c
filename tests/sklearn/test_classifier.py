"""The classifier at work: what it learns, what it says, where it can be used."""

import io
import math

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_wine, make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from orthoframe import collapsed_loss, frame_collapsed, frame_floor, loss_floor, measure
from orthoframe.sklearn import FrameClassifier
from orthoframe.sklearn._fit import _enough_epochs
from orthoframe.sklearn._network import _dropout_factors

SMALL = FrameClassifier(hidden=(32, 16), epochs=30, adjust=None, random_state=0)


@pytest.fixture(scope="module")
def blobs():
    rows, labels = make_blobs([100, 30, 8], 5, centers=None, cluster_std=1.0, random_state=1)
    return rows, labels


@pytest.fixture(scope="module")
def fitted(blobs):
    return clone(SMALL).fit(*blobs)


def test_it_learns_a_table_with_columns_of_different_scales():
    rows, labels = load_wine(return_X_y=True)
    rows = rows * 10.0 ** np.arange(-6, 7)
    classifier = clone(SMALL).set_params(epochs=None).fit(rows[::2], labels[::2])
    assert classifier.n_iter_ == 100  # of one batch each
    assert classifier.score(rows[1::2], labels[1::2]) > 0.9


def test_features_are_unit_rows_of_the_orthant(fitted, blobs):
    features = fitted.transform(blobs[0])
    assert features.shape == (138, 16)
    assert features.min() >= 0
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, rtol=1e-12)
    assert fitted.transform(blobs[0].astype(np.float32)).dtype == np.float32
    assert list(fitted.get_feature_names_out()[:2]) == ["frameclassifier0", "frameclassifier1"]


def test_predictions_are_the_nearest_centres_by_the_obvious_way(fitted, blobs):
    rows, labels = blobs
    features = fitted.transform(rows)
    centres = np.stack([features[labels == c].mean(0) for c in range(3)])
    np.testing.assert_allclose(fitted.centres_, centres, rtol=1e-10)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    distances = ((features[:, None] - centres) ** 2).sum(2)
    np.testing.assert_array_equal(fitted.predict(rows), distances.argmin(1))
    cosines = fitted.decision_function(rows)
    np.testing.assert_allclose(2 - 2 * cosines, distances, atol=1e-12)
    shares = np.exp(cosines / 0.3) / np.exp(cosines / 0.3).sum(1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(rows), shares, rtol=1e-10)


@pytest.mark.parametrize("skewed", [False, True])
def test_the_accuracy_of_the_geometry_is_the_score(skewed, fitted, blobs):
    """Also where centres differ in length, and the nearest by angle is not always the nearest by distance."""
    rows, labels = blobs
    if skewed:  # hardly trained, and one class is wider than the others, so that its centre is shorter
        random = np.random.default_rng(0)
        rows, labels = random.normal(size=(200, 3)), np.repeat([0, 1, 2], [100, 60, 40])
        rows[labels > 0] = rows[labels > 0] * 0.1 + labels[labels > 0, None] - 1.5
        fitted = clone(SMALL).set_params(epochs=1, learning_rate=1e-3, temperature=0.5).fit(rows, labels)
        distances = ((fitted.transform(rows)[:, None] - fitted.centres_) ** 2).sum(2)
        assert (distances.argmin(1) != fitted.predict(rows)).any()
        assert fitted.geometry_.norm_ratio > 1.1
    assert fitted.geometry_.accuracy.overall == fitted.score(rows, labels)
    assert fitted.geometry_.accuracy.by_class == tuple(
        (fitted.predict(rows) == labels)[labels == number].mean() for number in range(3)
    )
    np.testing.assert_array_equal(fitted.centres_, fitted.geometry_.means)


def test_two_classes_have_one_decision(blobs):
    rows, labels = blobs
    classifier = clone(SMALL).fit(rows, labels == 0)
    decision = classifier.decision_function(rows)
    assert decision.shape == (138,)
    assert classifier.classes_.dtype == bool
    np.testing.assert_array_equal(decision > 0, classifier.predict(rows))
    np.testing.assert_array_equal(decision > 0, classifier.predict_proba(rows).argmax(1) == 1)


def floors_of(classifier, labels, epoch):
    """The mean of the floors of an epoch: over rows with the frame term, over batches with the contrastive loss."""
    batches = [torch.from_numpy(labels[batch]) for batch in classifier.plan_.batches(epoch)]
    if classifier.loss_ == "supcon":
        return np.mean([float(loss_floor(batch)) for batch in batches])
    shares = classifier.plan_.shares()
    return float(frame_floor(torch.cat(batches), len(shares), temperature=0.3, shares=shares))


@pytest.mark.parametrize("loss", ["frame", "supcon"])
def test_what_it_says_of_itself(loss, blobs):
    fitted = clone(SMALL).set_params(loss=loss, batch_size=32).fit(*blobs)
    assert fitted.loss_ == loss
    assert fitted.certificate_.holds
    assert fitted.geometry_.counts == (100, 30, 8)
    assert fitted.geometry_.delta_of == pytest.approx(measure(fitted.transform(blobs[0]), blobs[1]).delta_of)
    assert len(fitted.loss_curve_) == len(fitted.gap_curve_) == fitted.n_iter_
    assert fitted.loss_gap_ == fitted.gap_curve_[-1]
    for epoch in (0, fitted.n_iter_ - 1):
        floor = fitted.loss_curve_[epoch] - fitted.gap_curve_[epoch]
        assert floor == pytest.approx(floors_of(fitted, blobs[1], epoch))
        assert fitted.gap_curve_[epoch] > 0


@pytest.mark.parametrize("loss", ["frame", "supcon"])
def test_it_stops_by_itself_at_the_floor(loss):
    rows, labels = make_blobs([100, 30, 8], 5, cluster_std=0.1, random_state=1)
    classifier = FrameClassifier((64,), loss, 0.1, epochs=500, dropout=0.0, adjust=None, random_state=0).fit(
        rows, labels
    )
    assert classifier.stopped_ == "floor"
    assert classifier.n_iter_ < 100
    if loss == "supcon":
        batches = classifier.plan_.batches(classifier.n_iter_ - 1)
        counts = [torch.from_numpy(np.bincount(labels[batch])) for batch in batches]
        way = np.mean([float(collapsed_loss(class_counts=c) - loss_floor(class_counts=c)) for c in counts])
    else:
        drawn = np.concatenate(classifier.plan_.batches(classifier.n_iter_ - 1))
        options = {"temperature": 0.1, "shares": classifier.plan_.shares()}
        way = float(frame_collapsed(labels[drawn], 3, **options) - frame_floor(labels[drawn], 3, **options))
    assert classifier.loss_gap_ <= 0.01 * way


def test_epochs_where_none_are_given():
    """Twenty, or so many that there are 100 steps, or so few that there are 3,000, and at least five."""
    assert [_enough_epochs(batches) for batches in (1, 4, 5, 20, 150, 300, 10**6)] == [100, 25, 20, 20, 20, 10, 5]


def test_square_root_draws(blobs):
    """A class of n rows has a share in proportion to the root of n."""
    roots = np.sqrt([100, 30, 8])
    np.testing.assert_allclose(clone(SMALL).fit(*blobs).plan_.shares(), roots / roots.sum(), rtol=1e-6)


def test_the_same_seed_gives_the_same_bytes(blobs, fitted):
    state = torch.random.get_rng_state()
    again = clone(SMALL).fit(*blobs)
    assert torch.equal(state, torch.random.get_rng_state())
    assert again.loss_curve_ == fitted.loss_curve_
    np.testing.assert_array_equal(again.transform(blobs[0]), fitted.transform(blobs[0]))
    assert clone(SMALL).set_params(random_state=1).fit(*blobs).loss_curve_ != fitted.loss_curve_


def test_a_row_is_predicted_alone_as_among_others(fitted, blobs):
    alone = np.concatenate([fitted.transform(row[None]) for row in blobs[0][:20]])
    np.testing.assert_allclose(alone, fitted.transform(blobs[0])[:20], rtol=1e-9, atol=1e-12)


def test_strings_and_a_class_with_one_row(blobs):
    rows, labels = blobs
    names = np.array(["large", "middle", "small", "single"])[labels]
    names[0] = "single"
    classifier = clone(SMALL).set_params(epochs=60).fit(rows, names)
    assert classifier.classes_.tolist() == ["large", "middle", "single", "small"]
    assert classifier.certificate_.holds
    assert classifier.certificate_.components["single"] == 1
    assert classifier.geometry_.names == ("large", "middle", "single", "small")
    assert set(classifier.predict(rows)) <= set(names)
    objects = clone(SMALL).set_params(epochs=60).fit(rows, names.astype(object))
    np.testing.assert_array_equal(objects.predict(rows), classifier.predict(rows))
    floats = clone(SMALL).set_params(epochs=2).fit(rows, np.array([2.0, 3.0, 10.0])[labels])
    assert floats.classes_.dtype == float
    assert floats.geometry_.names == (2, 3, 10)
    assert floats.geometry_.counts == (100, 30, 8)


def test_without_binding_the_certificate_says_what_it_found(blobs):
    rows, labels = blobs
    options = {"loss": "supcon", "binding": "none", "batch_size": 4, "epochs": 1}
    assert not clone(SMALL).set_params(**options).fit(rows, labels).certificate_.holds


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_data_frames(kind, blobs, fitted):
    rows, labels = blobs
    names = [f"column {number}" for number in range(rows.shape[1])]
    if kind == "pandas":
        frame, target = pd.DataFrame(rows, columns=names), pd.Series(labels)
    else:
        frame, target = pl.DataFrame(rows, schema=names), pl.Series(labels)
    classifier = clone(SMALL).set_output(transform=kind).fit(frame, target)
    assert classifier.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(classifier.predict(frame), fitted.predict(rows))
    features = classifier.transform(frame)
    assert type(features) is type(frame)
    assert features.columns[0] == "frameclassifier0"
    words = ["a" if label else "b" for label in labels]
    texts = clone(SMALL).fit(frame, pd.Series(words) if kind == "pandas" else pl.Series(words))
    assert texts.predict(frame[:3]).tolist() == np.array(words)[:3].tolist()


def test_pipeline_search_and_scores(blobs):
    rows, labels = blobs
    pipeline = make_pipeline(MinMaxScaler(), clone(SMALL).set_params(epochs=10))
    scores = cross_val_score(pipeline, rows, labels, cv=3, scoring="balanced_accuracy")
    assert scores.mean() > 0.9
    assert cross_val_score(pipeline, rows, labels == 2, cv=3, scoring="roc_auc").mean() > 0.9
    search = GridSearchCV(pipeline, {"frameclassifier__temperature": [0.1, 0.5]}, cv=3).fit(rows, labels)
    assert search.best_score_ > 0.9


def test_joblib_takes_it_along(fitted, blobs):
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file).predict_proba(blobs[0]), fitted.predict_proba(blobs[0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 64}, r"hidden must .* such as \(256, 256\), not 64"),
        ({"hidden": (0, 32)}, "hidden must be at least 1, not 0"),
        ({"hidden": (32, 2)}, r"2 dimensions are too few for 3 classes.*use hidden=\(32, 3\)"),
        ({"activation": "tanh"}, "activation must be one of 'relu', .*, not 'tanh'"),
        ({"binding": "glue"}, "binding must be one of 'none', .*, not 'glue'"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"temperature": 0}, r"temperature must be from 0.001 to 1e\+06, not 0"),
        ({"tol": -1}, "tol must be at least 0 and finite, not -1"),
        ({"temperature": "0.1"}, "temperature must be a number, not str"),
        ({"dropout": None}, "dropout must be a number, not NoneType"),
        ({"device": None}, "device None is not available"),
        ({"loss": "mse"}, "loss must be one of 'frame', 'supcon', not 'mse'"),
        ({"adjust": "yes"}, "adjust must be one of 'cross-fit', not 'yes'"),
        ({"loss": "supcon", "binding": "none", "batch_size": 1}, "no batch of epoch 1 .* batch_size.*binding='fixed'"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"device": "abacus"}, "device 'abacus' is not available"),
        ({"learning_rate": 1e30, "dropout": 0.0}, r"the loss is nan in epoch \d; use a learning_rate below 1e[+]30"),
    ],
)
def test_options_that_are_refused(options, message, blobs):
    with pytest.raises((ValueError, TypeError), match=message):
        clone(SMALL).set_params(**options).fit(*blobs)


def test_a_column_whose_spread_overflows_is_refused(blobs):
    rows = blobs[0].copy()
    rows[:2, 1] = [-1e200, 1e200]
    with pytest.raises(ValueError, match="spread of column 1 is too large"):
        clone(SMALL).fit(rows, blobs[1])


def test_one_class_is_refused(blobs):
    with pytest.raises(ValueError, match="y has 1 class, 'a'; a classifier needs at least 2"):
        clone(SMALL).fit(blobs[0], ["a"] * 138)


@pytest.mark.parametrize("dropout", [0.2, 0.5, 0.9])
def test_dropout_keeps_the_mean(dropout):
    factors = _dropout_factors(torch.ones(999, 257), dropout, torch.Generator().manual_seed(0))
    dropped, kept = (factors == 0).double().mean().item(), factors.max().item()
    assert dropped == pytest.approx(dropout, abs=1 / 512 + 5 * math.sqrt(dropout * (1 - dropout) / factors.numel()))
    assert sorted(factors.unique().tolist()) == [0.0, pytest.approx(kept)]
    assert kept * (1 - round(256 * dropout) / 256) == pytest.approx(1)
