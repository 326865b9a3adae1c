"""The verdict of a run for accurate classes: how accurate they are, what to try, and the geometry below it."""

import msgspec
import pytest
import torch
from tests.training.runs import json_of

from orthoframe.data import Data, LabelledImages
from orthoframe.geometry import NearestCentre, accuracy_of, measure
from orthoframe.reporting import write_run_report
from orthoframe.runs import Cause, Question, VerdictRecord, load_encoder
from orthoframe.training import Settings, train

NAMES = ("ape", "bee", "cat")


def images(counts, noise, seed):
    """Bars at a place that the class decides, in noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(3).repeat_interleave(torch.tensor(counts))
    pixels = noise * torch.rand(len(labels), 1, 16, 16, generator=generator)
    for row, label in zip(pixels, labels.tolist(), strict=True):
        row[:, 4 * label + 2 : 4 * label + 5] += 100
    return LabelledImages(pixels.clamp(max=255).byte(), labels, NAMES)


def data(noise=50, counts=(40, 30, 8)):
    parts = {
        "train": images(counts, noise, 0),
        "test": images((20, 20, 20), noise, 1),
        "validation": images((10, 10, 10), noise, 2),
    }
    return Data(name="dataset", own_validation=True, **parts)


def ended(folder, images_of_run, **options):
    """The verdict of a short run on one's own images, as its folder has it."""
    settings = {"model": "mlp", "width": 32, "epochs": 6, "batch_size": 16, **options}
    train(Settings.of(data="dataset", **settings), folder, data=images_of_run)
    return msgspec.json.decode((folder / "verdict.json").read_bytes(), type=VerdictRecord)


def test_the_question_is_accuracy(tmp_path):
    end = ended(tmp_path / "run", data())
    assert end.question is Question.ACCURACY
    test = end.test.accuracy
    assert end.sentence.startswith(f"Balanced test accuracy {test.balanced:.3f}; the worst classes: ")
    assert end.label == f"balanced test accuracy {test.balanced:.3f}"
    assert "frame" not in end.sentence
    assert end.geometry.startswith(f"The frame is {'' if end.reached else 'not '}reached")
    write_run_report(tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.index(end.sentence) < page.index(end.geometry)
    assert page.index("Worst class") < page.index("0: class means form an orthogonal frame")


def test_accuracies_are_those_of_the_encoder_that_is_saved(tmp_path):
    """Of the training images by the linear classifier, of the test images by the nearest axis of the frame."""
    parts = data()
    end = ended(tmp_path / "run", parts, adjust=0.0)
    trained = load_encoder(tmp_path / "run")
    rows, labels = trained.features(parts.train.pixels), parts.train.labels
    balanced = accuracy_of(trained.classify(rows)[1], labels, NAMES).balanced
    assert end.test.train_balanced == pytest.approx(balanced)
    unit = trained.framed(trained.features(parts.test.pixels))
    by_axis = accuracy_of(NearestCentre(trained.centres).scores(unit), parts.test.labels, NAMES).balanced
    assert end.test.frame_balanced == pytest.approx(by_axis)
    line = (tmp_path / "run" / "geometry.jsonl").read_text().splitlines()[-1]
    geometry = measure(trained.framed(rows), labels)
    assert msgspec.json.decode(line)["train"]["delta_of"] == pytest.approx(geometry.delta_of, abs=1e-5)


def test_a_network_that_has_not_learnt_its_images_needs_time(tmp_path):
    end = ended(tmp_path / "run", data(noise=255), epochs=1, lr=1e-4)
    assert [cause.cause for cause in end.causes] == [Cause.NOT_LEARNT]
    assert end.causes[0].advice == "more epochs"


def test_a_network_that_knows_its_images_by_heart_needs_others(tmp_path):
    """Noise can only be learnt by heart."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat_interleave(torch.tensor([30, 30, 6]))
    noise = torch.randint(0, 256, (len(labels), 1, 16, 16), generator=generator, dtype=torch.uint8)
    known = LabelledImages(noise, labels, NAMES)
    others = LabelledImages(noise.roll(7, 0), labels, NAMES)
    options = {"epochs": 60, "augment": False, "width": 256, "adjust": 0.0}
    end = ended(tmp_path / "run", Data(name="dataset", train=known, test=others, validation=others), **options)
    assert end.causes[0].cause is Cause.NOT_TRANSFERRED
    assert end.causes[0].advice.startswith("more images")
    assert "flip" not in end.causes[0].advice  # images are not augmented


def test_other_losses_are_not_advised(tmp_path):
    end = ended(tmp_path / "run", data(noise=255), loss="cross-entropy", epochs=1, lr=1e-4)
    assert end.question is Question.ACCURACY
    assert not any("loss" in cause.advice for cause in end.causes)


def test_a_run_that_settles_onto_the_frame_is_asked_for_the_frame(tmp_path):
    end = ended(tmp_path / "run", data(), goal="frame")
    assert end.question is Question.FRAME
    assert "The frame is " in end.sentence
    assert not end.geometry


def test_the_verdict_of_a_resumed_run_is_the_same(tmp_path):
    from orthoframe.training import resume

    end = ended(tmp_path / "run", data())
    before = json_of(tmp_path / "run" / "verdict.json")
    (tmp_path / "run" / "verdict.json").unlink()
    resume(tmp_path / "run", data=data())
    assert json_of(tmp_path / "run" / "verdict.json") == before
    assert end.question is Question.ACCURACY
