"""The sampler, the loss and the callback in a real Lightning Trainer."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from integrations import digits

pytest.importorskip("lightning.pytorch", reason="lightning is not installed")

from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

from integrations.lightning_run import Module, train
from orthoframe import SupConLoss, measure
from orthoframe.lightning import GeometryCallback

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning warns of workers, of CPUs, of itself


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A whole run in one process, with a checkpoint in the middle of an epoch."""
    folder = tmp_path_factory.mktemp("one")
    keep = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=1, save_top_k=-1)
    callback = GeometryCallback(num_classes=10)
    module, trainer, _ = train(folder, callbacks=[callback, keep], enable_checkpointing=True)
    return module, trainer, callback, folder


def test_batches_are_those_of_the_plan(one):
    assert one[0].seen == digits.batches_of(0, 1)


def test_geometry_and_gap_are_those_of_the_end(one):
    module, _, callback, _ = one
    images, labels = digits.rows()
    with torch.no_grad():
        geometry = measure(module(images), labels)
    last = callback.history[-1]
    assert last["delta_of"] == pytest.approx(geometry.delta_of, rel=1e-6)
    assert last["beta_nc"] == pytest.approx(geometry.beta_nc, rel=1e-6)
    assert [row["epoch"] for row in callback.history] == [1, 2, 3, 4]
    assert [row["gap"] for row in callback.history] == pytest.approx(digits.expected_gaps(module.values), rel=1e-5)
    assert callback.history[-1]["delta_of"] < callback.history[0]["delta_of"]


def test_the_logger_has_the_numbers_and_the_picture(one):
    _, trainer, callback, _ = one
    with open(Path(trainer.log_dir) / "metrics.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["geometry/delta_of"]]
    for name in ("delta_of", "beta_nc", "floor", "gap"):
        logged = [float(row[f"geometry/{name}"]) for row in rows]
        assert logged == pytest.approx([row[name] for row in callback.history], rel=1e-6)
    assert (Path(trainer.log_dir) / "geometry.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("no_picture")
@pytest.mark.parametrize(("step", "workers"), [(6, 0), (6, 2), (8, 0)], ids=["inside", "workers", "between epochs"])
def test_a_run_resumed_inside_an_epoch_goes_on_with_the_next_batch(one, tmp_path, step, workers):
    """Values agree to the last bit; so does the history, but for an epoch to whose end Lightning does not come."""
    module, _, callback, folder = one
    options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else None
    resumed, _, (again,) = train(tmp_path, checkpoint=folder / f"step={step}.ckpt", loader_options=options)
    assert resumed.seen == module.seen[step:]
    assert resumed.values == module.values[step:]
    missed = {2} if step == 8 else set()  # saved after the last batch of epoch 2, before its end
    whole = [row["delta_of"] for row in callback.history if row["epoch"] not in missed]
    assert [row["delta_of"] for row in again.history] == whole


@pytest.mark.usefixtures("no_picture")
def test_the_callback_leaves_the_training_as_it_was(tmp_path):
    """Also the random numbers, here those of dropout."""
    alone, _, _ = train(tmp_path, callbacks=[], dropout=0.2, max_epochs=2)
    watched, _, _ = train(tmp_path, dropout=0.2, max_epochs=2)
    assert watched.values == alone.values
    assert all(part.training for part in watched.modules())


def test_measurements_are_as_rare_as_asked_for_and_the_last_epoch_has_one(tmp_path):
    """Also if the training ends early: EarlyStopping sees the numbers, and stops before the third epoch."""
    images, labels = digits.rows()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images[::2], labels[::2]), batch_size=50)
    half = GeometryCallback(num_classes=10, data=loader, every=2, name="half", folder=tmp_path / "here")
    whole = GeometryCallback(num_classes=10, data=torch.utils.data.TensorDataset(images, labels))
    stop = EarlyStopping("geometry/delta_of", patience=1, mode="max")
    module, _, _ = train(tmp_path, callbacks=[half, whole, stop], max_epochs=7)
    assert [row["epoch"] for row in whole.history] == [1, 2]
    assert [row["epoch"] for row in half.history] == [2]
    assert (tmp_path / "here" / "half.png").exists()
    with torch.no_grad():
        assert half.history[-1]["delta_of"] == pytest.approx(measure(module(images[::2]), labels[::2]).delta_of)


@pytest.mark.usefixtures("no_picture")
def test_a_training_that_ends_inside_an_epoch_is_measured_there(tmp_path):
    rare = GeometryCallback(num_classes=10, every=5)
    train(tmp_path, callbacks=[rare], max_steps=6, max_epochs=-1)
    assert [(row["epoch"], "gap" in row) for row in rare.history] == [(2, True)]


def test_errors_say_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="every must be at least 1, not 0"):
        GeometryCallback(num_classes=10, every=0)
    with pytest.raises(TypeError, match="loss must be a SupConLoss"):
        GeometryCallback(num_classes=10, loss=torch.nn.CrossEntropyLoss())
    wrong = GeometryCallback(num_classes=10, features=lambda module, batch: module(batch[0]))
    with pytest.raises(TypeError, match="pair of tensors"):
        train(tmp_path, callbacks=[wrong], max_epochs=1)
    assert isinstance(Module().criterion, SupConLoss)


def test_two_processes_are_as_one(one, tmp_path):
    command = [sys.executable, "-m", "integrations.lightning_run", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=digits.environment(), timeout=300)
    assert done.returncode == 0, done.stderr
    results = digits.read(tmp_path, 2)
    assert digits.agree(results, one[0].values, one[2].history)
    folder = Path(results[0]["log_dir"])
    assert (folder / "geometry.png").exists()
    assert "geometry/gap" in (folder / "metrics.csv").read_text()
