"""The training loop: data, encoder, head, loss, update; beside it the geometry is measured, and the state is kept."""

import json
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from orthoframe._rows import Integers
from orthoframe.data import Augment
from orthoframe.errors import Option, OrthoframeError, Part, TrainingError, brief
from orthoframe.files import json_ready
from orthoframe.runs import Checkpoint, EpochRecord, NonFiniteBatch, Progress, State, describe_encoder, metrics_table
from orthoframe.training._evaluation import Evaluation, evaluate
from orthoframe.training._processes import NonFiniteLoss, Stopped
from orthoframe.training._settings import Settings
from orthoframe.training._task import Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_MOMENTUM = 0.9
_AUGMENT = 5  # the stream of random numbers that augmentation draws from
_COLD_STEP = 100  # after which a training that has not begun is noticed
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
# Where the data is, how many processes share the run or decode images, how much memory they take: not what is computed.
_MAY_CHANGE = ("data_dir", "devices", "workers", "memory")
# Null in the files of earlier versions: decided, but not said there.
_ONCE_UNSAID = ("features", "width", "size", "power", "backbone_lr", "measure_every")
_SHOWN = 4  # settings that an error lists
READ_STEPS = 50
"""Steps between two readings of their losses: each reading waits for the device, which has to be kept busy."""


class Loop:
    """Trains a task, one epoch at a time.

    Args:
        task: What to train.
        fabric: The devices, launched.

    Attributes:
        criterion: The loss.
        local_statistics: Whether BatchNorm statistics are per process.
        cold: What is to be said of a training that has not begun after 100 steps, once.
        checks_every_loss: Whether each loss is read before its update, to find one that is not finite.
    """

    def __init__(self, task: Task, fabric: "Fabric") -> None:
        self.task, self.fabric, schedule = task, fabric, task.settings.schedule
        self.checks_every_loss, self._unread, self.cold = False, 0, tuple[Part, ...]()
        self.network: nn.Module = task.network()
        shared = fabric.world_size > 1 and any(isinstance(part, _BATCH_NORMS) for part in self.network.modules())
        self.local_statistics = shared and fabric.device.type == "cpu"  # SyncBatchNorm needs GPUs
        if shared and not self.local_statistics:
            self.network = nn.SyncBatchNorm.convert_sync_batchnorm(self.network)  # type: ignore[no-untyped-call]
        optimizer = torch.optim.SGD(
            task.parameter_groups(), schedule.lr, momentum=_MOMENTUM, weight_decay=schedule.weight_decay, nesterov=True
        )
        network: Any = torch.compile(self.network) if task.settings.machine.compile else self.network
        self.model, self.optimizer = fabric.setup(network, optimizer)
        self.criterion = task.criterion(fabric.device, fabric.world_size)
        self.meter = self.criterion.meter
        self.images = task.train
        if isinstance(self.images.pixels, Tensor):
            self.images = replace(self.images, pixels=self.images.pixels.to(fabric.device))
        self.labels = task.train.labels.to(fabric.device)
        self.state = State()
        self._final: Evaluation | None = None

    def run_epoch(self, on_step: Callable[[], None] | None = None) -> EpochRecord:
        """Train one epoch, measure if it is due, and keep its record.

        Args:
            on_step: Called after each step, with the state as it is then; what it raises ends the epoch there.

        Raises:
            NonFiniteLoss: When the losses are read, and weights are spoiled already; with `checks_every_loss`, before
                the update.
            Stopped: If features are not finite when they are measured.
        """
        settings, state, epoch = self.task.settings, self.state, self.state.epoch
        schedule = settings.schedule
        start = time.perf_counter() - state.seconds
        batches = self.task.batches(epoch)
        temperature = self.criterion.set_epoch(epoch)
        rates = [schedule.learning_rate((epoch + n / len(batches)) / schedule.epochs) for n in range(len(batches))]
        stream = self.images.batches(batches[state.steps :], self.fabric.device)
        for number, pixels in enumerate(stream, start=state.steps):
            for group in self.optimizer.param_groups:
                group["lr"] = rates[number] * group["share"]
            hundredth = epoch * len(batches) + number + 1 == _COLD_STEP
            loss = self.step(batches[number], pixels, epoch, number, look=hundredth)
            self.meter.add(loss, *self._row_labels(batches[number], epoch))
            self._unread += 1
            state.steps, state.seconds = number + 1, time.perf_counter() - start
            if self.checks_every_loss or state.steps % READ_STEPS == 0 or state.steps == len(batches):
                self._read_losses()
            if on_step is not None:
                on_step()
        gap = self.meter.read()
        assert gap is not None  # every epoch has batches
        self.meter.reset()
        epoch += 1
        self.state = replace(state, epoch=epoch, steps=0, seconds=0.0)
        columns: dict[str, Any] = {}
        if self.criterion.has_floor:
            columns = {"floor": gap.floor, "gap": gap.gap, "collapsed": gap.collapsed}
        if settings.is_measured(epoch):
            columns |= self._measure()
        seconds = round(time.perf_counter() - start, 4)
        record = EpochRecord(
            epoch=epoch, seconds=seconds, lr=rates[-1], temperature=temperature, loss=gap.loss, **columns
        )
        self.state.records.append(record)
        return record

    def step(self, batch: Integers, pixels: Tensor, epoch: int, number: int, *, look: bool = False) -> Tensor:
        """Draw, encode, compare, update; the loss before the update, over all processes.

        With `look`, a training that has not begun is noticed, for which the loss is read.
        """
        images, labels = self.draw(batch, pixels, epoch, number)
        outputs = self.model(images)
        rows = len(batch) * self.task.settings.views_in(epoch)
        loss = self.criterion.loss(outputs, labels, rows)
        value = loss.detach().clone()  # a sum over processes is taken in place
        if self.fabric.world_size > 1:
            value = self.fabric.all_reduce(value, reduce_op="mean")  # type: ignore[assignment]
        if self.checks_every_loss and not math.isfinite(float(value)):
            self._refuse(float(value), epoch, number)
        if look:
            self._notice_cold_start(float(value), outputs.rows, batch, epoch)
        self.optimizer.zero_grad()
        self.fabric.backward(self.criterion.minimised(loss, outputs, labels, rows))
        self.optimizer.step()
        return value

    @property
    def seconds(self) -> float:
        """How long all epochs have taken so far, also before the run was resumed."""
        return math.fsum(record.seconds for record in self.state.records) + self.state.seconds

    def may_save(self, due: bool) -> bool:
        """Whether the losses of all steps were read, and are finite, as they must be before anything is kept.

        A single process reads them if a save is due; several can only do so together, every `READ_STEPS` steps.
        """
        if due and self._unread and self.fabric.world_size == 1:
            self._read_losses()
        return not self._unread

    def finite(self) -> bool:
        """Whether all weights are finite."""
        weights = [value for value in self.task.network().state_dict().values() if value.is_floating_point()]
        return bool(torch.stack([value.isfinite().all() for value in weights]).all())

    def epoch_floor(self) -> float:
        """The lowest loss of the next epoch: the mean of the floors of its batches."""
        epoch = self.state.epoch
        self.criterion.set_epoch(epoch)
        batches = self.task.batches(epoch)
        return math.fsum(self.meter.bounds(*self._row_labels(batch, epoch))[0] for batch in batches) / len(batches)

    def draw(self, batch: Integers, pixels: Tensor, epoch: int, number: int) -> tuple[Tensor, Tensor]:
        """This process's images and labels of a batch, given its pixels.

        What is drawn depends on the seed, the epoch and the batch alone: a resumed run, and one that another number of
        processes share, sees the same images.
        """
        settings, fabric = self.task.settings, self.fabric
        labels = self.labels.index_select(0, torch.from_numpy(batch).to(fabric.device))
        seeds = np.random.SeedSequence([settings.machine.seed, _AUGMENT, epoch, number])
        generator = torch.Generator().manual_seed(int(seeds.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        augment = Augment(0, flip=False) if settings.schedule.is_clean(epoch) else self.task.augment
        views = settings.views_in(epoch)
        images = torch.cat([augment(pixels, generator) for _ in range(views)])
        mine = slice(fabric.global_rank, None, fabric.world_size)
        return self.task.scaled(images[mine]), labels.repeat(views)[mine]

    def any_process(self, answer: bool) -> bool:
        """Whether any process says yes; each must ask."""
        strategy: Any = self.fabric.strategy
        return answer if self.fabric.world_size == 1 else strategy.reduce_boolean_decision(answer, all=False)

    def evaluate(self) -> Evaluation:
        """The geometry and the accuracies as they are now; at the end those of all images, once."""
        if self._final is not None:
            return self._final
        final = self.state.epoch == self.task.settings.schedule.epochs
        evaluation = evaluate(self.task, final=final)
        self._final = evaluation if final else None
        return evaluation

    def checkpoint(self) -> Checkpoint:
        """What is needed to go on from here."""
        task, buffers = self.task, self.optimizer.state_dict()["state"]
        precision = self.fabric.strategy.precision.state_dict()
        return Checkpoint(
            Progress(
                settings=task.settings.to_dict(),
                encoder=describe_encoder(task.trained_encoder()),
                data=task.data,
                plan=task.plan.fingerprint(),
                state=replace(self.state, records=[], lines=[]),
                metrics=zlib.crc32(metrics_table(self.state.records).encode()),
                batches=self.meter.state_dict(),
                precision=precision,
            ),
            weights=task.network().state_dict(),
            momentum={str(number): each["momentum_buffer"] for number, each in buffers.items()},
        )

    def restore(self, checkpoint: Checkpoint, records: Sequence[EpochRecord]) -> None:
        """Go on from a checkpoint of the same task, with the records of its epochs, and later ones."""
        progress, optimizer = checkpoint.progress, self.optimizer.state_dict()
        self.task.network().load_state_dict(checkpoint.weights)
        # The rest of the optimizer's state is in the settings.
        optimizer["state"] = {int(number): {"momentum_buffer": each} for number, each in checkpoint.momentum.items()}
        self.optimizer.load_state_dict(optimizer)
        self.fabric.strategy.precision.load_state_dict(progress.precision)
        self.meter.load_state_dict(progress.batches)
        self.state = replace(progress.state, records=list(records[: progress.state.epoch]))
        self._unread, self._final = 0, None

    def _row_labels(self, batch: Integers, epoch: int) -> tuple[Tensor, range | None]:
        """Classes of all rows of a batch, in all processes, and of the prototypes."""
        labels = self.task.train.labels[torch.from_numpy(batch)].repeat(self.task.settings.views_in(epoch))
        return labels, self.criterion.key_labels()

    def _notice_cold_start(self, loss: float, rows: Tensor, batch: Integers, epoch: int) -> None:
        """Keep what is to be said if features are still all alike."""
        plateau = self.criterion.is_cold(loss, rows, self._row_labels(batch, epoch)[0])
        if plateau is not None:
            collapsed, cosine = plateau
            remedy = self.task.settings.cold_start_remedy()
            advice = ("more ", Option("epochs")) if remedy is None else (remedy, " starts without this plateau")
            self.cold = (
                f"cold start: after {_COLD_STEP} steps features are still collapsed: the loss, {loss:.3f}, is about "
                f"that of identical features, {collapsed:.3f} (mean cosine of two rows {cosine:.2f}); ",
                *advice,
            )

    def _read_losses(self) -> None:
        """Read the losses of all steps since the last reading, at once; refuse the first that is not finite."""
        losses, self._unread = self.meter.state_dict()["loss"], 0
        for number, value in enumerate(losses):
            if not math.isfinite(value):
                self._refuse(value, self.state.epoch, number)

    def _refuse(self, value: float, epoch: int, number: int) -> NoReturn:
        """Name the batch of a step whose loss was not finite."""
        batch, encoder = self.task.batches(epoch)[number], self.task.encoder
        with torch.no_grad(), self.fabric.autocast():
            pixels = next(self.images.batches([batch], self.fabric.device))
            images, _ = self.draw(batch, pixels, epoch, number)
            largest_here = encoder.head.before_norm(encoder.backbone(images)).abs().max()
        largest = float(self.fabric.all_gather(largest_here).max())  # type: ignore[union-attr]
        finite = largest if math.isfinite(largest) else None
        samples = tuple(self.task.train.origins(batch))
        raise NonFiniteLoss(
            NonFiniteBatch(loss=str(value), step=number + 1, epoch=epoch + 1, indices=samples, largest_feature=finite)
        )

    def _measure(self) -> dict[str, Any]:
        """Measure in the first process, while the others wait; the columns of `metrics.csv` that this fills."""
        columns, problem = {}, ""
        if self.fabric.global_rank == 0:
            try:
                evaluation = self.evaluate()
                self.state.lines.append(json.dumps(json_ready(evaluation.measurement(self.state.epoch))) + "\n")
                columns = evaluation.columns()
            except OrthoframeError:  # a file that can no longer be read
                raise
            except ValueError as error:  # the last update may have spoiled the weights
                problem = str(error)
        if problem := self.fabric.broadcast(problem):
            where = f"the training images cannot be measured after epoch {self.state.epoch} ({problem})"
            raise Stopped(f"{where}; try a smaller ", Option("lr"), " or ", Option("precision", "32"))
        return columns


def check_settings(checkpoint: Checkpoint, settings: Settings) -> None:
    """Refuse to go on with other settings than those that a checkpoint was made with.

    Raises:
        TrainingError: If they differ.
    """
    changes = changed_settings(checkpoint.progress.settings, settings)
    if changes:
        raise TrainingError(
            f"config.json has changed since the checkpoint was made: {changes}; change it back, or start a new run"
        )


def changed_settings(then: dict[str, Any], now: Settings) -> str:
    """How the settings of a run differ from those in a checkpoint; empty if a run may go on with them.

    Examples:
        >>> changed_settings({"lr": 0.1, "devices": 1}, Settings.of(lr=0.2, devices=2))
        'lr is 0.2 (it was 0.1)'
    """
    old, new = {"data": "", **then}, now.to_dict()
    for options in (old, new):
        options["data"] = options["data"].partition(":")[0]  # not its path: data that was moved is the same
    if old.get("steps") and new["steps"]:  # those of later epochs may have been decided since
        new["steps"] = new["steps"][: len(old["steps"])]
    unsaid = [name for name in _ONCE_UNSAID if old.get(name) is None]
    names = [name for name in new if name in then and new[name] != old[name]]
    names = [name for name in names if name not in _MAY_CHANGE and name not in unsaid]

    def value(options: dict[str, Any], name: str) -> str:
        return brief(json.dumps(options[name]), 30)

    words = [f"{name} is {value(new, name)} (it was {value(old, name)})" for name in names[:_SHOWN]]
    return brief(", ".join([*words, f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else words), 180)


def check_checkpoint(checkpoint: Checkpoint, task: Task) -> None:
    """Refuse to go on with another task than the one that a checkpoint was made with.

    Raises:
        TrainingError: For other settings or other data.
        ValueError: For a state that the task cannot have.
    """
    progress, settings = checkpoint.progress, task.settings
    check_settings(checkpoint, settings)
    changes = progress.data.changes(task.data)
    if changes:
        raise TrainingError(
            f"{settings.images.data} is not the data that the checkpoint was made with: {changes}; bring that back, or "
            "start a new run"
        )
    if progress.plan != task.plan.fingerprint():
        raise TrainingError(
            "the checkpoint was made with other batches: with a plan from Python, which has to be passed again, or by "
            "a version that plans others, which run.json names; resume with that, or start a new run"
        )
    epochs, state = settings.schedule.epochs, progress.state
    if not 0 <= state.epoch <= epochs:
        raise ValueError("it counts epochs that do not exist")
    most = len(task.batches(state.epoch)) if state.epoch < epochs else 0
    steps = [len(values) for values in progress.batches.values()]
    if not 0 <= state.steps <= most or steps != [state.steps] * 3:
        raise ValueError("it counts steps that do not exist")
    trained = [weight for group in task.parameter_groups() for weight in group["params"]]
    momentum = {str(number): weight for number, weight in enumerate(trained)}
    has_weights = _alike(checkpoint.weights, task.network().state_dict())
    if not has_weights or (checkpoint.momentum and not _alike(checkpoint.momentum, momentum)):
        raise ValueError("its tensors belong to another encoder")


def _alike(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> bool:
    """Whether tensors have the names, shapes and types that others have."""
    return tensors.keys() == expected.keys() and all(
        (value.shape, value.dtype) == (tensors[name].shape, tensors[name].dtype) for name, value in expected.items()
    )
