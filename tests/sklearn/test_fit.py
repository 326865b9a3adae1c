"""The adjustment for class sizes, by rows that networks were not trained on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_blobs

from orthoframe.geometry import Calibration
from orthoframe.sklearn import FrameClassifier
from orthoframe.sklearn._fit import folds

COUNTS = [300, 60, 20]
ROWS, LABELS = make_blobs(COUNTS, 6, cluster_std=6.0, random_state=8)
SMALL = FrameClassifier(hidden=(32, 16), epochs=20, adjust="cross-fit", random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return clone(SMALL).fit(ROWS, LABELS)


def test_the_network_is_that_without_adjustment(fitted):
    plain = clone(SMALL).set_params(adjust=None).fit(ROWS, LABELS)
    np.testing.assert_array_equal(plain.transform(ROWS), fitted.transform(ROWS))
    assert (plain.adjust_, plain.calibration_) == (0.0, None)
    shift = fitted.adjust_ * np.log(np.array(COUNTS) / 300)
    np.testing.assert_allclose(fitted.decision_function(ROWS), plain.decision_function(ROWS) - shift, atol=1e-12)


def test_predictions_and_confidences_are_those_of_the_rule(fitted):
    assert fitted.adjust_ > 0  # small classes scatter more
    features = torch.from_numpy(fitted.transform(ROWS))
    np.testing.assert_array_equal(fitted.predict(ROWS), fitted.rule_.predict(features))
    np.testing.assert_allclose(fitted.predict_proba(ROWS), fitted.rule_.confidences(features), rtol=1e-10)
    assert fitted.rule_.temperature == fitted.calibration_.temperature
    assert fitted.calibration_.rows == 380


def test_confidences_fit_new_rows(fitted):
    """Within a factor of 2: of 380 rows, and by networks that have seen half of them."""
    rows, labels = make_blobs([3000, 600, 200], 6, cluster_std=6.0, random_state=8)  # around the same centres
    best = Calibration.fitted(torch.from_numpy(fitted.decision_function(rows)), torch.from_numpy(labels))
    assert 0.5 < fitted.calibration_.temperature / best.temperature < 2


def test_it_is_saved(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = FrameClassifier.load(tmp_path / "model")
    assert (loaded.adjust_, loaded.calibration_, loaded.adjust) == (fitted.adjust_, fitted.calibration_, "cross-fit")
    np.testing.assert_array_equal(loaded.predict_proba(ROWS), fitted.predict_proba(ROWS))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_classes_of_one_row_and_weights():
    names = np.array(["a", "b", "c", "d"])[LABELS]
    names[0] = "d"
    small = clone(SMALL).set_params(epochs=3)
    classifier = clone(small).fit(ROWS, names)
    assert classifier.calibration_.rows == 379  # no other network knew class d
    weighted = clone(small).fit(ROWS, names, sample_weight=np.where(names == "d", 0, 1))
    without = clone(small).fit(ROWS[1:], names[1:])
    assert (weighted.adjust_, weighted.calibration_) == (without.adjust_, without.calibration_)
    alone = clone(small).fit(ROWS[:2], ["a", "b"])
    assert (alone.adjust_, alone.calibration_) == (0.0, None)


@given(labels=st.lists(st.integers(0, 4), min_size=1, max_size=60), seed=st.integers(0, 99))
def test_folds_share_each_class(labels, seed):
    numbers = np.array(labels)
    part = folds(numbers, 5, np.random.default_rng(seed))
    sizes = np.bincount(part, minlength=2)
    assert sizes.max() - sizes.min() <= 1
    for c in range(5):
        counts = np.bincount(part[numbers == c], minlength=2)
        assert counts.max() - counts.min() <= 1


def test_class_weights_that_name_some_classes():
    """A fold may lack a class that is named, and have one that is not."""
    names = np.array(["a", "b", "c", "d"])[LABELS]
    names[0] = "d"  # the only one, which one of two networks does not see
    small = clone(SMALL).set_params(epochs=3)
    classifier = clone(small).set_params(class_weight={"a": 1.0, "d": 2.0}).fit(ROWS, names)
    whole = clone(small).set_params(class_weight={"a": 1.0, "b": 1.0, "c": 1.0, "d": 2.0}).fit(ROWS, names)
    assert (classifier.adjust_, classifier.calibration_) == (whole.adjust_, whole.calibration_)
