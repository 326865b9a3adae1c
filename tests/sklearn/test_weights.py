"""Weights of rows and classes: what they are equal to, exactly or in the mean."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_circles
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from orthoframe import measure
from orthoframe.sklearn import FrameClassifier
from orthoframe.sklearn._fit import relative_weights

ROWS, LABELS = make_blobs([40, 20, 10], 4, cluster_std=4.0, random_state=2)
NAMES = np.array(["a", "b", "c"])[LABELS]
SMALL = FrameClassifier(hidden=(16, 8), epochs=8, learning_rate=0.02, class_weight=None, adjust=None, random_state=3)
# Powers of two, whose ratios are exact in single precision.
WHOLE = np.random.default_rng(0).choice([0, 1, 2, 4], size=70)


def saved(folder, *data, **weights):
    """All bytes of a fitted classifier."""
    clone(SMALL).fit(*data, **weights).save(folder / "model")
    return (folder / "model").read_bytes()


def test_a_weight_of_zero_is_a_row_that_is_not_there(tmp_path):
    there = WHOLE > 0
    removed = saved(tmp_path, ROWS[there], NAMES[there], sample_weight=WHOLE[there])
    assert saved(tmp_path, ROWS, NAMES, sample_weight=WHOLE) == removed
    two = LABELS != 1  # a whole class
    assert saved(tmp_path, ROWS, NAMES, sample_weight=two) == saved(tmp_path, ROWS[two], NAMES[two])


@pytest.mark.parametrize("factor", [2.0, 1 / 7, 1e-300, 3e300])
def test_only_ratios_of_weights_matter(factor, tmp_path):
    assert saved(tmp_path, ROWS, NAMES, sample_weight=factor * WHOLE) == saved(
        tmp_path, ROWS, NAMES, sample_weight=WHOLE
    )
    equal = np.full(70, factor)
    assert saved(tmp_path, ROWS, NAMES, sample_weight=equal) == saved(tmp_path, ROWS, NAMES)


def test_scales_centres_and_geometry_are_those_of_repeated_rows():
    fitted = clone(SMALL).fit(ROWS, LABELS, sample_weight=WHOLE)
    rows, labels = ROWS.repeat(WHOLE, axis=0), LABELS.repeat(WHOLE)
    np.testing.assert_allclose(fitted.mean_, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(fitted.scale_, rows.std(0), rtol=1e-12)
    repeated = measure(fitted.transform(rows), labels, normalize=False)
    np.testing.assert_allclose(fitted.centres_, repeated.means, rtol=1e-12, atol=1e-15)
    geometry = fitted.geometry_
    np.testing.assert_allclose(geometry.spreads, repeated.spreads, rtol=1e-10)
    for name in ("delta_of", "delta_etf", "mean_cosine", "max_cosine", "norm_ratio", "spread"):
        assert math.isclose(getattr(geometry, name), getattr(repeated, name), rel_tol=1e-10), name
    assert geometry.accuracy.by_class == pytest.approx(repeated.accuracy.by_class, rel=1e-12)
    assert geometry.accuracy.margin == pytest.approx(repeated.accuracy.margin, rel=1e-10)
    assert geometry.counts == tuple(np.bincount(LABELS[WHOLE > 0]))  # rows, not weights
    assert fitted.score(ROWS, LABELS) > 0.5


def test_weights_of_classes_are_factors_of_the_weights_of_their_rows(tmp_path):
    factors = {"a": 1, "b": 0.5, "c": 4}
    every = np.array([factors[name] for name in NAMES])
    weights = relative_weights(WHOLE, factors, NAMES)
    np.testing.assert_allclose(weights, WHOLE * every / (WHOLE * every).max(), rtol=1e-7)
    classifier = clone(SMALL).set_params(class_weight=factors).fit(ROWS, NAMES)
    np.testing.assert_array_equal(classifier.centres_, clone(SMALL).fit(ROWS, NAMES, sample_weight=every).centres_)
    balanced = relative_weights(WHOLE, "balanced", NAMES)
    np.testing.assert_allclose(np.bincount(LABELS, balanced), np.bincount(LABELS, balanced)[0], rtol=1e-6)
    roots = relative_weights(WHOLE, "square-root", NAMES)
    expected = np.sqrt(np.bincount(LABELS, WHOLE))
    np.testing.assert_allclose(np.bincount(LABELS, roots / roots.sum()), expected / expected.sum(), rtol=1e-6)
    plan = clone(SMALL).set_params(class_weight="balanced").fit(ROWS, NAMES).plan_
    np.testing.assert_allclose(plan.shares(), 1 / 3, rtol=1e-6)
    # A class that has no weight is not there, and need not be in the dictionary.
    two = clone(SMALL).set_params(class_weight={"a": 1, "c": 2}).fit(ROWS, NAMES, sample_weight=LABELS != 1)
    assert two.classes_.tolist() == ["a", "c"]
    assert clone(SMALL).set_params(class_weight={"a": 1, "b": 0, "c": 2}).fit(ROWS, NAMES).classes_.tolist() == [
        "a",
        "c",
    ]


def test_the_certificate_is_that_of_the_rows_that_were_drawn():
    weights = np.where(np.arange(70) % 7 == 0, 1e-12, 1.0)
    small = clone(SMALL).set_params(loss="supcon", learning_rate=None, tol=0.0)
    fitted = clone(small).fit(ROWS, LABELS, sample_weight=weights)
    assert not fitted.certificate_.holds  # ten rows are as good as never drawn
    assert max(fitted.certificate_.components.values()) > 1
    # A row of weight 1 is drawn in an epoch with a chance of about 0.4: twenty epochs suffice, and others bind it.
    assert clone(small).set_params(epochs=20).fit(ROWS, LABELS, sample_weight=1 + WHOLE).certificate_.holds


def test_a_file_has_the_weights(tmp_path):
    names = np.array([5, 7, 11])[LABELS]
    classifier = clone(SMALL).set_params(class_weight={5: np.float32(1), np.int64(7): 2, 11: 3.5})
    classifier.fit(ROWS, names, sample_weight=WHOLE).save(tmp_path / "model")
    loaded = FrameClassifier.load(tmp_path / "model")
    assert loaded.class_weight == classifier.class_weight
    assert all(map(np.array_equal, loaded.plan_.batches(3), classifier.plan_.batches(3)))
    assert loaded.certificate_.to_dict() == classifier.certificate_.to_dict()
    assert loaded.geometry_.counts == classifier.geometry_.counts
    np.testing.assert_array_equal(loaded.predict_proba(ROWS), classifier.predict_proba(ROWS))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_boosting():
    """Rows that the first round has wrong are drawn more often in the second."""
    rows, labels = make_circles(200, noise=0.1, factor=0.4, random_state=0)
    weak = FrameClassifier((8,), "supcon", binding="none", epochs=5, dropout=0.0, class_weight=None, adjust=None)
    boosted = AdaBoostClassifier(weak, n_estimators=8, random_state=1).fit(rows, labels)
    first, second, *_ = boosted.estimators_
    wrong = first.predict(rows) != labels
    assert first.plan_.weights is None
    drawn = np.bincount(np.concatenate([np.concatenate(second.plan_.batches(epoch)) for epoch in range(20)]))
    # SAMME gives both kinds half of the weight, and draws differ from what is expected by less than one per row.
    assert drawn[wrong].mean() / drawn[~wrong].mean() == pytest.approx((~wrong).sum() / wrong.sum(), rel=0.05)
    assert second.plan_.weights[wrong].sum() == pytest.approx(second.plan_.weights[~wrong].sum(), rel=1e-6)
    assert boosted.score(rows, labels) > first.score(rows, labels) + 0.05


def test_weights_reach_it_through_a_search():
    search = GridSearchCV(SMALL, {"epochs": [2, 4]}, cv=2).fit(ROWS, LABELS, sample_weight=WHOLE)
    direct = clone(search.best_estimator_).fit(ROWS, LABELS, sample_weight=WHOLE)
    np.testing.assert_array_equal(search.best_estimator_.centres_, direct.centres_)


def test_samplers_of_imbalanced_learn():
    ensemble = pytest.importorskip("imblearn.ensemble", reason="imbalanced-learn is not installed")
    boosted = ensemble.RUSBoostClassifier(clone(SMALL), n_estimators=3, random_state=0).fit(ROWS, NAMES)
    assert boosted.score(ROWS, NAMES) > 0.5
    bagged = ensemble.BalancedBaggingClassifier(clone(SMALL), n_estimators=3, random_state=0).fit(ROWS, NAMES)
    assert bagged.score(ROWS, NAMES) > 0.5


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(70), "at least one non-zero"),
        (-np.ones(70), "[Nn]egative values"),
        (np.full(70, np.nan), "sample_weight contains NaN"),
        (np.ones(69), "sample_weight"),
        (LABELS == 1, "y has 1 class in the rows whose weight is not zero, 'b'; a classifier needs at least 2"),
    ],
)
def test_weights_that_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        clone(SMALL).fit(ROWS, NAMES, sample_weight=weights)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("even", "class_weight must be None, 'square-root', 'balanced', or a dictionary .*, not 'even'"),
        ([1, 2, 3], r"class_weight must be None, .*, not \[1, 2, 3\]"),
        ({"a": -1, "b": 1, "c": 1}, "class_weight must have finite weights, none negative"),
        ({"a": math.inf, "b": 1, "c": 1}, "class_weight must have finite weights"),
        ({"a": 0, "b": 0, "c": 0}, "not all zero"),
        ({"z": 1}, "not in class_weight"),
    ],
)
def test_class_weights_that_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        clone(SMALL).set_params(class_weight=weights).fit(ROWS, NAMES)


def test_in_a_pipeline():
    pipeline = make_pipeline(clone(SMALL))
    pipeline.fit(ROWS, NAMES, frameclassifier__sample_weight=WHOLE)
    np.testing.assert_array_equal(pipeline[-1].centres_, clone(SMALL).fit(ROWS, NAMES, sample_weight=WHOLE).centres_)
