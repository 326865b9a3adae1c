"""The sampler, the loss and the callback in a real `transformers.Trainer`."""

import subprocess
import sys

import pytest
import torch

from integrations import digits

pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import Trainer

from integrations.transformers_run import make_trainer, samples
from orthoframe import SupConLoss, measure
from orthoframe.transformers import GeometryTrainerCallback

pytestmark = pytest.mark.filterwarnings("ignore")


def run(trainer, checkpoint=None, **options):
    callback = GeometryTrainerCallback(trainer, num_classes=10, **options)
    trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=checkpoint)
    return callback


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A whole run in one process, with a checkpoint after every step, logged to TensorBoard."""
    folder = tmp_path_factory.mktemp("one")
    patch = pytest.MonkeyPatch()
    patch.setenv("TENSORBOARD_LOGGING_DIR", str(folder / "board"))
    trainer = make_trainer(folder, save_strategy="steps", save_steps=2, report_to="tensorboard")
    callback = run(trainer)
    patch.undo()
    return trainer, callback, folder


def test_batches_are_those_of_the_plan(one):
    assert one[0].model.seen == digits.batches_of(0, 1)


def test_geometry_and_gap_are_those_of_the_end(one):
    trainer, callback, folder = one
    images, labels = digits.rows()
    with torch.no_grad():
        geometry = measure(trainer.model.encoder(images), labels)
    last = callback.history[-1]
    assert last["delta_of"] == pytest.approx(geometry.delta_of, rel=1e-6)
    assert [row["epoch"] for row in callback.history] == [1, 2, 3, 4]
    assert [row["gap"] for row in callback.history] == pytest.approx(digits.expected_gaps(trainer.values), rel=1e-5)
    assert last["delta_of"] < callback.history[0]["delta_of"]
    assert (folder / "geometry.png").read_bytes().startswith(b"\x89PNG")


def test_the_log_of_the_trainer_has_the_numbers(one):
    """And still its own loss, once an epoch; TensorBoard has both."""
    trainer, callback, folder = one
    rows = trainer.state.log_history
    for name in ("delta_of", "beta_nc", "floor", "gap"):
        assert [row[f"geometry/{name}"] for row in rows if f"geometry/{name}" in row] == [
            row[name] for row in callback.history
        ]
    assert len([row for row in rows if "loss" in row]) == digits.EPOCHS
    board = EventAccumulator(str(folder / "board"))
    board.Reload()
    logged = [event.value for event in board.Scalars("train/geometry/delta_of")]
    assert logged == pytest.approx([row["delta_of"] for row in callback.history], rel=1e-6)


@pytest.mark.usefixtures("no_picture")
@pytest.mark.parametrize("step", [6, 8], ids=["inside", "between epochs"])
def test_a_run_resumed_inside_an_epoch_goes_on_with_the_next_batch(one, tmp_path, step):
    trainer, callback, folder = one
    again = make_trainer(tmp_path)
    resumed = run(again, str(folder / f"checkpoint-{step}"))
    assert again.model.seen == trainer.model.seen[step:]
    assert again.values == trainer.values[step:]
    assert [row["delta_of"] for row in resumed.history] == [
        row["delta_of"] for row in callback.history if row["epoch"] != (2 if step == 8 else 0)
    ]


@pytest.mark.usefixtures("no_picture")
def test_the_callback_leaves_the_training_as_it_was(tmp_path):
    alone = make_trainer(tmp_path, 0.2, num_train_epochs=2)
    alone.train()
    watched = make_trainer(tmp_path, 0.2, num_train_epochs=2)
    run(watched)
    assert watched.values == alone.values


def test_gradients_are_accumulated_as_a_mean(tmp_path):
    """Two batches a step: the logged loss is their mean, not their sum."""
    trainer = make_trainer(tmp_path, gradient_accumulation_steps=2, num_train_epochs=1)
    trainer.train()
    (logged,) = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert logged == pytest.approx(sum(trainer.values) / len(trainer.values), rel=1e-3)


def test_evaluation_gives_loss_and_features(tmp_path):
    trainer = make_trainer(tmp_path)
    output = trainer.predict(samples()[:50])
    assert output.predictions.shape == (50, 64)
    assert output.label_ids.tolist() == [sample["labels"] for sample in samples()[:50]]
    assert "eval_loss" in trainer.evaluate()


def test_a_plain_trainer_is_measured_too(tmp_path):
    """Every other epoch and at the end; the loss is found in the model."""

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.criterion = digits.make_encoder(), SupConLoss()

        def forward(self, pixels, labels=None):
            features = self.encoder(pixels)
            return {"features": features} if labels is None else {"loss": self.criterion(features, labels)}

    arguments = make_trainer(tmp_path, num_train_epochs=3).args
    trainer = Trainer(model=Plain(), args=arguments, train_dataset=samples())
    callback = run(
        trainer,
        features=lambda model, inputs: (model(inputs["pixels"])["features"], inputs["labels"]),
        data=samples()[::2],
        every=2,
        name="half",
    )
    assert [row["epoch"] for row in callback.history] == [2, 3]
    assert all(row["gap"] > 0 for row in callback.history)
    assert callback.geometry.dim == 64
    assert (tmp_path / "half.png").exists()


def test_two_processes_are_as_one(one, tmp_path):
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, *launch, "-m", "integrations.transformers_run", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=digits.environment(), timeout=300)
    assert done.returncode == 0, done.stderr
    results = digits.read(tmp_path, 2)
    assert digits.agree(results, one[0].values, one[1].history)
    assert (tmp_path / "geometry.png").exists()
    assert any("geometry/gap" in row for row in results[0]["logged"])
