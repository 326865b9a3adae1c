"""What decides a run: what is refused, and what changes on the way."""

import copy
import inspect
import math
import pickle
import re
from dataclasses import fields
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from orthoframe.data import load_data
from orthoframe.errors import Option, OptionError
from orthoframe.training import (
    OBJECTIVES,
    RECIPES,
    Settings,
    TemperatureSchedule,
    make_task,
    option_groups,
    option_names,
    resolve,
    type_hints,
)

GROUPS = [group for classes in option_groups().values() for group in classes]
CHOICES = {
    name: kind
    for group in GROUPS
    for name, hint in type_hints(group).items()
    for kind in (hint, *get_args(hint))
    if get_origin(kind) is Literal and name != "adjust"  # which may be a number, too
}


@pytest.mark.parametrize("name", [*CHOICES, "loss", "recipe", "goal"])
def test_choices(name):
    data = "folder:x" if name == "fit" else "digits"
    choices = get_args(CHOICES[name]) if name in CHOICES else ()
    if name == "loss":
        choices = tuple(OBJECTIVES)
    with pytest.raises(OptionError) as refused:
        Settings.of(**{"recipe": "plain", "data": data, name: "odd"}).check()
    assert refused.value.args[0] == Option(name)
    for choice in choices:
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
        ("backbone_lr", -1.0, "at least 0 and below 1e+38"),
        ("clean_fraction", 1.0, "at least 0 and below 1, not 1.0"),
        ("temperature", 0, "from 0.001 to 1e+06, not 0"),
        ("temperature", (0.1, math.nan), "not nan"),
        ("temperature", (0.1, 0.2, 0.3), "must be a number, not tuple"),
        ("temperature", True, "must be a number, not bool"),
        ("temperature", None, "not None"),
        ("temperature", "0.1", "must be a number, not str"),
        ("margin", 11.0, "from -1 to 10, not 11.0"),
        ("classifier", -1.0, "at least 0"),
        ("supcon", -1.0, "at least 0"),
        ("power", 2.0, "from 0 to 1, not 2.0"),
        ("adjust", -0.1, "from 0 to 100, not -0.1; or adjust='fit'"),
        ("adjust", "no", "must be a number, not str"),
        ("epochs", 3.5, "whole number"),
        ("batch_size", None, "not None"),
        ("size", (0, 5), "at least 1, not 0"),
        ("size", 5, "must be a height and a width, not 5"),
        ("validation", 1.0, "below 1, not 1"),
        ("minutes", 0, "positive"),
        ("memory", -1, "at least 0"),
        ("workers", -1, "at least 0, not -1"),
        ("fit", "squeeze", "'pad', 'crop', 'stretch', not 'squeeze'"),
        ("path_column", None, "must be a name, not None"),
        ("group_column", 3, "must be a name, not 3"),
        ("backbone", 3, "must be a name, not 3"),
        ("width", "16", "not '16'"),
        ("compile", 1, "true or false, not 1"),
        ("data", 3, "not 3"),
        ("data_dir", 3, "a folder, not 3"),
        ("init", 3, "a folder, not 3"),
    ],
    ids=str,
)
def test_values_that_are_not_allowed(name, value, words):
    kinds = {"size": "folder:x", "memory": "folder:x", "workers": "folder:x", "fit": "folder:x"}
    kinds |= {"path_column": "csv:x", "group_column": "csv:x", "data_dir": "mnist"}
    loss, scheme = "frame" if name == "supcon" else "supcon", "weighted" if name == "power" else "reshuffle"
    start = Settings.of(recipe="plain", data=kinds.get(name, "digits"), loss=loss, scheme=scheme)
    with pytest.raises(OptionError) as refused:
        # None leaves an option of `Settings.of` open.
        (Settings.of(data=value) if name == "data" else start.with_options(**{name: value})).check()
    assert refused.value.args[0] == Option(name)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_not_a_number():
    with pytest.raises(TypeError, match="lr must be a number"):
        Settings.of(recipe="plain", lr="fast").check()


def test_an_option_that_does_not_exist():
    with pytest.raises(OptionError, match=r"there is no setting 'learning_rate'; .*option_names"):
        Settings.of(learning_rate=0.1)


def test_settings_survive_their_file():
    odd = Settings.of(
        recipe="plain", data="cifar10", data_dir=Path("somewhere"), majority=7, temperature=(0.1, 0.5), compile=True
    )
    assert Settings.from_dict({**odd.to_dict(), "version": "9", "unknown": 1}) == odd
    files = Settings.of(recipe="plain", data="csv:x", size=(3, 4), path_column="file", init=Path("x"), loss="frame")
    assert Settings.from_dict(files.to_dict()) == files
    for objective in OBJECTIVES:
        decided = resolve(Settings.of(loss=objective), load_data("digits"))
        assert Settings.from_dict(decided.to_dict()).to_dict() == decided.to_dict()


def test_what_time_decides_is_kept_with_the_minutes():
    decided = resolve(Settings.of(minutes=10.0), load_data("digits"))
    assert (decided.schedule.epochs, decided.schedule.steps, decided.schedule.is_open) == (20, (), True)
    for number in range(1, 21):
        decided = decided.with_steps(number)
        written = decided.to_dict()
        assert (written["minutes"], written["epochs"], len(written["steps"])) == (10.0, 20, number)
        again = Settings.from_dict(written)
        again.check()
        assert again.to_dict() == written
    assert not again.schedule.is_open
    for odd in (0, "ten", True):
        with pytest.raises((OptionError, TypeError), match="minutes must be"):
            Settings.from_dict({**written, "minutes": odd})
    with pytest.raises(OptionError, match="decides the number of epochs"):  # a user gives one of them
        Settings.of(minutes=10.0, epochs=37).check()


def test_what_was_decided_to_be_nothing_stays_so():
    """A dimension of the features that is that of the encoder, and a backbone that learns as fast as its head."""
    chosen = Settings.of(recipe="plain", data="folder:x").with_options(features=None, backbone_lr=None)
    assert Settings.from_dict(chosen.to_dict()) == chosen
    assert Settings.from_dict({**chosen.to_dict(), "head": None}) == chosen  # which has no such value


def test_a_file_with_all_options_of_every_kind_can_be_read():
    """As runs of 0.1 have it: what this kind of data and this loss have no use for is ignored."""
    written = {"data": "digits", "loss": "cross-entropy", "size": None, "fit": "pad", "supcon": 0.0, "margin": 0.0}
    written |= {"temperature": 0.1, "path_column": "path", "split_column": None, "lr": 0.3}
    assert Settings.from_dict(written) == Settings.of(recipe="plain", loss="cross-entropy", lr=0.3)


def test_a_temperature_may_be_a_number_or_a_pair():
    def temperature(value):
        return Settings.of(recipe="plain", temperature=value).objective.temperature

    assert temperature(0.5) == TemperatureSchedule(0.5, 0.5)
    assert temperature((0.1, 0.5)) == temperature([0.1, 0.5]) == TemperatureSchedule(0.1, 0.5)
    assert temperature(TemperatureSchedule(0.1, 0.5)) == TemperatureSchedule(0.1, 0.5)
    Settings.of(recipe="plain", temperature=1).check()
    assert Settings.of(recipe="plain", temperature=0.5).to_dict()["temperature"] == 0.5
    assert Settings.of(recipe="plain", temperature=(0.1, 0.5)).to_dict()["temperature"] == [0.1, 0.5]
    schedule = Settings.from_dict({"data": "digits", "loss": "supcon", "temperature": [0.1, 0.5]})
    assert schedule.objective.temperature == TemperatureSchedule(0.1, 0.5)
    hash(schedule)


def test_paths_are_absolute_whatever_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()

    def absolute(option, **options):
        settings = Settings.of(recipe="plain", **options).absolute()
        assert settings.absolute() == settings
        return settings.asked()[option]

    assert absolute("data", data="npz:some/file.npz") == f"npz:{tmp_path / 'some/file.npz'}"
    assert absolute("data", data="folder:../x") == f"folder:{tmp_path.parent / 'x'}"
    assert absolute("data_dir", data="mnist", data_dir=Path("there")) == tmp_path / "there"
    assert absolute("init", init=Path("there")) == tmp_path / "there"
    assert absolute("backbone", backbone="hf:model") == f"hf:{tmp_path / 'model'}"
    assert absolute("backbone", backbone="hf:elsewhere") == "hf:elsewhere"  # the name of one that is downloaded
    assert Settings().absolute() == Settings()


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_are_settings(recipe):
    """What a recipe decides is what somebody gets who gives each of its values."""
    values = dict(RECIPES[recipe].values) | (RECIPES[recipe].with_loss if recipe != "plain" else {})
    plain = Settings.of(recipe="plain", loss=RECIPES[recipe].loss, **values)
    plain.check()
    asked = Settings.of(recipe=recipe)
    assert (asked.images.data, asked.objective.name) == (plain.images.data, RECIPES[recipe].loss)
    data = load_data("digits")
    sizes = {"majority": 100, "features": None}  # of images that the paper has and the digits do not
    decided = [resolve(settings.with_options(**sizes), data) for settings in (asked, plain)]
    assert decided[0].to_dict() == decided[1].to_dict()


def test_the_recipe_is_that_of_the_data():
    assert Settings() == Settings.of() == Settings.of(recipe="quick") == Settings.of(data="digits")
    assert Settings.of(data="folder:x") == Settings.of(data="folder:x", recipe="accurate")
    assert Settings.of(data="folder:x").objective.name == "frame"


def test_the_recipe_of_the_paper():
    paper = resolve(Settings.of(recipe="paper", majority=100), load_data("digits")).to_dict()
    expected = {
        "data": "cifar10",
        "model": "resnet18",
        "width": 64,
        "head": "none",
        "activation": "relu",
        "loss": "supcon",
        "temperature": 0.1,
        "epochs": 350,
        "lr": 0.1,
        "weight_decay": 5e-4,
        "lr_schedule": "step",
    }
    assert {name: paper[name] for name in expected} == expected
    assert RECIPES["paper"].values["majority"] == 5000


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_every_setting_is_documented(group):
    for each in fields(group):
        home = next(base for base in group.__mro__ if each.name in inspect.get_annotations(base))
        field = rf'\n    {each.name}: [^\n]*(\n        [^\n]*)*(\n    \))?\n    """'
        assert re.search(field, inspect.getsource(home)), each.name


def test_each_option_is_in_one_group():
    names = [{each.name for group in classes for each in fields(group)} for classes in option_groups().values()]
    assert sum(map(len, names)) == len(set.union(*names))
    assert set.union(*names, {"loss"}) == set(option_names())


def test_class_sizes():
    def counts(**options):
        return make_task(Settings.of(recipe="plain", **options)).class_counts

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
    temperatures = [rising.at(epoch, 9) for epoch in range(9)]
    assert temperatures == pytest.approx([0.1 * 5 ** (epoch / 8) for epoch in range(9)])
    assert TemperatureSchedule(0.5, 0.1).at(0, 2) == 0.5
    assert TemperatureSchedule(0.5, 0.1).at(1, 2) == pytest.approx(0.1)
    assert rising.at(0, 1) == pytest.approx(0.5)  # of a single epoch the end counts


def schedule_of(**options):
    return Settings.of(recipe="plain", **options).schedule.with_usual()


def test_learning_rate_in_closed_form():
    def cosine(part):
        return 0.5 * (1 + math.cos(math.pi * part))

    plain = schedule_of(lr=2.0, clean_fraction=0.0, epochs=10)
    steps = schedule_of(lr=2.0, clean_fraction=0.0, epochs=10, lr_schedule="step")
    linear = schedule_of(lr=2.0, clean_fraction=0.4, epochs=10, lr_schedule="linear")
    restarted = schedule_of(lr=2.0, clean_fraction=0.4, epochs=10)
    for step in range(1000):
        part = step / 1000
        warm = min(1.0, part / 0.05)
        assert plain.learning_rate(part) == pytest.approx(2 * warm * cosine(part))
        assert steps.learning_rate(part) == pytest.approx(2 * 0.1 ** (step * 3 // 1000))
        assert linear.learning_rate(part) == pytest.approx(2 * warm * (1 - part))
        phase = step / 600 if step < 600 else (step - 600) / 400
        if step != 600:  # where rounding decides
            assert restarted.learning_rate(part) == pytest.approx(2 * warm * cosine(phase))


@pytest.mark.parametrize(
    ("epochs", "clean", "first"), [(5, 0.1, 5), (8, 0.1, 8), (4, 0.4, 3), (10, 0.7, 3), (36, 0.03, 35)]
)
def test_the_learning_rate_restarts_with_the_first_clean_epoch(epochs, clean, first):
    """In no other epoch, and in none if all images are augmented: a restart there would undo what was learnt."""
    schedule = schedule_of(lr=1.0, clean_fraction=clean, epochs=epochs)
    assert [epoch for epoch in range(epochs) if schedule.is_clean(epoch)] == list(range(first, epochs))
    rates = [schedule.learning_rate(step / (100 * epochs)) for step in range(100 * epochs)]
    rises = [step for step in range(1, len(rates)) if rates[step] > rates[step - 1] and step > 0.05 * len(rates)]
    assert rises == ([100 * first] if first < epochs else [])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda settings: pickle.loads(pickle.dumps(settings))])
def test_what_is_open_stays_open_in_a_copy_and_in_another_process(copied):
    settings = copied(Settings.of(recipe="plain", epochs=3))
    settings.check()
    assert settings == Settings.of(recipe="plain", epochs=3)
    assert "lr" in settings.undecided()
