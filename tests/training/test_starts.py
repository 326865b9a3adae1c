"""A run that goes on reads nothing again that it was started from: the encoder of another run, or a backbone."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.small_models import save_model
from tests.training.runs import interrupt, noted, same

from orthoframe.errors import TrainingError
from orthoframe.runs import RunFolder, encoder_in, load_encoder
from orthoframe.training import Settings, make_task, resume, train

RANDOM = np.random.default_rng(0)


def arrays(path, names, seed=0):
    """Images of these classes, each of its own brightness, in a file."""
    noise = np.random.default_rng(seed).integers(0, 60, (len(names) * 12, 8, 8, 1))
    pixels = noise + 40 * np.repeat([ord(name) % 5 for name in names], 12)[:, None, None, None]
    np.savez(path, x=pixels.astype(np.uint8), y=np.repeat(names, 12))
    return f"npz:{path}"


def start(folder, names, seed):
    """A run to start from."""
    data = arrays(folder.with_suffix(".npz"), names, seed)
    train(Settings.of(recipe="plain", data=data, model="mlp", width=8, features=6, epochs=1, seed=seed), folder)


@pytest.mark.parametrize(
    ("loss", "others"), [("frame", ["b", "a"]), ("supcon", ["a", "b"]), ("supcon", ["a", "x"]), ("frame", None)]
)
def test_the_encoder_to_start_from_is_not_read_again(loss, others, tmp_path):
    """Replaced by one of the same shapes, with its classes in another order or others; or gone."""
    start(tmp_path / "old", ["a", "b"], seed=0)
    data = arrays(tmp_path / "new.npz", ["c", "a", "b"])
    settings = Settings.of(
        recipe="plain", data=data, loss=loss, init=tmp_path / "old", epochs=3, batch_size=16, measure_every=1
    )
    train(settings, tmp_path / "undisturbed")
    interrupt(settings, tmp_path / "run", epoch=1, steps=1)
    shutil.rmtree(tmp_path / "old")
    if others is not None:
        start(tmp_path / "old", others, seed=1)
    resume(tmp_path / "run")
    assert same(tmp_path / "run", tmp_path / "undisturbed")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures")
    for number, name in enumerate(("a", "b")):
        (path / name).mkdir()
        for i in range(16):
            pixels = RANDOM.integers(0, 100, (20 + i % 3, 24)) + 100 * number
            Image.fromarray(pixels.astype(np.uint8)).save(path / name / f"{i}.png")
    return f"folder:{path}"


@pytest.mark.parametrize(("kind", "lr"), [("resnet", 0.01), ("vit", 0.0)])
@pytest.mark.parametrize("gone", [True, False])
def test_a_backbone_is_not_read_again(kind, lr, gone, pictures, tmp_path):
    """Its folder is gone, or the processor beside it scales pixels in another way now."""
    save_model(kind, tmp_path / "model")
    settings = Settings.of(
        recipe="plain", data=pictures, backbone=f"hf:{tmp_path / 'model'}", epochs=3, batch_size=8, backbone_lr=lr
    )
    train(settings, tmp_path / "undisturbed")
    interrupt(settings, tmp_path / "run", epoch=1, steps=1)
    file = tmp_path / "model" / "preprocessor_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "image_mean": [0.1, 0.2, 0.3]}))
    if gone:
        shutil.rmtree(tmp_path / "model")
    resume(tmp_path / "run")
    assert same(tmp_path / "run", tmp_path / "undisturbed")


def test_before_the_first_checkpoint_it_is_read(tmp_path):
    """Nothing has been trained that could go on."""
    start(tmp_path / "old", ["a", "b"], seed=0)
    settings = Settings.of(
        recipe="plain", data=arrays(tmp_path / "new.npz", ["a", "b"]), init=tmp_path / "old", epochs=1
    )
    interrupt(settings, tmp_path / "run", epoch=0, steps=1)
    for path in (tmp_path / "run").glob("checkpoint*"):
        path.unlink()
    shutil.rmtree(tmp_path / "old")
    with pytest.raises(TrainingError, match="there is no trained encoder in it"):
        resume(tmp_path / "run")


@pytest.mark.parametrize(
    "change",
    [{"classes": 3}, {"width": 10**9}, {"image_shape": [1, 9, 9]}, {"mean": [0.0] * 3}, {"model": "vgg"}],
    ids=str,
)
def test_descriptions_that_are_broken(change, tmp_path):
    """Somebody else may have made the checkpoint; nothing large is allocated for it."""
    start(tmp_path / "old", ["a", "b"], seed=0)
    checkpoint, _ = RunFolder(tmp_path / "old").load_checkpoint()
    assert encoder_in(checkpoint).classes == ("a", "b")
    progress = replace(checkpoint.progress, encoder=json.dumps({**json.loads(checkpoint.progress.encoder), **change}))
    with pytest.raises(TrainingError, match="the encoder in the checkpoint is broken"):
        encoder_in(replace(checkpoint, progress=progress))


@pytest.mark.parametrize(
    ("options", "names", "is_noted"), [({}, "ab", False), ({}, "bc", True), ({"classifier": 1.0}, "bc", False)]
)
def test_a_classifier_goes_on_where_every_class_has_images(options, names, is_noted, tmp_path):
    """Otherwise it would forget those without, which is noted if the encoder brings one."""
    data = arrays(tmp_path / "images.npz", ["a", "b"])
    usual = {"recipe": "accurate", "data": data, "model": "mlp", "width": 8, "epochs": 1}
    train(Settings.of(**usual), tmp_path / "old")
    start(tmp_path / "without", ["a", "b"], seed=0)
    usual = {"recipe": "accurate", "data": arrays(tmp_path / "new.npz", list(names)), "epochs": 1, **options}
    said = []
    for old in ("old", "without"):
        notes = []
        outcome = train(Settings.of(**usual, init=tmp_path / old), tmp_path / f"from {old}", noted(notes))
        assert bool(outcome.settings.objective.classifier.last) == (not is_noted)
        said.append([note for note in notes if "classifier" in note])
    note = (
        "init trains no linear classifier, which would forget classes without images; one is trained with classifier=1"
    )
    assert said == [[note] if is_noted else [], []]


def test_a_classifier_starts_from_the_one_before(tmp_path):
    """Known classes keep their weights, and new ones start as they are made."""
    usual = {"recipe": "accurate", "epochs": 1}
    train(Settings.of(**usual, model="mlp", width=8, data=arrays(tmp_path / "old.npz", ["a", "b"])), tmp_path / "old")
    before = load_encoder(tmp_path / "old").classifier
    task = make_task(Settings.of(**usual, data=arrays(tmp_path / "new.npz", ["c", "a", "b"]), init=tmp_path / "old"))
    assert task.train.classes == ("a", "b", "c")
    assert torch.equal(task.classifier.weight[:2], before.weights.float())
    assert torch.equal(task.classifier.bias[:2], before.bias.float())
    assert task.classifier.weight[2].abs().min() > 0
