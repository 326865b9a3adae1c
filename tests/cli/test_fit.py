"""`orthoframe fit` as a user runs it."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from orthoframe.cli import main
from orthoframe.embedding import FeatureExtractor, ImageList, embed
from orthoframe.sklearn import FrameClassifier

COUNTS = [60, 20, 5]


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Three classes that a line can tell apart, in the current folder as `data.npz`."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), COUNTS)
    features = (3 * np.eye(3, 6)[labels] + rng.normal(size=(len(labels), 6)) / 2).astype(np.float32)
    np.savez("data.npz", x=features, y=labels)
    return features, labels


def fitted(capsys, *words):
    assert main(["fit", *map(str, words)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def test_what_is_printed_and_written(rows, capsys):
    said = fitted(capsys, "data.npz", "--out", "out")
    assert "68 training rows of 3 classes, 17 held out (20% of each class)" in said
    report = json.loads(Path("out/report.json").read_text())
    assert f"balanced accuracy  {report['accuracy']['balanced']:.4f}" in said
    assert f"macro F1           {report['accuracy']['macro_f1']:.4f}" in said
    assert f"linear path        {report['linear_share']:.0%} of the score" in said
    assert f"worst class        {report['accuracy']['worst']:.4f} (class " in said
    assert f"Delta_GM {report['geometry']['train']['delta_of']:.4f}" in said
    assert "Delta_GM is the distance of the class means to an orthogonal frame" in said
    assert [entry["test_rows"] for entry in report["classes"]] == [12, 4, 1]
    assert report["accuracy"]["balanced"] > 0.9
    classifier = FrameClassifier.load("out/classifier.safetensors")
    assert classifier.geometry_.delta_of == pytest.approx(report["geometry"]["train"]["delta_of"], rel=1e-7)


def test_numbers_are_those_of_the_classifier(rows, capsys):
    features, labels = rows
    names = np.array(["a", "b", "c"])
    test = np.arange(len(labels)) % 4 == 0
    np.savez(
        "parts.npz", x_train=features[~test], y_train=labels[~test], x_test=features[test], y_test=labels[test],
        classes=names,
    )  # fmt: skip
    said = fitted(capsys, "parts.npz", "--out", "out", "--seed", 3, "--epochs", 5)
    assert "held out (rows marked as test)" in said
    classifier = FrameClassifier(epochs=5, random_state=3).fit(features[~test], names[labels[~test]])
    right = classifier.predict(features[test]) == names[labels[test]]
    rates = [float(right[labels[test] == label].mean()) for label in range(3)]
    report = json.loads(Path("out/report.json").read_text())
    f1 = f1_score(names[labels[test]], classifier.predict(features[test]), average="macro")
    assert report["accuracy"]["macro_f1"] == pytest.approx(f1)
    assert [entry["accuracy"] for entry in report["classes"]] == pytest.approx(rates)
    assert [entry["name"] for entry in report["classes"]] == names.tolist()
    assert report["accuracy"]["balanced"] == pytest.approx(np.mean(rates))
    assert report["loss_gap"] == pytest.approx(classifier.loss_gap_, rel=1e-6)


def test_options_reach_the_classifier(rows, capsys):
    words = "--hidden 8 6 --batch-size 16 --class-weight balanced --adjust none --epochs 2 --temperature 0.2"
    fitted(capsys, "data.npz", "--out", "out", *words.split())
    loaded = FrameClassifier.load("out/classifier.safetensors")
    assert (loaded.hidden, loaded.batch_size, loaded.class_weight, loaded.adjust) == ((8, 6), 16, "balanced", None)
    fitted(capsys, "data.npz", "--class-weight", "none", "--out", "linear", "--hidden")
    loaded = FrameClassifier.load("linear/classifier.safetensors")
    assert (loaded.hidden, loaded.class_weight, loaded.linear_share_) == ((), None, 1.0)


def test_same_seed_same_bytes(rows, capsys):
    for out, seed in (("one", 1), ("two", 1), ("three", 2)):
        fitted(capsys, "data.npz", "--out", out, "--seed", seed, "--epochs", 3)
    assert contents("one") == contents("two")
    assert contents("one") != contents("three")


def test_files_as_for_measure(rows, capsys):
    features, labels = rows
    np.save("features.npy", features)
    Path("labels.csv").write_text("place,class\n" + "".join(f"{i},k{label}\n" for i, label in enumerate(labels)))
    fitted(capsys, "features.npy", "labels.csv", "--column", "class", "--out", "out", "--epochs", 3)
    assert [entry["name"] for entry in json.loads(Path("out/report.json").read_text())["classes"]] == ["k0", "k1", "k2"]


def test_rows_are_classified(rows, capsys):
    features, _ = rows
    fitted(capsys, "data.npz", "--out", "out")
    np.save("new.npy", features[::7])
    header, *table = csv.reader(io.StringIO(fitted(capsys, "new.npy", "--apply", "out")))
    assert header == ["row", "class", "0", "1", "2"]
    assert [row[0] for row in table] == [str(place) for place in range(len(features[::7]))]
    classifier = FrameClassifier.load("out/classifier.safetensors")
    assert [int(row[1]) for row in table] == classifier.predict(features[::7]).tolist()
    cosines = np.array([[float(value) for value in row[2:]] for row in table])
    assert np.allclose(cosines, classifier.decision_function(features[::7].astype(np.float64)), rtol=0, atol=1e-6)
    file = fitted(capsys, "new.npy", "--apply", "out/classifier.safetensors")
    assert len(file.splitlines()) == 1 + len(table)


def test_two_classes(rows, capsys):
    features, labels = rows
    np.savez("two.npz", x=features[labels > 0], y=labels[labels > 0])
    fitted(capsys, "two.npz", "--out", "out", "--epochs", 3)
    assert fitted(capsys, "two.npz", "--apply", "out").startswith("row,class,1,2\n")


def test_more_classes_than_units(tmp_path, monkeypatch, capsys):
    """Features get a dimension for each."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("many.npz", x=rng.normal(size=(900, 4)), y=np.arange(900) % 300)
    said = fitted(capsys, "many.npz", "--out", "out", "--epochs", 1)
    assert len(said.splitlines()) < 12  # classes are too many to be printed one by one
    assert FrameClassifier.load("out/classifier.safetensors").centres_.shape[1] in (300, 600)  # and a linear path


def test_classes_of_one_row(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("few.npz", x=np.eye(3), y=np.arange(3))
    said = fitted(capsys, "few.npz", "--out", "out", "--epochs", 1)
    assert "no class has rows to hold out, so the accuracy is unknown" in said


def test_the_folder_of_embed(tmp_path, monkeypatch, capsys):
    """Its class names, its splits and its paths."""
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    paths = []
    for place in range(30):
        paths.append(Path(f"{place}.png"))
        pixels = rng.integers(0, 100, (2, 2, 3), dtype=np.uint8)
        pixels[..., place % 2] += 150
        Image.fromarray(pixels).save(paths[-1])
    splits = np.array((["train"] * 4 + ["test"] * 2) * 5)
    labels = np.arange(30) % 2
    images = ImageList(
        source="images",
        paths=tuple(paths),
        names=tuple(map(str, paths)),
        labels=labels,
        classes=("red", "green"),
        splits=splits,
    )
    flat = FeatureExtractor(
        name="pixels", network=torch.nn.Flatten(), image_shape=(3, 2, 2), dim=12, mean=(0.0,) * 3, std=(1.0,) * 3
    )
    embed(images, flat, Path("features"), shard_size=7)
    said = fitted(capsys, "features", "--out", "out")
    assert "20 training rows of 2 classes, 10 held out (rows marked as test)" in said
    assert json.loads(Path("out/report.json").read_text())["accuracy"]["balanced"] == 1
    lines = fitted(capsys, "features", "--apply", "out").splitlines()
    assert lines[0] == "row,class,green,red"
    assert [line.split(",")[:2] for line in lines[1:3]] == [["0.png", "red"], ["1.png", "green"]]
    unlabelled = ImageList(source="images", paths=tuple(paths), names=tuple(map(str, paths)))
    embed(unlabelled, flat, Path("new"))
    assert fitted(capsys, "new", "--apply", "out").splitlines() == lines
    assert main(["fit", "new", "--out", "other"]) == 2
    assert "new: there are no labels in it" in capsys.readouterr().err


def test_features_of_another_dimension(rows, capsys):
    fitted(capsys, "data.npz", "--out", "out", "--epochs", 1)
    np.save("new.npy", np.ones((3, 4)))
    assert main(["fit", "new.npy", "--apply", "out"]) == 2
    assert "new.npy: features of 4 dimensions, and the classifier needs 6" in capsys.readouterr().err
