"""Losses are read some together, so that the device is not waited for at every step; and what that must not change."""

import json
import math
from functools import partialmethod

import pytest
import torch
from lightning_fabric import Fabric
from tests.training.runs import json_of, small
from torch.utils._python_dispatch import TorchDispatchMode

from orthoframe.callbacks import GeometryRecorder
from orthoframe.errors import TrainingError
from orthoframe.losses import GapMeter, SupConLoss
from orthoframe.runs import CHECKPOINT, PREVIOUS, RunFolder
from orthoframe.sklearn import FrameClassifier
from orthoframe.training import Criterion, Loop, NonFiniteLoss, RunListener, make_task, train
from orthoframe.training._loop import READ_STEPS


class Reads(TorchDispatchMode):
    """Counts values that are read from a tensor one by one: `item`, `float`, `bool`."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


@pytest.fixture
def no_floors(monkeypatch):
    """Floors are computed on the CPU from counts, whatever the device: they wait for nothing."""
    monkeypatch.setattr("orthoframe.losses.LossOptions.bounds", lambda *_: (0.0, 1.0))


def loop_of(**options):
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    return Loop(make_task(small(**options)), fabric)


@pytest.mark.parametrize("loss", ["supcon", "frame", "cross-entropy", "balanced-softmax"])
def test_no_step_of_the_loop_reads(loss, no_floors, monkeypatch):
    # Their sums over the batch and the epoch: as many transfers as readings.
    readings, state = [], GapMeter.state_dict
    monkeypatch.setattr(GapMeter, "state_dict", lambda meter: (readings.append(1), state(meter))[1])
    loop, counts = loop_of(batch_size=2, loss=loss, measure_every=99, epochs=9), []
    loop.run_epoch()  # the first epoch is measured
    loop.run_epoch()  # the hundredth step is looked at
    readings.clear()
    with Reads() as reads:
        loop.run_epoch(lambda: counts.append(reads.count))
    assert len(counts) > READ_STEPS
    assert set(counts) == {0}
    assert reads.count == 0
    # Every READ_STEPS steps and after the last; and the mean of the epoch, which transfers nothing more.
    assert len(readings) == math.ceil(len(counts) / READ_STEPS) + 1


@pytest.mark.parametrize(("loss", "optimizer"), [("supcon", "SGD"), ("frame", "AdamW")])
def test_no_step_of_the_classifier_reads(loss, optimizer, no_floors, monkeypatch):
    counts, kind, inside = [], getattr(torch.optim, optimizer), []
    with Reads() as reads:

        class Counted(kind):
            def step(self, *arguments):
                counts.append(reads.count - sum(inside))
                super().step(*arguments)
                inside.append(reads.count - sum(inside) - counts[-1])  # AdamW counts on the host, and reads that

        monkeypatch.setattr(torch.optim, optimizer, Counted)
        features = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)).numpy()
        options = {"hidden": (4,), "epochs": 2, "batch_size": 2, "adjust": None, "random_state": 0}
        FrameClassifier(loss=loss, class_weight=None, **options).fit(features, [0, 1] * 30)
    steps = len(counts) // 2
    assert steps >= 30
    assert len(set(counts[:steps])) == len(set(counts[steps:])) == 1  # the same at each step of an epoch


def test_no_call_of_the_loss_is_read_by_the_callbacks():
    loss = SupConLoss()
    recorder = GeometryRecorder(2, 1, loss, "geometry")
    recorder.start(torch.nn.Linear(2, 2))
    with Reads() as reads:
        for _ in range(5):
            loss(torch.eye(4, requires_grad=True), torch.tensor([0, 0, 1, 1])).backward()
    assert reads.count == 0


def spoil(monkeypatch, epoch, steps):
    """The loss of one step is infinite."""
    loss, step, now = Criterion.loss, Loop.step, []

    def watched(loop, *arguments, **options):
        now[:] = [loop.state.epoch, loop.state.steps]
        return step(loop, *arguments, **options)

    monkeypatch.setattr(Loop, "step", watched)
    spoiled = partialmethod(lambda *arguments: loss(*arguments) * (math.inf if now == [epoch, steps] else 1.0))
    monkeypatch.setattr(Criterion, "loss", spoiled)


def test_a_bad_step_is_found_later_and_named_as_if_at_once(tmp_path, monkeypatch):
    spoil(monkeypatch, epoch=2, steps=3)
    finished = []
    with pytest.raises(TrainingError, match="the loss is inf in step 4 of epoch 3"):
        train(small(epochs=4), tmp_path / "late", RunListener(on_epoch=lambda record: finished.append(record.epoch)))
    assert finished == [1, 2]  # although all was done twice
    late = json_of(tmp_path / "late" / "nan-batch.json")
    assert late["largest_feature"] is not None  # with the weights from before the update
    monkeypatch.setattr(Loop, "__init__", _checks_every_loss(Loop.__init__))
    with pytest.raises(TrainingError, match="the loss is inf in step 4 of epoch 3"):
        train(small(epochs=4), tmp_path / "early")
    assert json_of(tmp_path / "early" / "nan-batch.json") == late
    rows = [(tmp_path / name / "metrics.csv").read_text().splitlines() for name in ("late", "early")]
    assert [len(each) for each in rows] == [3, 3]  # a header and two epochs


def _checks_every_loss(init):
    def checking(loop, *arguments):
        init(loop, *arguments)
        loop.checks_every_loss = True

    return checking


def test_a_step_that_is_not_bad_the_second_time_is_passed(tmp_path, monkeypatch):
    """As on a device whose sums have no fixed order."""
    loss, calls = Criterion.loss, []

    def once(criterion, *arguments):
        calls.append(1)
        return loss(criterion, *arguments) * (math.nan if len(calls) == 4 else 1.0)

    undisturbed = train(small(), tmp_path / "undisturbed")
    monkeypatch.setattr(Criterion, "loss", once)
    result = train(small(), tmp_path / "run")
    assert [each.loss for each in result.records] == [each.loss for each in undisturbed.records]
    encoders = [(tmp_path / name / "encoder.safetensors").read_bytes() for name in ("run", "undisturbed")]
    assert encoders[0] == encoders[1]


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("seconds", [-1.0, 15.0])
def test_no_checkpoint_has_weights_that_are_not_finite(seconds, tmp_path):
    """Not even if one is due after every step, and weights overflow in an update whose loss was finite."""
    with pytest.raises(TrainingError, match="the loss is nan"):
        train(small(lr=9e29), tmp_path / "run", save_seconds=seconds)
    for name in (CHECKPOINT, PREVIOUS):
        if (tmp_path / "run" / name).exists():
            (tmp_path / "run" / name).rename(tmp_path / "run" / CHECKPOINT)
            checkpoint, _ = RunFolder(tmp_path / "run").load_checkpoint()
            assert all(
                value.isfinite().all() for value in (*checkpoint.weights.values(), *checkpoint.momentum.values())
            )
            assert all(map(math.isfinite, checkpoint.progress.batches["loss"]))


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_weights_that_overflow_in_the_last_step(tmp_path):
    with pytest.raises(
        TrainingError, match=r"cannot be measured after epoch 1 \(features\[.* is nan.*try a smaller lr"
    ):
        train(small(lr=9e29, batch_size=100, epochs=1), tmp_path / "run")
    checkpoint, _ = RunFolder(tmp_path / "run").load_checkpoint()
    assert all(value.isfinite().all() for value in checkpoint.weights.values())


def test_a_loop_alone_says_what_it_found(monkeypatch):
    spoil(monkeypatch, epoch=0, steps=2)
    with pytest.raises(NonFiniteLoss) as error:
        loop_of().run_epoch()
    assert (error.value.batch.step, error.value.batch.epoch) == (3, 1)
    json.dumps(error.value.batch.indices)
