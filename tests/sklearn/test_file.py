"""Saved and loaded without pickle."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from orthoframe.sklearn import FrameClassifier, StopReason
from orthoframe.sklearn._network import TableEncoder

ROWS, NUMBERS = make_blobs([40, 20, 10], 4, random_state=2)
OPTIONS = {"hidden": (16, 8), "epochs": 15, "random_state": 3}


@pytest.mark.parametrize(
    "labels",
    [
        NUMBERS,
        np.array([2.0, 3.0, 10.0])[NUMBERS],
        NUMBERS > 0,
        np.array(["x", "yes", "ß"])[NUMBERS],
        np.array(["a", "b", "c"], object)[NUMBERS],
    ],
    ids=["integers", "floats", "booleans", "strings", "objects"],
)
def test_what_is_loaded_is_what_was_saved(labels, tmp_path):
    rows = pd.DataFrame(ROWS, columns=list("abcd"))
    classifier = FrameClassifier(**OPTIONS).fit(rows, labels)
    classifier.save(tmp_path / "model.safetensors")
    loaded = FrameClassifier.load(str(tmp_path / "model.safetensors"))
    assert loaded.get_params() == classifier.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(rows), classifier.predict_proba(rows))
    np.testing.assert_array_equal(loaded.predict(rows), classifier.predict(rows))
    assert loaded.classes_.dtype == classifier.classes_.dtype
    assert loaded.feature_names_in_.tolist() == list("abcd")
    assert loaded.certificate_.to_dict() == classifier.certificate_.to_dict()
    before, after = classifier.geometry_, loaded.geometry_
    assert (after.names, after.counts, after.accuracy) == (before.names, before.counts, before.accuracy)
    for name in ("delta_of", "delta_etf", "beta_nc", "spread", "max_cosine"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-9, abs=1e-12)
    assert isinstance(loaded.stopped_, StopReason)
    np.testing.assert_array_equal(after.means, before.means)
    for name in ("n_iter_", "n_features_in_", "stopped_", "loss_curve_", "gap_curve_", "loss_gap_"):
        assert getattr(loaded, name) == getattr(classifier, name)
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "again.safetensors"}


def test_options_that_json_does_not_know(tmp_path):
    options = {"hidden": [np.int64(8)], "temperature": np.float64(0.2), "random_state": np.random.RandomState(0)}
    options["device"] = torch.device("cpu")
    FrameClassifier(epochs=2, **options).fit(ROWS, NUMBERS).save(tmp_path / "model")
    loaded = FrameClassifier.load(tmp_path / "model")
    assert (loaded.hidden, loaded.temperature, loaded.random_state) == ((8,), 0.2, None)
    assert loaded.device == "cpu"
    assert not hasattr(loaded, "feature_names_in_")


def test_options_that_were_changed_after_fitting(tmp_path):
    classifier = FrameClassifier(**OPTIONS).fit(ROWS, NUMBERS)
    before = classifier.predict_proba(ROWS)
    classifier.set_params(hidden=(4,), activation="abs", batch_size=7, binding="none", temperature=1.0)
    classifier.save(tmp_path / "model.safetensors")
    loaded = FrameClassifier.load(tmp_path / "model.safetensors")
    assert loaded.get_params() == classifier.get_params()
    np.testing.assert_array_equal(loaded.transform(ROWS), classifier.transform(ROWS))
    np.testing.assert_array_equal(loaded.predict_proba(ROWS), before)
    np.testing.assert_array_equal(classifier.predict_proba(ROWS), before)
    assert loaded.certificate_.to_dict() == classifier.certificate_.to_dict()


def test_what_is_not_a_classifier_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        FrameClassifier().save(tmp_path / "model")
    with pytest.raises(FileNotFoundError):
        FrameClassifier.load(tmp_path / "model")
    (tmp_path / "text").write_text("not a model")
    save_file({"a": np.ones(2)}, tmp_path / "tensors")
    save_file({"a": np.ones(2)}, tmp_path / "other", metadata={"orthoframe": json.dumps({"model": "mlp"})})
    FrameClassifier(**OPTIONS).fit(ROWS, NUMBERS).save(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    (tmp_path / "half").write_bytes(content[: len(content) // 2])
    for name in ("text", "tensors", "other", "half"):
        with pytest.raises(ValueError, match=f"{name} is not a classifier that FrameClassifier.save wrote"):
            FrameClassifier.load(tmp_path / name)


def test_a_file_from_before_the_head_saw_the_columns(tmp_path):
    classifier = FrameClassifier(hidden=(8, 6), epochs=1, random_state=0).fit(ROWS, NUMBERS)
    classifier.encoder_ = TableEncoder(ROWS.shape[1], (8, 6), seed=1, direct=False).double()
    classifier.save(tmp_path / "new")
    with safe_open(tmp_path / "new", framework="np") as file:
        about = json.loads(file.metadata()["orthoframe"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del about["network"]["direct"]
    about["options"]["patience"], about["stopped"] = 10, "plateau"  # version 0.1.0 watched the gap
    save_file(tensors, tmp_path / "old", metadata={"orthoframe": json.dumps(about)})
    loaded = FrameClassifier.load(tmp_path / "old")
    assert not loaded.encoder_.direct
    assert loaded.stopped_ is StopReason.PLATEAU
    np.testing.assert_array_equal(loaded.transform(ROWS), classifier.transform(ROWS))
