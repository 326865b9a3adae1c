"""From what was asked for to what is used: after it nothing is open, and the command and Python do the same."""

from dataclasses import replace

import pytest
import torch
from tests.training.runs import json_of

from orthoframe.cli import main
from orthoframe.data import Normaliser, Preparation, load_data
from orthoframe.encoders import make_frame_encoder
from orthoframe.errors import OptionError
from orthoframe.runs import Architecture, TrainedEncoder
from orthoframe.training import OBJECTIVES, RECIPES, Settings, resolve, train

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
                decided = resolve(settings, images, init)
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
