"""`orthoframe evaluate` as a user runs it."""

import csv
import shutil

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import balanced_accuracy_score, precision_recall_fscore_support
from tests.training.runs import arguments, json_of

from orthoframe.cli import main
from orthoframe.data import load_data
from orthoframe.runs import load_encoder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "validated"
    assert main(["train", *arguments(epochs=4, validation=0.1, width=32), "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def digits(tmp_path):
    """Forty test images of three classes as files, one class under a name that the run does not know."""
    test = load_data("digits").test
    names = {"0": "0", "1": "1", "2": "two"}
    for number in range(40):
        label = test.classes[test.labels[number]]
        if label in names:
            folder = tmp_path / "digits" / names[label]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(test.pixels[number, 0].numpy()).save(folder / f"{number}.png")
    return tmp_path / "digits"


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_test_images_of_the_run(run, tmp_path, capsys):
    """The same images, and the same figures, as at the end of the training; rates by scikit-learn."""
    capsys.readouterr()
    assert main(["evaluate", str(run), "digits", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    report, verdict = json_of(tmp_path / "out" / "evaluation.json"), json_of(run / "verdict.json")
    assert said.err == ""
    assert f"balanced accuracy: {report['balanced_accuracy']:.4f}" in said.out
    assert report["accuracy"] == pytest.approx(verdict["test"]["accuracy"]["overall"])
    assert report["calibration_error"] == pytest.approx(verdict["test"]["calibration_error"], abs=1e-6)
    test, trained = load_data("digits", validation=0.1).test, load_encoder(run)
    scores, winners = trained.classify(trained.features(test.pixels))
    classes = [each["class"] for each in report["classes"]]
    for name, values in zip(
        ("precision", "recall", "f1"),
        precision_recall_fscore_support(test.labels, winners, zero_division=0),
        strict=False,
    ):
        assert [each[name] for each in report["classes"]] == pytest.approx(values.tolist())
        assert report["macro"][name] == pytest.approx(values.mean())
    assert report["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(test.labels, winners))
    for row, each in zip(table(tmp_path / "out" / "classes.csv"), report["classes"], strict=True):
        assert row == {name: str(value) for name, value in each.items()}
    wrong = (winners != test.labels).nonzero()[:, 0].tolist()
    cells = table(tmp_path / "out" / "confusions.csv")
    assert sum(int(row["images"]) for row in cells) == len(wrong)
    assert sum(int(row["images"]) for row in table(tmp_path / "out" / "reliability.csv")) == len(test)
    sure = trained.calibration.confidences(scores).amax(1)
    worst = sorted(wrong, key=lambda place: -float(sure[place]))[:60]
    assert [each["confidence"] for each in report["mistakes"]] == pytest.approx(sure[worst].tolist(), abs=1e-6)
    for each in report["mistakes"]:
        place = int(each["image"])
        assert each["class"] == classes[test.labels[place]] != each["predicted"] == classes[winners[place]]
    page = (tmp_path / "out" / "mistakes.html").read_text()
    assert page.count("data:image/png;base64,") == len(worst)
    assert [left.name for left in tmp_path.iterdir()] == ["out"]


def test_a_run_without_validation_images_and_without_mistakes(tmp_path, monkeypatch):
    """It has no confidences, and nothing is confused."""
    monkeypatch.chdir(tmp_path)
    pixels = np.zeros((40, 8, 8), np.uint8)
    pixels[20:] = 255
    np.savez("easy.npz", x=pixels, y=[0] * 20 + [1] * 20)
    words = ["--validation", "0", "--model", "mlp", "--width", "8", "--steps", "20", "--batch-size", "8"]
    assert main(["train", "--data", "npz:easy.npz", *words, "--out", "run"]) == 0
    assert main(["evaluate", "run", "npz:easy.npz", "--out", "out"]) == 0
    assert json_of(tmp_path / "out" / "evaluation.json")["mistakes"] == []
    assert [len(table(tmp_path / "out" / f"{name}.csv")) for name in ("classes", "confusions", "reliability")] == [
        2,
        0,
        0,
    ]


def test_a_folder_with_other_classes(run, digits, tmp_path, capsys):
    """All of its images; a class that the run does not know is named and left out, and so are missing ones."""
    words = ["evaluate", str(run), f"folder:{digits}", "--reject", "0.1", "--out", str(tmp_path / "out")]
    capsys.readouterr()
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "orthoframe: classes that the run does not know, whose images are left out: two",
        "orthoframe: classes of the run without images: 2, 3, 4, 5, 6, 7, 8, 9",
    ]
    report, trained = json_of(tmp_path / "out" / "evaluation.json"), load_encoder(run)
    right, refused, shares = 0, {}, {}
    for folder in sorted(digits.iterdir()):
        files = sorted(folder.iterdir())
        for file in files:
            rows = trained.rows_before_head(trained.preparation(file)[None])
            unknown = bool(trained.refused(rows, 0.1)[0])
            refused.setdefault(folder.name == "two", []).append(unknown)
            winner = trained.classes[int(trained.classify(trained.features_of(rows))[1][0])]
            right += winner == folder.name and not unknown
    shares = {name: float(np.mean(refused[name])) for name in refused}
    assert report["images"] == len(refused[False])
    assert report["accuracy"] == pytest.approx(right / len(refused[False]))
    for part in ("known", "unknown"):
        assert report[f"refused_of_{part}_classes"] == shares[part == "unknown"]
        assert f"refused of {part} classes: {shares[part == 'unknown']:.4f}" in said.out
    assert [each["images"] > 0 for each in report["classes"]] == [True, True] + [False] * 8
    assert report["classes"][5] == {**dict.fromkeys(report["classes"][5]), "class": "5", "images": 0}
    assert all(str(digits) in each["image"] for each in report["mistakes"])
    capsys.readouterr()
    assert main(words) == 2  # it is there already
    assert "--out must be a new folder" in capsys.readouterr().err


def test_data_that_cannot_be(run, digits, tmp_path, capsys):
    np.savez(tmp_path / "large.npz", x=np.zeros((2, 9, 9), np.uint8), y=[0, 1])
    shutil.copytree(digits / "two", tmp_path / "others" / "two")
    for data, sentence in (
        (f"npz:{tmp_path / 'large.npz'}", "= [1, 9, 9], and the run takes [1, 8, 8]"),
        (f"folder:{tmp_path / 'others'}", "the run knows none of its classes two, but 0, 1, 2, 3"),
        ("folder:nowhere", "nowhere: no such folder"),
        ("cats", "there is no data 'cats'"),
        (str(digits), f"its images are the data folder:{digits}"),
    ):
        assert main(["evaluate", str(run), data, "--out", str(tmp_path / "out")]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_data_of_the_run_that_has_changed(tmp_path, capsys, digits, monkeypatch):
    """New images in the folder of the run would shift others from the training to the test."""
    monkeypatch.chdir(tmp_path)
    words = ["--model", "mlp", "--width", "8", "--steps", "20", "--batch-size", "4", "--size", "8x8", "--out", "run"]
    assert main(["train", "--data", "folder:digits", *words]) == 0
    assert main(["evaluate", "run", f"folder:{digits}", "--out", "out"]) == 0
    mistakes = json_of(tmp_path / "out" / "evaluation.json")["mistakes"]
    assert all((digits / each["class"] / each["image"].rpartition("/")[2]).is_file() for each in mistakes)
    moved = sorted((digits / "0").iterdir())[0]
    moved.rename(digits / "0" / "z.png")  # as many images, in another order
    assert main(["evaluate", "run", "folder:digits"]) == 2
    (digits / "0" / "z.png").rename(moved)
    for number in range(8):
        shutil.copy(next((digits / "0").iterdir()), digits / "0" / f"new{number}.png")
    capsys.readouterr()
    assert main(["evaluate", "run", "folder:digits"]) == 2
    assert "has changed since the run" in capsys.readouterr().err
    shutil.copy("run/encoder.safetensors", "alone.safetensors")
    assert main(["evaluate", "alone.safetensors", "folder:digits"]) == 0  # which knows nothing of its data
