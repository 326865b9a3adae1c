"""A user's own pictures: taken as they are, streamed or held, with a validation split."""

import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.training.runs import interrupt, json_of, lines_of, resume, rows_of, train

from orthoframe.data import as_data
from orthoframe.errors import DataError, TrainingError
from orthoframe.training import RunListener, Settings, load_encoder

RANDOM = np.random.default_rng(0)
COUNTS = {"circle": 60, "square": 30, "stripes": 10, "zebra": 1}


def picture(kind, side):
    """Something that a network can tell apart."""
    pixels = RANDOM.integers(0, 60, (side, side + 4, 3)).astype(np.uint8)
    if kind == "circle":
        y, x = np.ogrid[:side, : side + 4]
        pixels[(y - side / 2) ** 2 + (x - side / 2) ** 2 < (side / 3) ** 2] += 150
    elif kind == "square":
        pixels[side // 4 : -side // 4, side // 4 : -side // 4, 0] += 150
    else:
        pixels[:, ::4] += 150
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures") / "shapes"
    for kind, count in COUNTS.items():
        (path / kind).mkdir(parents=True)
        for i in range(count):
            picture(kind, 18 + i % 7).save(path / kind / f"{i:03}.png")
    return path


@pytest.fixture
def settings(folder):
    return Settings(data=f"folder:{folder}", width=4, epochs=2, batch_size=32, seed=3)


def noted(notes):
    return RunListener(on_note=lambda note: notes.append("".join(map(str, note))))


def test_the_images_are_taken_as_they_are(settings, tmp_path):
    notes = []
    outcome = train(settings, tmp_path / "run", noted(notes))
    found = outcome.settings
    assert (found.imbalance, found.model, found.validation, found.features) == ("none", "resnet18", 0.1, 64)
    assert json_of(tmp_path / "run" / "config.json")["model"] == "resnet18"
    rows = sum(entry["rows"] for entry in lines_of(tmp_path / "run" / "geometry.jsonl")[-1]["train"]["classes"])
    assert rows == 43 + 22 + 7 + 1
    assert notes == [
        "no validation images of zebra: balanced validation accuracy is over 3 of 4 classes",
        "no test images of zebra: balanced test accuracy is over 3 of 4 classes",
    ]
    first, last = rows_of(tmp_path / "run")
    assert "test_balanced_accuracy" not in first  # it is looked at once
    assert "validation_balanced_accuracy" in first
    assert last["test_balanced_accuracy"] == outcome.evaluation.tested.balanced
    trained = load_encoder(tmp_path / "run")
    assert trained.preparation.fit == "pad"
    assert trained.image_shape == (3, 16, 16)
    assert trained.calibration.rows == 5 + 2 + 1


def test_what_is_left_out_is_said(settings, tmp_path):
    notes = []
    train(replace(settings, imbalance="step", ratio=20), tmp_path / "run", noted(notes))
    assert "kept 42 of 73 training images" in notes


def test_streamed_or_held_killed_or_not_the_bytes_are_the_same(settings, tmp_path):
    train(settings, tmp_path / "held")
    streamed = replace(settings, memory=0.0, workers=1)
    interrupt(streamed, tmp_path / "streamed", epoch=1, steps=2)
    resume(tmp_path / "streamed")
    names = ("encoder.safetensors", "geometry.jsonl", "certificate.json", "verdict.json")
    for name in names:
        assert (tmp_path / "held" / name).read_bytes() == (tmp_path / "streamed" / name).read_bytes()


def test_changed_files_are_noticed(settings, folder, tmp_path):
    interrupt(replace(settings, memory=0.0), tmp_path / "run", epoch=1, steps=1)
    file = folder / "circle" / "000.png"
    before = file.read_bytes()
    picture("stripes", 20).save(file)
    try:
        with pytest.raises(TrainingError, match="pixels differ"):
            resume(tmp_path / "run")
    finally:
        file.write_bytes(before)


def test_as_many_epochs_as_there_is_time_for(settings, tmp_path):
    start = time.monotonic()
    outcome = train(replace(settings, epochs=None, minutes=0.15), tmp_path / "run")
    assert time.monotonic() - start < 25
    assert outcome.settings.minutes is None
    assert outcome.settings.epochs == len(outcome.records) > 2


def test_a_dataset_of_python(folder, tmp_path):
    items = [(Image.open(file).convert("RGB"), file.parent.name) for file in sorted(folder.glob("*/*.png"))]
    data = as_data(items, size=(16, 16), name="shapes")
    settings = Settings(width=4, epochs=1, batch_size=32)
    outcome = train(settings, tmp_path / "run", data=data)
    assert outcome.settings.data == "dataset:shapes"
    assert outcome.settings.model == "resnet18"
    with pytest.raises(DataError, match="dataset:shapes comes from Python"):
        resume(tmp_path / "run")
    assert resume(tmp_path / "run", data=data).records == outcome.records
