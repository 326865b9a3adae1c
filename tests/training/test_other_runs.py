"""`--resume` goes on with the run that was interrupted, or says what has changed."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.training.runs import interrupt, json_of, same, small

from orthoframe.cli import main
from orthoframe.data import load_data
from orthoframe.errors import TrainingError, brief
from orthoframe.runs import CHECKPOINT, RunFolder
from orthoframe.training import Settings, make_task, resolve, resume, train
from orthoframe.training._loop import changed_settings, check_checkpoint


def refused(folder, capsys):
    """The sentence with which the command refuses to resume; nothing in the folder changes."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert main(["train", "--resume", str(folder)]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("orthoframe: ")
    assert complaint.count("\n") == 1
    assert len(complaint.replace(str(folder), "").replace(str(folder.parent), "")) <= 300
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    return complaint


def edit(folder, **settings):
    path = folder / "config.json"
    path.write_text(json.dumps({**json_of(path), **settings}))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 5}, "epochs is 5 (it was 3)"),
        ({"epochs": 1}, "epochs is 1 (it was 3)"),
        ({"lr": 0.2}, "lr is 0.2 (it was 0.1)"),
        ({"temperature": 0.2}, "temperature is 0.2 (it was 0.1)"),
        ({"temperature": [0.1, 0.5]}, "temperature is [0.1, 0.5] (it was 0.1)"),
        ({"activation": "abs"}, 'activation is "abs" (it was "relu")'),
        ({"width": None}, "width is null (it was 16)"),
        ({"width": 10**9}, "width is 1000000000 (it was 16)"),  # before an encoder of that width is made
        ({"lr": 0.2, "seed": 1}, "lr is 0.2 (it was 0.1), seed is 1 (it was 0)"),
    ],
    ids=str,
)
def test_settings_that_were_edited(settings, words, interrupted, undisturbed, capsys):
    edit(interrupted, **settings)
    assert refused(interrupted, capsys) == (
        f"orthoframe: {interrupted}: config.json has changed since the checkpoint was made: {words}; "
        "change it back, or start a new run\n"
    )
    shutil.copy(undisturbed / "config.json", interrupted)
    resume(interrupted)
    assert same(interrupted, undisturbed)


def test_settings_of_a_run_that_has_ended(undisturbed, tmp_path, capsys):
    """More epochs, or fewer than are done: the learning rate of each would have been another."""
    for epochs in (2, 4):
        shutil.copytree(undisturbed, tmp_path / str(epochs))
        edit(tmp_path / str(epochs), epochs=epochs)
        assert f"epochs is {epochs} (it was 3)" in refused(tmp_path / str(epochs), capsys)


OTHERS = {
    **{"imbalance": "none", "model": "vit", "head": "none", "activation": "abs", "denominator": "sincere"},
    **{"scheme": "full", "binding": "none", "lr_schedule": "step", "precision": "bf16-mixed", "head_norm": "batch"},
    **{"size": (3, 4), "fit": "crop", "data_dir": Path("x"), "init": Path("x"), "backbone": "x", "adjust": 0.3},
    **dict.fromkeys(("path_column", "label_column", "split_column", "group_column"), "x"),
    **{"temperature": 0.7, "supcon": 0.5, "margin": 0.5, "classifier": 0.5},
}
"""Another value of each setting that is neither a number nor a truth."""


@pytest.mark.parametrize("loss", ["supcon", "frame"])
@pytest.mark.parametrize("data", ["mnist", "csv:x"])
def test_every_setting_is_compared(data, loss):
    """Only what does not change a run may be another."""
    settings = resolve(Settings.of(recipe="plain", data=data, loss=loss), load_data("digits", validation=0.1))
    then = settings.to_dict()
    assert changed_settings(then, settings) == ""
    for name in then.keys() - {"data", "loss"}:
        value = then[name]
        another = OTHERS[name] if name in OTHERS else not value if isinstance(value, bool) else (value or 0) + 1
        if name == "imbalance" and value == "none":
            another = "step"
        now = settings.with_options(**{name: another})
        expected = f"{name} is {json.dumps(now.to_dict()[name])} (it was {json.dumps(value)})"
        may_change = name in ("data_dir", "devices", "workers", "memory")
        may_change |= name == "power" and value is None  # without effect, and refused beside its scheme
        assert changed_settings(then, now) == ("" if may_change else expected)


def test_changes_in_words():
    def changes(then, **now):
        return changed_settings(Settings.of(recipe="plain", **then).to_dict(), Settings.of(recipe="plain", **now))

    assert changes({"data": "npz:/a.npz"}, data="npz:/b.npz") == ""  # data that was moved
    assert changes({"data": "npz:/a"}, data="folder:/a") == 'data is "folder" (it was "npz")'
    assert changes({"loss": "supcon"}, loss="frame") == 'loss is "frame" (it was "supcon")'
    many = {"lr": 9.0, "width": 9, "views": 9, "epochs": 9, "seed": 9, "batch_size": 9}
    assert changes(dict.fromkeys(many, 1), **many).endswith(", and 2 more")
    huge = changes({"bound_classes": 10**400}, bound_classes=3)
    assert huge.startswith("bound_classes is 3 (it was 1000")
    assert len(huge) < 100


def arrays(seed=0):
    random = np.random.default_rng(seed)
    return {
        f"{name}_{part}": random.integers(0, 255, (24, 8, 8)).astype(np.uint8) if name == "x" else np.repeat([0, 1], 12)
        for part in ("train", "test")
        for name in ("x", "y")
    }


def one_pixel(data, part):
    data[f"x_{part}"][3, 2, 1] ^= 1


def labels_permuted(data, part):
    data[f"y_{part}"] = data[f"y_{part}"][::-1].copy()


def order_permuted(data, part):
    for name in ("x", "y"):
        data[f"{name}_{part}"] = data[f"{name}_{part}"][::-1].copy()


@pytest.fixture
def stored(tmp_path):
    """The folder of an interrupted run on arrays in a file of their own."""
    np.savez(tmp_path / "data.npz", **arrays())
    settings = small(data=f"npz:{tmp_path / 'data.npz'}", imbalance="none", majority=None, ratio=1.0, validation=0.0)
    interrupt(settings, tmp_path / "run", epoch=1, steps=1)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("change", "part", "words"),
    [
        (one_pixel, "train", "training pixels differ"),
        (one_pixel, "test", "test pixels differ"),
        (labels_permuted, "train", "training labels differ"),
        (labels_permuted, "test", "test labels differ"),
        (order_permuted, "train", "the training images are in another order"),
        (order_permuted, "test", "the test images are in another order"),
    ],
)
def test_data_that_has_changed(change, part, words, stored, tmp_path, capsys):
    data = arrays()
    change(data, part)
    np.savez(tmp_path / "data.npz", **data)
    complaint = (
        f"{stored}: npz:{tmp_path / 'data.npz'} is not the data that the checkpoint was made with: "
        f"{words}; bring that back, or start a new run"
    )
    # In 300 characters, where the folder of the tests has a long path.
    assert refused(stored, capsys) == f"orthoframe: {brief(complaint, 300 - len('orthoframe: '))}\n"


def test_a_run_and_its_data_may_be_moved(stored, tmp_path):
    """The run anywhere; the data where config.json says then, or the variable."""
    train(small(**json_settings(stored)), tmp_path / "undisturbed")
    (tmp_path / "elsewhere").mkdir()
    stored.rename(tmp_path / "elsewhere" / "moved")
    (tmp_path / "data.npz").rename(tmp_path / "elsewhere" / "other.npz")
    moved = tmp_path / "elsewhere" / "moved"
    for folder in (moved, tmp_path / "undisturbed"):
        edit(folder, data=f"npz:{tmp_path / 'elsewhere' / 'other.npz'}")
    resume(moved)
    assert same(moved, tmp_path / "undisturbed")


def json_settings(folder):
    settings = json_of(folder / "config.json")
    return {name: settings[name] for name in ("data", "imbalance", "majority", "ratio", "validation")}


def test_batches_of_another_version(interrupted):
    """The same settings and data, and other batches."""
    run, task = RunFolder(interrupted), make_task(small())
    checkpoint, _ = run.load_checkpoint(partial(check_checkpoint, task=task))
    run.save_checkpoint(replace(checkpoint, progress=replace(checkpoint.progress, plan="another")))
    with pytest.raises(TrainingError, match=r"by a version that plans others, which run\.json names"):
        resume(interrupted)


def test_without_a_checkpoint_nothing_is_lost(interrupted):
    """Then the settings are those of a run that starts at the beginning."""
    for path in interrupted.glob("checkpoint.*"):
        path.unlink()
    edit(interrupted, epochs=1)
    resume(interrupted)
    assert (interrupted / CHECKPOINT).exists()
    assert len((interrupted / "metrics.csv").read_text().splitlines()) == 2
