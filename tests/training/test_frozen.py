"""A backbone that stays as it is: each image is encoded once, and a probe predicts; and the one that is suggested."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from orthoframe.cli import main
from orthoframe.encoders import PRETRAINED, suggested_backbone
from orthoframe.errors import Option
from orthoframe.runs import load_encoder
from orthoframe.training import Settings, make_task, train

COUNTING = """
import torch
from torch import nn

class Counting(nn.Module):
    image_size, seen = 8, 0

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(192, 12)

    def forward(self, images):
        Counting.seen += len(images)
        return self.linear(images.flatten(1)).relu()
"""
BACKBONE = "counting_network:Counting"


def pictures(folder, side=32, colours=3, number=12):
    random = np.random.default_rng(0)
    for label, name in enumerate(("a", "b")):
        (folder / name).mkdir(parents=True)
        for place in range(number):
            pixels = random.integers(0, 100, (side, side, colours)) + 100 * label
            Image.fromarray(pixels.astype(np.uint8).squeeze()).save(folder / name / f"{place}.png")
    return f"folder:{folder}"


@pytest.fixture
def counting(tmp_path, monkeypatch):
    """A module with a network that counts the images that it sees."""
    (tmp_path / "counting_network.py").write_text(COUNTING)
    monkeypatch.chdir(tmp_path)
    yield lambda: sys.modules["counting_network"].Counting.seen
    sys.modules.pop("counting_network", None)


def test_each_image_is_encoded_once(counting, tmp_path):
    settings = Settings.of(data=pictures(tmp_path / "photos"), backbone=BACKBONE, epochs=3, batch_size=8)
    outcome = train(settings, tmp_path / "run")
    assert outcome.settings.images.augment is False
    assert outcome.settings.evaluation.probe
    assert counting() == 24 + 2 * 2  # and those that show its dimension
    trained = load_encoder(tmp_path / "run", code=True)
    pixels = trained.preparation(tmp_path / "photos" / "b" / "0.png")[None]
    scores, classes = trained.classify(trained.features(pixels))
    assert (trained.classes[int(classes[0])], scores.shape) == ("b", (1, 2))


def test_features_take_the_place_of_images(counting, tmp_path):
    task = make_task(Settings.of(data=pictures(tmp_path / "photos"), backbone=BACKBONE, epochs=1))
    embedded = task.with_features(torch.device("cpu"))
    for part in ("train", "validation", "test"):
        before, after = getattr(task, part), getattr(embedded, part)
        features = task.encoder.backbone(task.normaliser(before.pixels))
        torch.testing.assert_close(after.pixels, features.detach())
        assert torch.equal(after.labels, before.labels)
        torch.testing.assert_close(task.encoder(after.pixels), task.encoder(task.normaliser(before.pixels)))
    for options in ({"augment": True}, {"flip": True}, {"backbone_lr": 0.1}):
        other = make_task(Settings.of(data=task.settings.images.data, backbone=BACKBONE, epochs=1, **options))
        assert other.with_features(torch.device("cpu")) is other


@pytest.mark.parametrize(
    ("options", "probe", "epochs"),
    [({}, True, 20), ({"goal": "frame"}, False, 20), ({"epochs": 2}, True, 2), ({"probe": False}, False, 20)],
    ids=str,
)
def test_what_the_recipe_decides(options, probe, epochs, counting, tmp_path):
    settings = make_task(Settings.of(data=pictures(tmp_path / "photos"), backbone=BACKBONE, **options)).settings
    assert (settings.evaluation.probe, settings.schedule.epochs) == (probe, epochs)


@pytest.mark.parametrize(
    ("side", "colours", "options", "suggests"),
    [
        (32, 3, {}, True),
        (31, 3, {}, False),
        (32, 1, {}, False),
        (32, 3, {"model": "mlp"}, False),
        (32, 3, {"goal": "frame"}, False),
    ],
)
def test_what_is_suggested(side, colours, options, suggests, tmp_path):
    data = pictures(tmp_path / "photos", side, colours, number=4)
    notes = [part for note in make_task(Settings.of(data=data, epochs=1, **options)).notes() for part in note]
    assert (Option("backbone", "efficientnet-lite0") in notes) == suggests


def test_nothing_is_suggested_that_is_not_installed(monkeypatch):
    assert suggested_backbone((3, 32, 32)) == "efficientnet-lite0"
    for name, entry in [*PRETRAINED.items()]:
        monkeypatch.setitem(PRETRAINED, name, replace(entry, package="no_such_package"))
    assert suggested_backbone((3, 32, 32)) is None


def test_the_pretrained_network_from_start_to_predictions(tmp_path, monkeypatch, capsys):
    data = pictures(tmp_path / "photos", number=6)
    train(Settings.of(data=data, backbone="efficientnet-lite0", epochs=1), tmp_path / "run")
    for name in PRETRAINED:  # what was handed out needs no package, and no code
        monkeypatch.setattr(type(PRETRAINED[name]), "load", None)
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "photos" / "b" / "0.png")]) == 0
    assert load_encoder(tmp_path / "run").image_shape == (3, 128, 128)
    assert capsys.readouterr().err == ""
