"""What decides a run: what is refused, and what changes on the way."""

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from orthoframe.errors import Option, OptionError, OrthoframeError
from orthoframe.training import RECIPES, Settings, TemperatureSchedule, make_task


@pytest.mark.parametrize(
    "name", ["imbalance", "model", "head", "activation", "loss", "denominator", "scheme", "binding"]
)
def test_choices(name):
    with pytest.raises(OptionError) as refused:
        Settings.of(recipe="plain", **{name: "odd"}).check()
    assert refused.value.args[0] == Option(name)
    kind = get_type_hints(Settings)[name]
    for choice in get_args(kind if get_origin(kind) is Literal else get_args(kind)[0]):
        assert repr(choice) in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("lr_schedule", "never", "'cosine', 'linear', 'step', not 'never'"),
        ("precision", "64", "'32', 'bf16-mixed', '16-mixed', not '64'"),
        ("precision", "auto", "not 'auto'"),
        ("majority", 0, "at least 1, not 0"),
        ("width", -1, "at least 1, not -1"),
        ("features", 0, "at least 1"),
        ("batch_size", 0, "at least 1"),
        ("views", 0, "at least 1"),
        ("epochs", 0, "at least 1"),
        ("devices", 0, "at least 1"),
        ("measure_every", 0, "at least 1"),
        ("bound_classes", 0, "at least 1"),
        ("bound_examples", 0, "at least 1"),
        ("test_images", 0, "at least 1"),
        ("seed", -1, "at least 0"),
        ("seed", 2**63, "below 2^63, not 9223372036854775808"),
        ("ratio", 0.5, "at least 1 and finite, not 0.5"),
        ("ratio", math.nan, "not nan"),
        ("ratio", math.inf, "not inf"),
        ("lr", 0.0, "positive"),
        ("lr", math.inf, "not inf"),
        ("lr", 1e38, "positive and below 1e+38, not 1e+38"),
        ("weight_decay", 1e38, "at least 0 and below 1e+38"),
        ("width", 2**31, "at most 2147483647, not 2147483648"),
        ("weight_decay", -1e-4, "at least 0"),
        ("clean_fraction", 1.0, "at least 0 and below 1, not 1.0"),
        ("temperature", 0, "from 0.001 to 1e+06, not 0"),
        ("temperature", (0.1, math.nan), "not nan"),
        ("temperature", (0.1, 0.2, 0.3), "must be a number, not tuple"),
        ("temperature", True, "must be a number, not bool"),
        ("temperature", None, "not None"),
        ("temperature", "0.1", "must be a number, not str"),
        ("epochs", 3.5, "whole number"),
        ("batch_size", None, "not None"),
        ("size", (0, 5), "at least 1, not 0"),
        ("size", 5, "must be a height and a width, not 5"),
        ("validation", 1.0, "below 1, not 1"),
        ("minutes", 0, "positive"),
        ("memory", -1, "at least 0"),
        ("workers", -1, "at least 0, not -1"),
        ("fit", "squeeze", "'pad', 'crop', 'stretch', not 'squeeze'"),
        ("path_column", None, "must be the name of a column, not None"),
        ("group_column", 3, "must be the name of a column, not 3"),
        ("width", "16", "not '16'"),
        ("compile", 1, "true or false, not 1"),
        ("data", 3, "not 3"),
        ("data_dir", 3, "a folder, not 3"),
    ],
    ids=str,
)
def test_values_that_are_not_allowed(name, value, words):
    with pytest.raises(OptionError) as refused:
        Settings.of(recipe="plain", **{name: value}).check()
    assert refused.value.args[0] == Option(name)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"imbalance": "none", "ratio": 100.0}, [Option("imbalance", "none"), Option("ratio")]),
        ({"head": "none", "features": 64}, [Option("features"), Option("head", "linear")]),
        ({"loss": "cross-entropy", "denominator": "sincere"}, [Option("denominator"), Option("loss", "supcon")]),
        ({"loss": "cross-entropy", "temperature": 0.2}, [Option("temperature"), Option("loss", "supcon")]),
        ({"loss": "cross-entropy", "prototypes": True}, [Option("prototypes"), Option("loss", "supcon")]),
        ({"binding": "none", "bound_classes": 3}, [Option("bound_classes"), Option("binding", "fixed")]),
        ({"binding": "present", "bound_examples": 2}, [Option("bound_examples"), Option("binding", "fixed")]),
        ({"scheme": "full", "batch_size": 64}, [Option("scheme", "full"), Option("batch_size")]),
        ({"augment": False, "views": 2}, [Option("views", 2)]),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other(options, named):
    with pytest.raises(OptionError) as refused:
        Settings.of(recipe="plain", **options).check()
    assert [part for part in refused.value.args if isinstance(part, Option)] == named


def test_what_is_not_a_number():
    with pytest.raises(TypeError, match="lr must be a number"):
        Settings.of(recipe="plain", lr="fast").check()


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


def test_settings_survive_their_file():
    odd = Settings.of(recipe="plain", data_dir=Path("somewhere"), majority=7, temperature=(0.1, 0.5), compile=True)
    assert Settings.from_dict({**odd.to_dict(), "version": "9", "unknown": 1}) == odd
    assert Settings.from_dict(Settings().to_dict()) == Settings()


def test_a_temperature_may_be_a_number_or_a_pair():
    assert Settings.of(recipe="plain", temperature=0.5).temperature == TemperatureSchedule(0.5, 0.5)
    assert Settings.of(recipe="plain", temperature=(0.1, 0.5)) == Settings.of(
        recipe="plain", temperature=TemperatureSchedule(0.1, 0.5)
    )
    Settings.of(recipe="plain", temperature=1).check()
    assert Settings.of(recipe="plain", temperature=0.5).to_dict()["temperature"] == 0.5
    assert Settings.of(recipe="plain", temperature=(0.1, 0.5)).to_dict()["temperature"] == [0.1, 0.5]
    assert Settings.from_dict({"temperature": [0.1, 0.5]}).temperature == TemperatureSchedule(0.1, 0.5)
    hash(Settings.from_dict({"temperature": [0.1, 0.5]}))


def test_paths_are_absolute_whatever_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = Settings.of(recipe="plain", data="npz:some/file.npz", data_dir=Path("there"))
    found = given.absolute()
    assert (found.data, found.data_dir) == (f"npz:{tmp_path / 'some/file.npz'}", tmp_path / "there")
    assert found.absolute() == found
    assert replace(found, data=given.data, data_dir=given.data_dir) == given
    assert Settings.of(recipe="plain", data="folder:../x").absolute().data == f"folder:{tmp_path.parent / 'x'}"
    assert Settings().absolute() == Settings()


def test_recipes_are_settings():
    for options in RECIPES.values():
        Settings.of(recipe="plain", **options).check()
    assert Settings.of() == Settings.of(recipe="plain", **RECIPES["quick"])
    assert Settings.of(data="folder:x") == Settings.of(recipe="plain", data="folder:x", **RECIPES["accurate"])
    paper = Settings.of(recipe="plain", **RECIPES["paper"])
    wanted = {
        "data": "cifar10",
        "majority": 5000,
        "model": "resnet18",
        "width": None,
        "head": "none",
        "activation": "relu",
        "loss": "supcon",
        "temperature": TemperatureSchedule(0.1, 0.1),
        "epochs": 350,
        "lr": 0.1,
        "weight_decay": 5e-4,
        "lr_schedule": "step",
    }
    assert {name: getattr(paper, name) for name in wanted} == wanted


def test_every_setting_is_documented():
    source = Path(Settings.check.__code__.co_filename).read_text()
    for field in fields(Settings):
        after = source.split(f"\n    {field.name}: ")[1].split("\n")[1]
        assert after.strip().startswith('"""'), field.name


def test_class_sizes():
    def counts(**options):
        return make_task(replace(Settings(), **options)).class_counts

    assert counts() == [133] * 5 + [13] * 5  # the fewest of a majority class, and a tenth of it
    assert counts(majority=40, ratio=4.0) == [40] * 5 + [10] * 5
    assert counts(imbalance="none", majority=30) == [30] * 10
    everything = counts(imbalance="none")
    assert sum(everything) == 1347
    tail = counts(imbalance="long-tail", ratio=100.0, majority=100)
    assert tail == [int(100 * 100 ** (-c / 9)) for c in range(10)]
    largest = counts(imbalance="long-tail", ratio=100.0)
    assert 100 <= largest[0] <= everything[0]
    assert largest[0] // 100 <= largest[-1] <= largest[0] // 100 + 1


def test_temperature_goes_evenly_in_its_logarithm():
    assert [TemperatureSchedule(0.3, 0.3).at(epoch, 5) for epoch in range(5)] == [0.3] * 5
    rising = TemperatureSchedule(0.1, 0.5)
    found = [rising.at(epoch, 9) for epoch in range(9)]
    assert found == pytest.approx([0.1 * 5 ** (epoch / 8) for epoch in range(9)])
    assert TemperatureSchedule(0.5, 0.1).at(0, 2) == 0.5
    assert TemperatureSchedule(0.5, 0.1).at(1, 2) == pytest.approx(0.1)
    assert rising.at(0, 1) == pytest.approx(0.5)  # of a single epoch the end counts


def test_learning_rate_in_closed_form():
    def cosine(part):
        return 0.5 * (1 + math.cos(math.pi * part))

    plain = Settings.of(recipe="plain", lr=2.0, clean_fraction=0.0, epochs=10)
    steps, restarted = replace(plain, lr_schedule="step"), replace(plain, clean_fraction=0.4)
    for step in range(1000):
        part = step / 1000
        warm = min(1.0, part / 0.05)
        assert plain.learning_rate(part) == pytest.approx(2 * warm * cosine(part))
        assert steps.learning_rate(part) == pytest.approx(2 * 0.1 ** (step * 3 // 1000))
        phase = step / 600 if step < 600 else (step - 600) / 400
        if step != 600:  # where rounding decides
            assert restarted.learning_rate(part) == pytest.approx(2 * warm * cosine(phase))


@pytest.mark.parametrize(
    ("epochs", "clean", "first"), [(5, 0.1, 5), (8, 0.1, 8), (4, 0.4, 3), (10, 0.7, 3), (36, 0.03, 35)]
)
def test_the_learning_rate_restarts_with_the_first_clean_epoch(epochs, clean, first):
    """In no other epoch, and in none if all images are augmented: a restart there would undo what was learnt."""
    settings = Settings.of(recipe="plain", lr=1.0, clean_fraction=clean, epochs=epochs)
    assert [epoch for epoch in range(epochs) if settings.clean(epoch)] == list(range(first, epochs))
    rates = [settings.learning_rate(step / (100 * epochs)) for step in range(100 * epochs)]
    rises = [step for step in range(1, len(rates)) if rates[step] > rates[step - 1] and step > 0.05 * len(rates)]
    assert rises == ([100 * first] if first < epochs else [])
