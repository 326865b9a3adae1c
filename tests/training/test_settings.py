"""What decides a run: what is refused, and what changes on the way."""

import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from orthoframe.errors import TrainingError
from orthoframe.training import RECIPES, Settings
from orthoframe.training._schedules import Temperature, learning_rate
from orthoframe.training._setup import set_up


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"imbalance": "odd"}, "--imbalance must be one of step, long-tail, none, not 'odd'"),
        ({"model": "vgg"}, "--model must be one of resnet18, resnet34, densenet40, mlp, vit, not 'vgg'"),
        ({"head": "mlp"}, "--head must be one of linear, none, not 'mlp'"),
        ({"activation": "tanh"}, "--activation must be one of relu, abs, square, softplus"),
        ({"loss": "triplet"}, "--loss must be one of supcon, cross-entropy, not 'triplet'"),
        ({"denominator": "positives"}, "--denominator must be one of all, sincere, negatives, class-average"),
        ({"scheme": "magic"}, "--scheme must be one of full, partition, reshuffle, balanced, rare-hub"),
        ({"binding": "glue"}, "--binding must be one of none, fixed, present, redrawn, random"),
        ({"decay": "never"}, "--decay must be one of cosine, thirds"),
        ({"precision": "64"}, "--precision must be one of auto, 32, bf16-mixed, 16-mixed"),
        ({"majority": 0}, "--majority must be at least 1, not 0"),
        ({"width": -1}, "--width must be at least 1, not -1"),
        ({"features": 0}, "--features must be at least 1"),
        ({"batch_size": 0}, "--batch-size must be at least 1"),
        ({"views": 0}, "--views must be at least 1"),
        ({"epochs": 0}, "--epochs must be at least 1"),
        ({"devices": 0}, "--devices must be at least 1"),
        ({"measure_every": 0}, "--measure-every must be at least 1"),
        ({"bound_classes": 0}, "--bound-classes must be at least 1"),
        ({"bound_examples": 0}, "--bound-examples must be at least 1"),
        ({"test_images": 0}, "--test-images must be at least 1"),
        ({"seed": -1}, "--seed must be at least 0"),
        ({"seed": 2**63}, "--seed must be at least 0 and below 2^63, not 9223372036854775808"),
        ({"ratio": 0.5}, "--ratio must be a number from 1 (balanced), not 0.5"),
        ({"ratio": math.nan}, "--ratio must be a number from 1 (balanced), not nan"),
        ({"ratio": math.inf}, "--ratio must be a number from 1 (balanced), not inf"),
        ({"lr": 0.0}, "--lr must be positive, not 0.0"),
        ({"lr": math.inf}, "--lr must be positive, not inf"),
        ({"weight_decay": -1e-4}, "--weight-decay must be at least 0"),
        ({"settle": 1.0}, "--settle must be a part of the epochs from 0 to below 1, not 1.0"),
        (
            {"temperature": "0"},
            "--temperature must be a positive number or a schedule such as '0.1->0.5' (with the quotes) or 0.1:0.5, "
            "not '0'",
        ),
        ({"temperature": "0.1-"}, "not '0.1-'; a shell takes > for itself unless it is in quotes"),
        ({"temperature": 0}, "--temperature must be"),
        ({"temperature": True}, "--temperature must be"),
        ({"temperature": None}, "--temperature must be a text, not None"),
        ({"temperature": "0.1->"}, "--temperature must be"),
        ({"temperature": "0.1:0.2:0.3"}, "--temperature must be"),
        ({"temperature": "0.1->0.2->0.3"}, "--temperature must be"),
        ({"temperature": "nan"}, "--temperature must be"),
        ({"temperature": "warm"}, "--temperature must be"),
        ({"imbalance": "none", "ratio": 100.0}, "--imbalance none has no ratio, and --ratio is 100.0"),
        ({"head": "none", "features": 64}, "--features needs --head linear"),
        ({"loss": "cross-entropy", "denominator": "sincere"}, "--denominator is for --loss supcon"),
        ({"loss": "cross-entropy", "temperature": "0.2"}, "--temperature is for --loss supcon"),
        ({"loss": "cross-entropy", "prototypes": True}, "--prototypes are for --loss supcon"),
        ({"binding": "none", "bound_classes": 3}, "need --binding fixed, redrawn or random, not none"),
        ({"binding": "present", "bound_examples": 2}, "need --binding fixed, redrawn or random, not present"),
        ({"scheme": "full", "batch_size": 64}, "leave --batch-size out"),
        ({"augment": False, "views": 2}, "--views 2 without augmentation are 2 times the same image"),
        ({"epochs": 3.5}, "--epochs must be a whole number, not 3.5"),
        ({"epochs": None}, "--epochs must be a whole number, not None"),
        ({"width": "16"}, "--width must be a whole number, not '16'"),
        ({"lr": "fast"}, "--lr must be a number, not 'fast'"),
        ({"compile": 1}, "--compile must be true or false, not 1"),
        ({"data": 3}, "--data must be a text, not 3"),
        ({"data_dir": 3}, "--data-dir must be a folder, not 3"),
    ],
    ids=str,
)
def test_what_is_not_allowed_is_refused_in_a_sentence(options, sentence):
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the sentence is compared below
        Settings(**options).check()
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"data": "letters"}, "there is no data 'letters'; choose one of digits, mnist"),
        ({"data": "folder:nowhere"}, "nowhere"),
        ({"data": "npz:nowhere.npz"}, "nowhere.npz"),
        ({"majority": 1000}, "class 0 has 134 samples, and 1000 were asked for"),
        ({"majority": 1}, "the largest class would have 1 image; it needs 2"),
        ({"features": 9}, "an orthogonal frame needs at least one dimension per class; use --features 10 or more"),
        ({"width": 9, "head": "none"}, "per class; use a larger --width, or --head linear"),
        ({"model": "vit", "width": 18}, "--width must be a multiple of 4"),
        ({"scheme": "balanced", "batch_size": 9}, "--scheme balanced needs a --batch-size of at least 10"),
        ({"bound_classes": 11}, "--bound-classes is 11, and there are 10 classes"),
        ({"bound_examples": 14}, "class 5 has 13 samples, and --bound-examples 14; use at most 13"),
        (
            {"model": "resnet18", "width": 4, "batch_size": 243, "binding": "none"},
            "the smallest batch has 1 image for a process, and BatchNorm needs 2; choose another --batch-size",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_the_data_is_refused_in_a_sentence(options, sentence):
    with pytest.raises(TrainingError) as refused:
        set_up(Settings(**options))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_single_class_is_refused(tmp_path):
    images, labels = np.zeros((8, 8, 8), np.uint8), np.zeros(8, np.int64)
    np.savez(tmp_path / "one.npz", x=images, y=labels)
    with pytest.raises(TrainingError, match="has 1 class; a frame needs 2 or more"):
        set_up(Settings(data=f"npz:{tmp_path / 'one.npz'}"))


def test_settings_survive_their_file():
    odd = Settings(data_dir=Path("somewhere"), majority=7, temperature="0.1->0.5", compile=True)
    assert Settings.from_dict({**odd.to_dict(), "version": "9", "unknown": 1}) == odd
    assert Settings.from_dict(Settings().to_dict()) == Settings()


def test_a_temperature_may_be_a_number():
    assert Settings(temperature=0.5) == Settings(temperature="0.5")
    Settings(temperature=1).check()
    assert Settings.from_dict({"temperature": 0.5}).temperature == "0.5"
    assert Temperature.of(0.5) == Temperature.of("0.5")


def test_paths_are_absolute_whatever_they_were(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = Settings(data="npz:some/file.npz", data_dir=Path("there"))
    found = given.absolute()
    assert (found.data, found.data_dir) == (f"npz:{tmp_path / 'some/file.npz'}", tmp_path / "there")
    assert found.absolute() == found
    assert replace(found, data=given.data, data_dir=given.data_dir) == given
    assert Settings(data="folder:../x").absolute().data == f"folder:{tmp_path.parent / 'x'}"
    assert Settings().absolute() == Settings()


def test_recipes_are_settings():
    for options in RECIPES.values():
        Settings(**options).check()
    assert Settings(**RECIPES["quick"]) == Settings()
    paper = Settings(**RECIPES["paper"])  # THEORY.md 8
    wanted = {
        "data": "cifar10",
        "majority": 5000,
        "model": "resnet18",
        "width": None,
        "head": "none",
        "activation": "relu",
        "loss": "supcon",
        "temperature": "0.1",
        "epochs": 350,
        "lr": 0.1,
        "weight_decay": 5e-4,
        "decay": "thirds",
    }
    assert {name: getattr(paper, name) for name in wanted} == wanted


def test_every_setting_is_documented():
    source = Path(Settings.check.__code__.co_filename).read_text()
    for field in fields(Settings):
        after = source.split(f"\n    {field.name}: ")[1].split("\n")[1]
        assert after.strip().startswith('"""'), field.name


def test_class_sizes():
    def counts(**options):
        return set_up(replace(Settings(), **options)).class_counts

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
    assert [Temperature.of("0.3").at(epoch, 5) for epoch in range(5)] == [0.3] * 5
    rising = Temperature.of("0.1->0.5")
    found = [rising.at(epoch, 9) for epoch in range(9)]
    assert found == pytest.approx([0.1 * 5 ** (epoch / 8) for epoch in range(9)])
    assert Temperature.of(" 0.5 -> 0.1 ").at(0, 2) == 0.5
    assert Temperature.of("0.5->0.1").at(1, 2) == pytest.approx(0.1)
    assert Temperature.of("0.1:0.5") == rising  # a shell needs no quotes
    assert Temperature.of("0.1->0.5").at(0, 1) == pytest.approx(0.5)  # of a single epoch the end counts


def test_learning_rate_in_closed_form():
    def cosine(part):
        return 0.5 * (1 + math.cos(math.pi * part))

    for step in range(1000):
        part = step / 1000
        warm = min(1.0, part / 0.05)
        assert learning_rate(2.0, "cosine", part, 0.0) == pytest.approx(2 * warm * cosine(part))
        assert learning_rate(2.0, "thirds", part, 0.0) == pytest.approx(2 * 0.1 ** (step * 3 // 1000))
        phase = step / 600 if step < 600 else (step - 600) / 400
        if step != 600:  # where rounding decides
            assert learning_rate(2.0, "cosine", part, 0.4) == pytest.approx(2 * warm * cosine(phase))
