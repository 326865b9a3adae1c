"""A setting that would have no effect is refused, in Python and by the command: none is ignored without a word."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.training.runs import noted, small

from orthoframe.cli import main
from orthoframe.data import load_data
from orthoframe.errors import Option, OptionError, OrthoframeError
from orthoframe.training import (
    OBJECTIVES,
    BenchmarkImages,
    ImageFiles,
    PythonImages,
    Ramp,
    Settings,
    make_task,
    train,
)

CONTRADICTIONS = [
    # Images
    ({"imbalance": "none", "ratio": 100.0}, [Option("imbalance", "none"), Option("ratio")]),
    ({"data": "folder:x", "ratio": 5.0}, [Option("ratio"), Option("imbalance", "step")]),
    ({"data": "npz:x", "ratio": 5.0}, [Option("ratio"), Option("imbalance", "step")]),
    ({"augment": False, "flip": True}, [Option("flip")]),
    ({"augment": False, "views": 2}, [Option("views", 2)]),
    ({"data": "digits", "data_dir": Path("x")}, [Option("data_dir"), Option("data", "digits")]),
    ({"data": "folder:x", "data_dir": Path("x")}, [Option("data_dir"), Option("data", "mnist")]),
    ({"data": "npz:x", "data_dir": Path("x")}, [Option("data_dir"), Option("data", "mnist")]),
    *(
        ({"data": data, name: value}, [Option(name), Option("data", "folder:PATH")])
        for data in ("digits", "mnist", "npz:x")
        for name, value in (("size", (8, 8)), ("fit", "crop"), ("workers", 1), ("memory", 1.0))
    ),
    *(
        ({"data": data, name: "x"}, [Option(name), Option("data", "csv:FILE")])
        for data in ("digits", "folder:x")
        for name in ("path_column", "label_column", "split_column", "group_column")
    ),
    # The encoder
    ({"head": "none", "features": 64}, [Option("features"), Option("head", "linear")]),
    ({"head": "none", "head_norm": "batch"}, [Option("head_norm", "batch"), Option("head", "linear")]),
    ({"head": "none", "backbone_lr": 0.0}, [Option("backbone_lr", 0), Option("head", "linear")]),
    ({"backbone": "hf:x", "model": "mlp"}, [Option("backbone"), Option("model")]),
    ({"backbone": "hf:x", "width": 8}, [Option("backbone"), Option("width")]),
    ({"backbone": "hf:x", "init": Path("x")}, [Option("backbone"), Option("init")]),
    # The loss
    *(
        ({"loss": loss, name: value}, [Option(name), Option("loss", "supcon")])
        for loss in ("cross-entropy", "balanced-softmax")
        for name, value in {
            "denominator": "sincere",
            "temperature": 0.2,
            "margin": 0.5,
            "prototypes": True,
            "classifier": 1.0,
            "head": "linear",
            "head_norm": "batch",
            "features": 32,
            "activation": "abs",
            "probe": True,
        }.items()
    ),
    ({"loss": "cross-entropy", "supcon": 1.0}, [Option("supcon"), Option("loss", "frame")]),
    ({"loss": "cross-entropy", "init": Path("x")}, [Option("init"), Option("loss", "cross-entropy")]),
    ({"supcon": 0.3}, [Option("supcon"), Option("loss", "frame")]),
    ({"loss": "frame", "prototypes": True}, [Option("prototypes"), Option("supcon")]),
    ({"loss": "frame", "denominator": "sincere"}, [Option("denominator"), Option("supcon")]),
    ({"margin": 0.5, "denominator": "negatives"}, [Option("margin", 0.5)]),
    ({"classifier": 1.0, "backbone_lr": 0.0}, [Option("classifier"), Option("backbone_lr"), Option("probe")]),
    ({"classifier": 1.0, "backbone": "hf:x"}, [Option("classifier"), Option("backbone_lr"), Option("probe")]),
    ({"classifier": 1.0, "probe": True}, [Option("probe"), Option("classifier")]),
    ({"probe": True, "adjust": 0.1}, [Option("probe"), Option("adjust")]),
    ({"probe": True, "adjust": "fit"}, [Option("probe"), Option("adjust")]),
    # Batches and schedule
    ({"binding": "none", "bound_classes": 3}, [Option("bound_classes"), Option("binding", "fixed")]),
    ({"binding": "present", "bound_examples": 2}, [Option("bound_examples"), Option("binding", "fixed")]),
    ({"scheme": "full", "batch_size": 64}, [Option("scheme", "full"), Option("batch_size")]),
    ({"power": 0.5}, [Option("power"), Option("scheme", "weighted")]),
    ({"epochs": 5, "minutes": 1.0}, [Option("minutes"), Option("epochs")]),
    # The goal
    ({"goal": "frame"}, [Option("goal"), Option("recipe", "accurate")]),
    ({"recipe": "quick", "goal": "accuracy"}, [Option("goal"), Option("recipe", "accurate")]),
    ({"recipe": "accurate", "goal": "frame", "loss": "cross-entropy"}, [Option("goal"), Option("loss", "frame")]),
]


@pytest.mark.parametrize(("options", "named"), CONTRADICTIONS, ids=str)
def test_settings_that_contradict_each_other(options, named):
    with pytest.raises(OptionError) as refused:
        Settings.of(**{"recipe": "plain", **options}).check()
    parts = [part for part in refused.value.args if isinstance(part, Option)]
    assert parts[: len(named)] == named
    assert "\n" not in str(refused.value)


def spoken(value):
    """As an option of the command has it."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize(
    ("options", "named"), {named[0]: (options, named) for options, named in CONTRADICTIONS}.values(), ids=str
)
def test_the_command_refuses_them_too(options, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["train"]
    for name, value in {"recipe": "plain", **options}.items():
        flag = name.replace("_", "-")
        words += (
            [f"--no-{flag}"] if value is False else [f"--{flag}"] if value is True else [f"--{flag}", spoken(value)]
        )
    assert main(words) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    for option in named:
        assert f"--{option.name.replace('_', '-')}" in complaint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "images",
    [
        BenchmarkImages(data="folder:x"),
        ImageFiles(data="digits", size=(8, 8)),
        ImageFiles(size=(8, 8)),
        ImageFiles(data="csv:x"),
        PythonImages(data="npz:x"),
    ],
    ids=repr,
)
def test_images_of_another_kind(images):
    """What has the options of one kind of data cannot read another."""
    with pytest.raises(OptionError) as refused:
        Settings(images=images).check()
    assert refused.value.args[0] == Option("data", images.asked().get("data", "digits"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"data": "letters"}, "there is no data 'letters'; choose one of digits, mnist"),
        ({"data": "folder:nowhere"}, "nowhere"),
        ({"data": "npz:nowhere.npz"}, "nowhere.npz"),
        ({"majority": 1000}, "1000 images of class 0, which has 134"),
        ({"majority": 1}, "the largest class would have 1 image"),
        ({"features": 9}, "features=10"),
        ({"width": 9, "head": "none"}, "width"),
        ({"model": "vit", "width": 18}, "width must be a multiple of 4"),
        ({"scheme": "balanced", "batch_size": 9}, "batch_size"),
        ({"bound_classes": 11}, "bound_classes must be at most 10"),
        ({"bound_examples": 14}, "class 5 has 13 samples"),
        ({"model": "resnet18", "width": 4, "batch_size": 243, "binding": "none"}, "1 image per process"),
        ({"adjust": "fit"}, "adjust='fit' needs validation images; hold some out with validation=0.1"),
    ],
    ids=str,
)
def test_what_does_not_fit_the_data_is_refused_in_a_sentence(options, sentence):
    with pytest.raises(OrthoframeError) as refused:
        make_task(Settings.of(recipe="plain", **options))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_single_class_is_refused(tmp_path):
    images, labels = np.zeros((8, 8, 8), np.uint8), np.zeros(8, np.int64)
    np.savez(tmp_path / "one.npz", x=images, y=labels)
    with pytest.raises(OptionError, match="has 1 class; a frame needs 2 or more"):
        make_task(Settings.of(recipe="plain", data=f"npz:{tmp_path / 'one.npz'}"))


@pytest.mark.parametrize(
    "options",
    [
        {"data": "digits", "validation": 0.2},
        {"data": "mnist", "data_dir": Path("x")},
        {"data": "folder:x", "size": (16, 16)},
        {"data": "folder:x", "fit": "crop"},
        {"data": "folder:x", "workers": 1},
        {"data": "folder:x", "memory": 1.0},
        {"data": "csv:x", "split_column": "x"},
    ],
    ids=str,
)
def test_images_from_python_are_ready(options, tmp_path):
    """What would decide how they are read has no effect."""
    data, name = options["data"], next(name for name in options if name != "data")
    images = replace(load_data("digits"), name=data)
    with pytest.raises(OptionError) as refused:
        train(Settings.of(recipe="plain", epochs=1, **options), tmp_path / "run", data=images)
    assert refused.value.args[:2] == (Option(name), " has no effect")
    assert not (tmp_path / "run").exists()


def test_images_from_python_beside_others(tmp_path):
    with pytest.raises(OptionError) as refused:
        train(Settings.of(recipe="plain", data="mnist"), tmp_path / "run", data=load_data("digits"))
    assert refused.value.args == (Option("data", "mnist"), " and images from Python; leave one of them out")


def test_a_validation_split_beside_one_that_the_data_has(tmp_path):
    for part in ("train", "validation", "test"):
        for kind in ("a", "b"):
            (tmp_path / "images" / part / kind).mkdir(parents=True)
            for number in range(4):
                Image.new("RGB", (16, 16), (number, 0, 0)).save(tmp_path / "images" / part / kind / f"{number}.png")
    settings = Settings.of(recipe="plain", data=f"folder:{tmp_path / 'images'}", width=2, epochs=1, validation=0.5)
    with pytest.raises(OptionError, match="validation has no effect: the data has validation images; leave it out"):
        train(settings, tmp_path / "run")


def test_fewer_test_images_than_were_asked_for_are_noted(tmp_path):
    notes = []
    train(small(epochs=1, test_images=10**4), tmp_path / "run", noted(notes))
    assert "class 0 has 44 test images, fewer than test_images=10000" in notes


def test_a_recipe_with_a_time_of_its_own(tmp_path, monkeypatch, capsys):
    """The number of epochs is the recipe's, which the user did not give."""
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--recipe", "fast", "--minutes", "5", "--data", "folder:nowhere"]) == 2
    assert capsys.readouterr().err == f"orthoframe: {tmp_path / 'nowhere'}: no such folder\n"


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        ("accurate", {"head": "none"}),
        ("quick", {"denominator": "negatives"}),
        ("fast", {"loss": "frame"}),
        ("paper", {"backbone": "hf:x"}),
        ("fast", {"minutes": 5.0}),
        ("accurate", {"probe": True}),
        ("fast", {"probe": True}),
        ("accurate", {"backbone_lr": 0.0}),
        ("accurate", {"goal": "frame", "probe": True}),
    ],
    ids=str,
)
def test_what_is_given_excludes_a_part_of_the_recipe(recipe, options):
    """So that nobody has to take back what a recipe decides; also after all is decided."""
    settings = Settings.of(recipe=recipe, **options)
    settings.check()
    decided = settings.usual_options()
    if "probe" in options:
        assert decided["classifier"] == (Ramp(1.0, 0.0) if options.get("goal") == "frame" else Ramp(0.0, 0.0))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_losses_of_a_linear_classifier_are_trained_as_they_usually_are(objective):
    usual = Settings.of(recipe="plain", loss=objective).usual_options()
    for recipe in ("quick", "accurate", "fast"):
        decided = Settings.of(recipe=recipe, loss=objective).usual_options()
        if not OBJECTIVES[objective].has_head:
            names = ("scheme", "head", "head_norm", "adjust")
            assert [decided[name] for name in names] == [usual[name] for name in names]
            assert decided["binding"] == "none"
    assert Settings.of(loss="cross-entropy", scheme="balanced").batches.scheme == "balanced"
