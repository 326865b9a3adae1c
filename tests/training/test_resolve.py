"""From what was asked for to what is used: after it nothing is open, and the command and Python do the same."""

from dataclasses import replace

import pytest
import torch
from tests.training.runs import json_of

from orthoframe.batches import BatchPlan
from orthoframe.cli import main
from orthoframe.data import Normaliser, Preparation, load_data
from orthoframe.encoders import MLP, make_frame_encoder
from orthoframe.errors import OptionError
from orthoframe.runs import Architecture, RunFolder, TrainedEncoder
from orthoframe.training import OBJECTIVES, RECIPES, BatchSettings, Settings, resolve, resume, train

DATA = ["digits", "cifar10", "folder:photos", "csv:table.csv", "npz:arrays.npz", "dataset:shapes"]


@pytest.fixture(scope="module")
def digits():
    return load_data("digits", validation=0.1)


@pytest.fixture(scope="module")
def trained(digits):
    """An encoder to start from."""
    shape = digits.train.image_shape
    encoder = make_frame_encoder("mlp", shape, width=8, features=12, num_classes=10)
    return TrainedEncoder(
        encoder=encoder,
        centres=torch.eye(10, 12),
        classes=digits.train.classes,
        preparation=Preparation(shape, "crop"),
        normaliser=Normaliser((0.5,), (0.25,)),
        architecture=Architecture(model="mlp", width=8, head="linear", features=12, activation="relu"),
    )


@pytest.mark.parametrize("loss", OBJECTIVES)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("recipe", RECIPES)
def test_nothing_is_open_after_resolve(recipe, data, loss, digits, trained):
    asked = Settings.of(recipe=recipe, data=data, loss=loss)
    images = replace(digits, name=data)
    if data == "cifar10":
        images = replace(images, validation=None)
    more = [{}, {"minutes": 3.0}, {"backbone": "hf:x"}, {"probe": True}, {"head": "none"}, {"goal": "frame"}]
    for options in more:
        for init in (None, trained):
            try:
                settings = Settings.of(recipe=recipe, data=data, loss=loss, **options, init=init and "trained")
                decided = resolve(settings, images, init, backbone=MLP(digits.train.image_shape, 24))
            except OptionError:  # of what cannot be together; that alone can is checked below
                assert options or init
                continue
            assert decided.undecided() == []
            assert "AUTO" not in repr(decided.to_dict())
            assert resolve(decided, images, init) == decided
            again = resolve(Settings.from_dict(decided.to_dict()), images, init)  # as a run that is resumed
            assert again.to_dict() == decided.to_dict()
    alone = resolve(asked, images)
    assert alone.undecided() == []
    if OBJECTIVES[loss].has_head:
        started = resolve(asked.with_options(init="trained"), images, trained)
        assert (started.encoder.model, started.encoder.width) == ("mlp", 8)
        assert started.undecided() == []
    else:
        with pytest.raises(OptionError):
            resolve(asked.with_options(init="trained"), images, trained)


# What None means after `resolve`, and of which settings it may be said. Of no other field it can be the value.
NONE_MEANS = {
    "model": ("there is a backbone instead", lambda s: s.encoder.backbone is not None),
    "width": ("a backbone has its own", lambda s: s.encoder.model is None),
    "backbone": ("no other network", lambda s: s.encoder.model is not None),
    "init": ("starts from random weights", lambda s: True),
    "features": ("no linear layer that would have a dimension", lambda s: s.encoder.head == "none"),
    "power": ("no weights", lambda s: s.batches.scheme != "weighted"),
    "bound_classes": ("all", lambda s: True),
    "majority": ("all", lambda s: True),
    "test_images": ("all", lambda s: True),
    "minutes": ("no limit", lambda s: s.schedule.steps != ()),
    "steps": ("whole passes over the data", lambda s: s.schedule.minutes is None),
    "split_column": ("no such column", lambda s: True),
    "group_column": ("no such column", lambda s: True),
    "group_by": ("no groups", lambda s: True),
    "data_dir": ("where each machine has them", lambda s: True),
    "workers": ("as many as each machine has cores", lambda s: True),
    "memory": ("as much as each machine has", lambda s: True),
}
OPTIONS = [
    {},
    {"data": "folder:photos"},
    {"data": "csv:table.csv", "minutes": 2.0},
    {"data": "npz:arrays.npz", "recipe": "plain", "scheme": "weighted"},
    {"backbone": "hf:x"},
    {"backbone": "hf:x", "head": "none", "backbone_lr": 0.01},
    {"head": "none", "recipe": "paper"},
    {"loss": "cross-entropy"},
    {"data": "folder:photos", "loss": "balanced-softmax"},
]


@pytest.mark.parametrize("by_plan", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_is_none_is_not_there(options, by_plan, digits):
    """Not "decided elsewhere"."""
    asked, images = Settings.of(**options), replace(digits, name=options.get("data", "digits"))
    plan = None
    if by_plan:
        plan = BatchPlan(digits.train.labels, 32, scheme="weighted")
        asked = replace(asked, batches=BatchSettings())
    backbone = MLP(digits.train.image_shape, 24)
    decided = resolve(asked, images, plan=plan, backbone=backbone)
    none = [name for name, value in decided.asked().items() if value is None]
    assert [name for name in none if not (name in NONE_MEANS and NONE_MEANS[name][1](decided))] == []
    assert decided.undecided() == []
    assert decided.goal in (None, "accuracy")
    if decided.encoder.head == "linear" and "data" not in options:
        width = backbone.out_features if decided.encoder.model is None else decided.encoder.width
        assert decided.to_dict()["features"] == width
    assert getattr(decided.images, "size", (8, 8)) == (8, 8)
    if decided.batches.scheme == "weighted":
        assert decided.batches.power == 0.5
    assert resolve(decided, images) == decided


def test_null_in_files_of_earlier_versions(tmp_path):
    """They left some settings to others, which decide the same now: a run is resumed to the same bytes."""
    for name in ("whole", "stopped"):
        train(Settings.of(recipe="plain", majority=20, epochs=3, data="digits"), tmp_path / name)
    folder = RunFolder(tmp_path / "stopped")
    unsaid = dict.fromkeys(["features", "width", "power", "backbone_lr", "measure_every"])
    config = json_of(tmp_path / "stopped" / "config.json")
    folder.write_config({**config, **unsaid})
    checkpoint, _ = folder.load_checkpoint()
    checkpoint.progress.settings.update(unsaid)
    folder.save_checkpoint(checkpoint)
    for file in ("encoder.safetensors", "verdict.json"):
        (tmp_path / "stopped" / file).unlink()
    outcome = resume(tmp_path / "stopped")
    assert outcome.settings.to_dict() == config
    for file in ("encoder.safetensors", "geometry.jsonl", "verdict.json"):
        assert (tmp_path / "stopped" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    resume(tmp_path / "stopped")  # its checkpoint says more than its config


def test_what_the_user_gave_stays(digits, trained):
    """Whatever the recipe, the encoder and the data would decide."""
    values = {"scheme": "partition", "epochs": 7, "validation": 0.25, "margin": 0.125, "clean_fraction": 0.3, "seed": 4}
    for recipe in ("quick", "accurate", "plain"):
        for init in (None, trained):
            settings = Settings.of(recipe=recipe, **values, init=init and "trained")
            decided = resolve(settings, digits, init).to_dict()
            assert {name: decided[name] for name in values} == values


def test_the_command_and_python_do_the_same(tmp_path):
    """`orthoframe train` and `train(Settings())`: the settings, the numbers and the weights."""
    few = {"epochs": 2, "majority": 40}
    train(Settings().with_options(**few), tmp_path / "python")
    words = [word for name, value in few.items() for word in (f"--{name}", str(value))]
    assert main(["train", *words, "--out", str(tmp_path / "command")]) == 0
    assert json_of(tmp_path / "python" / "config.json")["scheme"] == "balanced"  # of the recipe
    for name in ("config.json", "encoder.safetensors", "geometry.jsonl", "certificate.json", "verdict.json"):
        assert (tmp_path / "python" / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name
    tables = [(tmp_path / name / "metrics.csv").read_text() for name in ("python", "command")]
    without_seconds = [[line.split(",")[:1] + line.split(",")[2:] for line in table.splitlines()] for table in tables]
    assert tables[0].startswith("epoch,seconds,")
    assert without_seconds[0] == without_seconds[1]
