"""A user's own pictures: taken as they are, streamed or held, with a validation split."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.training.runs import interrupt, json_of, lines_of, noted, rows_of

from orthoframe.data import as_data
from orthoframe.errors import DataError, OrthoframeError, TrainingError, spelled
from orthoframe.reporting import write_run_report
from orthoframe.runs import load_encoder
from orthoframe.training import Settings, make_task, resume, train

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
    return Settings.of(recipe="plain", data=f"folder:{folder}", width=4, epochs=2, batch_size=32, seed=3)


def test_near_duplicates_on_two_sides_are_noted(tmp_path):
    """Frames of clips, unless those of a clip stay together."""
    for clip in range(24):
        frame = RANDOM.integers(0, 200, (4, 4, 3)).repeat(5, axis=0).repeat(5, axis=1)
        for i in range(4):
            path = tmp_path / "photos" / "ab"[clip % 2] / f"clip{clip:02}_{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((frame + RANDOM.integers(0, 5, frame.shape)).astype(np.uint8)).save(path)
    asked = Settings.of(recipe="plain", data=f"folder:{tmp_path / 'photos'}", width=2, epochs=1)
    notes = [spelled(note) for note in make_task(asked).notes()]
    for note, part, total in zip(notes, ("validation", "test"), (8, 20), strict=True):
        number, of = re.match(rf"(\d+) of (\d+) {part} images have near-duplicates among the training", note).groups()
        assert total / 2 < int(number) <= int(of) == total
        held, known = re.search(r"such as .*(clip\d\d)_\d.png of .*(clip\d\d)_\d.png; if", note).groups()
        assert held == known
        assert note.endswith("keep them on one side of the split, for example with group_by='REGEX'")
    assert make_task(asked.with_options(group_by=r"clip\d\d")).notes() == []
    assert make_task(asked.with_options(memory=0.0, workers=0)).notes() == []  # streamed: they are not compared


def test_the_images_are_taken_as_they_are(settings, tmp_path):
    notes = []
    outcome = train(settings, tmp_path / "run", noted(notes))
    decided = outcome.settings.to_dict()
    names = ("imbalance", "model", "validation", "features")
    assert tuple(decided[name] for name in names) == ("none", "conv6-quarters", 0.1, 128)
    assert json_of(tmp_path / "run" / "config.json")["model"] == "conv6-quarters"
    rows = sum(entry["rows"] for entry in lines_of(tmp_path / "run" / "geometry.jsonl")[-1]["train"]["classes"])
    assert rows == 43 + 22 + 7 + 1
    # Some of these drawings are alike indeed.
    assert [note for note in notes if "near-duplicates" not in note] == [
        "no validation images of zebra: balanced validation accuracy is over 3 of 4 classes",
        "no test images of zebra: balanced test accuracy is over 3 of 4 classes",
    ]
    first, last = rows_of(tmp_path / "run")
    assert "test_balanced_accuracy" not in first  # it is looked at once
    assert "validation_balanced_accuracy" in first
    assert last["test_balanced_accuracy"] == outcome.diagnosis.test.accuracy.balanced
    trained = load_encoder(tmp_path / "run")
    assert trained.preparation.fit == "pad"
    assert trained.image_shape == (3, 16, 16)
    assert trained.calibration.rows == 5 + 2 + 1


def test_what_is_left_out_is_said(settings, tmp_path):
    notes = []
    train(settings.with_options(imbalance="step", ratio=20), tmp_path / "run", noted(notes))
    assert "kept 42 of 73 training images" in notes


def test_streamed_or_held_killed_or_not_the_bytes_are_the_same(settings, tmp_path):
    train(settings, tmp_path / "held")
    streamed = settings.with_options(memory=0.0, workers=1)
    interrupt(streamed, tmp_path / "streamed", epoch=1, steps=2)
    resume(tmp_path / "streamed")
    names = ("encoder.safetensors", "geometry.jsonl", "certificate.json", "verdict.json")
    for name in names:
        assert (tmp_path / "held" / name).read_bytes() == (tmp_path / "streamed" / name).read_bytes()


def test_changed_files_are_noticed(settings, folder, tmp_path):
    interrupt(settings.with_options(memory=0.0), tmp_path / "run", epoch=1, steps=1)
    file = folder / "circle" / "000.png"
    before = file.read_bytes()
    picture("stripes", 20).save(file)
    try:
        with pytest.raises(TrainingError, match="pixels differ"):
            resume(tmp_path / "run")
    finally:
        file.write_bytes(before)


def test_a_dataset_of_python(folder, tmp_path):
    items = [(Image.open(file).convert("RGB"), file.parent.name) for file in sorted(folder.glob("*/*.png"))]
    data = as_data(items, size=(16, 16), name="shapes")
    settings = Settings.of(recipe="plain", width=4, epochs=1, batch_size=32)
    outcome = train(settings, tmp_path / "run", data=data)
    assert outcome.settings.images.data == "dataset:shapes"
    assert outcome.settings.encoder.model == "conv6-quarters"
    with pytest.raises(DataError, match="dataset:shapes was passed from Python"):
        resume(tmp_path / "run")
    assert resume(tmp_path / "run", data=data).records == outcome.records


def shapes(path, kinds, side=16):
    """Images of some of the shapes as arrays in a file."""
    pixels = [np.asarray(picture(kind, side).resize((side, side))) for kind in kinds for _ in range(12)]
    np.savez(path, x=np.stack(pixels), y=np.repeat(kinds, 12))
    return f"npz:{path}"


def test_new_classes_get_dimensions_of_their_own(tmp_path):
    old = Settings.of(
        recipe="plain",
        data=shapes(tmp_path / "old.npz", ["circle", "square"]),
        model="mlp",
        width=8,
        epochs=2,
        features=6,
    )
    train(old, tmp_path / "old")
    before = load_encoder(tmp_path / "old")
    new = Settings.of(
        recipe="plain", data=shapes(tmp_path / "new.npz", ["stripes", "circle"]), epochs=2, init=tmp_path / "old"
    )
    interrupt(new, tmp_path / "new", epoch=1, steps=1)
    outcome = resume(tmp_path / "new")
    assert outcome.settings.objective.prototypes
    assert outcome.settings.encoder.features == 9
    after = load_encoder(tmp_path / "new")
    assert after.classes == ("circle", "square", "stripes")
    assert after.normaliser == before.normaliser
    task = make_task(new)
    assert torch.allclose(task.directions @ task.directions.T - torch.eye(3), grams(before, 3), atol=1e-6)
    assert torch.equal(task.encoder.head.linear.weight[:6], before.encoder.head.linear.weight)
    # Without images, a known class keeps the direction that it had.
    assert torch.allclose(after.centres[1].float(), task.directions[1])


def test_classes_without_images_have_a_report(tmp_path):
    """Known classes that the new images do not have; and names in a file that no image has."""
    old = Settings.of(
        recipe="plain", data=shapes(tmp_path / "old.npz", ["circle", "square"]), model="mlp", width=8, epochs=1
    )
    train(old, tmp_path / "old")
    new = Settings.of(
        recipe="plain", data=shapes(tmp_path / "new.npz", ["stripes", "circle"]), epochs=2, init=tmp_path / "old"
    )
    train(new, tmp_path / "new", report=write_run_report)
    assert "square" in (tmp_path / "new" / "report.html").read_text()
    pixels = RANDOM.integers(0, 255, (20, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "names.npz", x=pixels, y=np.arange(20) % 2, classes=np.array(["a", "b", "c"]))
    data = f"npz:{tmp_path / 'names.npz'}"
    named = Settings.of(recipe="plain", data=data, width=8, epochs=1)
    train(named, tmp_path / "named", report=write_run_report)
    assert (tmp_path / "named" / "report.html").exists()


def test_a_broken_test_file_is_named_when_it_is_met(tmp_path):
    for part, number in (("train", 8), ("test", 2)):
        for kind in ("circle", "square"):
            (tmp_path / "p" / part / kind).mkdir(parents=True)
            for i in range(number):
                picture(kind, 20).save(tmp_path / "p" / part / kind / f"{i}.jpg")
    broken = tmp_path / "p" / "test" / "circle" / "1.jpg"
    broken.write_bytes(broken.read_bytes()[:500])
    settings = Settings.of(recipe="plain", data=f"folder:{tmp_path / 'p'}", width=2, epochs=1, memory=0.0, batch_size=8)
    with pytest.raises(DataError, match=r"1\.jpg: the image is broken"):
        train(settings, tmp_path / "run")


def test_files_that_are_left_out_are_named(settings, folder, tmp_path):
    notes = []
    (folder / "circle" / "notes.heic").write_text("another kind")
    try:
        train(settings.with_options(epochs=1), tmp_path / "run", noted(notes))
    finally:
        (folder / "circle" / "notes.heic").unlink()
    assert notes[0].startswith("ignored 1 file not in a class folder, or not an image, such as ")


def grams(trained, k):
    """Cosines of known means less the identity; nothing else is off the axes."""
    means = torch.nn.functional.normalize(trained.centres.float())
    table = torch.zeros(k, k)
    table[: len(means), : len(means)] = means @ means.T - torch.eye(len(means))
    return table


def test_the_same_classes_and_a_frozen_backbone(tmp_path):
    old = Settings.of(
        recipe="plain", data=shapes(tmp_path / "a.npz", ["circle", "square"]), model="resnet18", width=2, epochs=1
    )
    train(old, tmp_path / "old")
    new = Settings.of(recipe="plain", data=old.images.data, init=tmp_path / "old", backbone_lr=0.0, epochs=3)
    train(new, tmp_path / "new")
    before, after = load_encoder(tmp_path / "old").encoder, load_encoder(tmp_path / "new").encoder
    for name, value in before.backbone.state_dict().items():  # statistics of BatchNorm too
        assert torch.equal(value, after.backbone.state_dict()[name]), name
    assert not torch.equal(before.head.linear.weight, after.head.linear.weight)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "vit"}, "model is decided by init; leave it out"),
        ({"width": 3}, "width is decided by init"),
        ({"features": 64}, "features is decided by init; leave it out"),
        ({"data": "pictures", "fit": "crop"}, "fit is decided by init; leave it out"),
        ({"data": "digits"}, r"images have \[channels, height, width\] = \[1, 8, 8\], the encoder takes \[3, 16, 16\]"),
        ({"init": "nothing"}, "nothing: there is no trained encoder in it$"),
        ({"init": "begun"}, "begun: the run has not finished its first epoch; resume it with: "),
    ],
)
def test_starts_that_are_refused(tmp_path, monkeypatch, options, said, folder):
    monkeypatch.chdir(tmp_path)
    Path("begun").mkdir()
    Path("begun", "config.json").write_text("{}")
    old = Settings.of(
        recipe="plain", data=shapes(tmp_path / "a.npz", ["circle", "square"]), model="mlp", width=8, epochs=1
    )
    train(old, tmp_path / "old")
    values = {"data": old.images.data, "init": tmp_path / "old", "epochs": 1, **options}
    if values["data"] == "pictures":
        values["data"] = f"folder:{folder}"
    with pytest.raises(OrthoframeError, match=said):
        train(Settings.of(recipe="plain", **values), tmp_path / "new")
    assert not (tmp_path / "new").exists()
