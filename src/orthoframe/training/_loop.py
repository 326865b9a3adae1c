"""The training loop: data, encoder, head, loss, update; the geometry is measured beside it."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from orthoframe.data import Augment
from orthoframe.errors import TrainingError
from orthoframe.losses import SupConLoss, collapsed_loss, loss_floor
from orthoframe.training._errors import NoNumber
from orthoframe.training._evaluate import Measured, evaluate
from orthoframe.training._schedules import Temperature, learning_rate
from orthoframe.training._setup import Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_MOMENTUM, _MEASUREMENTS = 0.9, 40
_AUGMENT = 5  # the stream of random numbers that augmentation draws from


@dataclass
class State:
    """Where a run is: what a checkpoint keeps, and nothing else."""

    epoch: int = 0  # epochs that are done
    steps: int = 0  # steps that are done of the next
    partial: dict[str, list[float]] = field(default_factory=lambda: {"loss": [], "floor": [], "collapsed": []})
    seconds: float = 0.0  # that these steps took
    rows: list[dict[str, Any]] = field(default_factory=list)  # of metrics.csv
    geometries: list[dict[str, Any]] = field(default_factory=list)  # lines of geometry.jsonl


class Loop:
    """Trains a task, an epoch at a time.

    Args:
        task: What to train.
        fabric: The devices, launched.

    Attributes:
        local_statistics: Whether each process has BatchNorm statistics of its own, from its part of a batch.
    """

    def __init__(self, task: Task, fabric: "Fabric") -> None:
        self.task, self.fabric, settings = task, fabric, task.settings
        encoder: nn.Module = task.encoder
        # torch has no shared statistics on a CPU.
        self.local_statistics = False
        if fabric.world_size > 1 and any(isinstance(part, nn.BatchNorm2d) for part in encoder.modules()):
            self.local_statistics = fabric.device.type == "cpu"
            if not self.local_statistics:
                encoder = nn.SyncBatchNorm.convert_sync_batchnorm(encoder)  # type: ignore[no-untyped-call]
        if settings.compile:
            encoder = torch.compile(encoder)  # type: ignore[assignment]
        parts = nn.ModuleDict({"encoder": encoder})
        if task.classifier is not None:
            parts["classifier"] = task.classifier
        optimizer = torch.optim.SGD(
            parts.parameters(), settings.lr, momentum=_MOMENTUM, weight_decay=settings.weight_decay, nesterov=True
        )
        self.parts = parts
        self.model, self.optimizer = fabric.setup(_Forward(parts), optimizer)
        self.criterion = SupConLoss(denominator=settings.denominator)  # type: ignore[arg-type]
        self.temperature = Temperature.of(settings.temperature)
        self.pixels, self.labels = task.train.pixels.to(fabric.device), task.train.labels.to(fabric.device)
        self.prototypes = None if task.prototypes is None else task.prototypes.to(fabric.device)
        self.state = State()

    @property
    def measure_every(self) -> int:
        """Epochs between two measurements."""
        settings = self.task.settings
        return settings.measure_every or max(1, settings.epochs // _MEASUREMENTS)

    def run_epoch(self, on_step: Callable[[], None] | None = None) -> dict[str, Any]:
        """Train one epoch, measure if it is due, and add a row to the metrics.

        Args:
            on_step: Called after each step, with the state as it is then; what it raises ends the epoch there.

        Returns:
            The row.

        Raises:
            NoNumber: If the loss is no number.
        """
        settings, epoch = self.task.settings, self.state.epoch
        start = time.perf_counter() - self.state.seconds
        self.criterion.temperature = temperature = self.temperature.at(epoch, settings.epochs)
        batches = self.task.plan.batches(epoch)
        partial = self.state.partial
        rates = [
            learning_rate(
                settings.lr, settings.decay, (epoch + number / len(batches)) / settings.epochs, settings.settle
            )
            for number in range(len(batches))
        ]
        for number in range(self.state.steps, len(batches)):
            batch = batches[number]
            for group in self.optimizer.param_groups:
                group["lr"] = rates[number]
            partial["loss"].append(self.step(batch, epoch, number))
            if settings.loss == "supcon":
                floor, collapsed = self._bounds(batch, epoch)
                partial["floor"].append(floor)
                partial["collapsed"].append(collapsed)
            self.state.steps, self.state.seconds = number + 1, time.perf_counter() - start
            if on_step is not None:
                on_step()
        row: dict[str, Any] = {
            "epoch": epoch + 1,
            "lr": rates[-1],
            "temperature": temperature,
            "loss": _mean(partial["loss"]),
        }
        if settings.loss == "supcon":
            row["floor"], row["collapsed"] = _mean(partial["floor"]), _mean(partial["collapsed"])
            row["gap"] = row["loss"] - row["floor"]
        self.state = State(epoch + 1, rows=self.state.rows, geometries=self.state.geometries)
        if self.state.epoch % self.measure_every == 0 or self.state.epoch in (1, settings.epochs):
            row.update(self._measure())
        row["seconds"] = round(time.perf_counter() - start, 4)
        self.state.rows.append(row)
        return row

    def step(self, batch: Any, epoch: int, number: int) -> float:
        """Draw, encode, compare, update; the loss before the update."""
        images, labels = self._rows(batch, epoch, number)
        loss = self._loss(images, labels, len(batch) * self.task.settings.views_in(epoch))
        value = self._checked(loss, images, epoch, number, batch)
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        self.optimizer.step()
        return value

    def epoch_floor(self) -> float:
        """The lowest loss of the next epoch: the mean of the floors of its batches."""
        epoch = self.state.epoch
        return _mean([self._bounds(batch, epoch)[0] for batch in self.task.plan.batches(epoch)])

    def _bounds(self, batch: Any, epoch: int) -> tuple[float, float]:
        """The floor of a batch, and its loss if everything has collapsed."""
        settings = self.task.settings
        denominator: Any = settings.denominator
        temperature = self.temperature.at(epoch, settings.epochs)
        labels = self.task.train.labels[torch.from_numpy(batch)].repeat(settings.views_in(epoch))
        keys = None if self.prototypes is None else range(len(self.prototypes))
        floor = loss_floor(labels, key_labels=keys, temperature=temperature, denominator=denominator)
        return float(floor), float(collapsed_loss(labels, key_labels=keys, denominator=denominator))

    def _rows(self, batch: Any, epoch: int, number: int) -> tuple[Tensor, Tensor]:
        """This process's images and labels of a batch.

        What is drawn depends on the seed, the epoch and the batch alone: a resumed run, and one that is shared by
        another number of processes, sees the same images.
        """
        settings, fabric = self.task.settings, self.fabric
        index = torch.from_numpy(batch).to(fabric.device)
        chosen, labels = self.pixels.index_select(0, index), self.labels.index_select(0, index)
        seeds = np.random.SeedSequence([settings.seed, _AUGMENT, epoch, number])
        generator = torch.Generator().manual_seed(int(seeds.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        augment = Augment(0, flip=False) if settings.settled(epoch) else self.task.augment
        views = settings.views_in(epoch)
        images = torch.cat([augment(chosen, generator) for _ in range(views)])
        mine = slice(fabric.global_rank, None, fabric.world_size)
        return self.task.normaliser(images[mine]), labels.repeat(views)[mine]

    def _loss(self, images: Tensor, labels: Tensor, rows: int) -> Tensor:
        """This process's part of the loss of a batch that has so many rows in all processes; the mean is the loss."""
        outputs = self.model(images)
        if self.task.classifier is None:
            loss: Tensor = self.criterion(outputs, labels, *self._keys())
            return loss
        # Not the mean over this process's rows: another process may have one more.
        return nn.functional.cross_entropy(outputs, labels, reduction="sum") * (self.fabric.world_size / rows)

    def _keys(self) -> tuple[Tensor, Tensor] | tuple[()]:
        """The prototypes and their classes, all in every process: the loss gathers rows, but not keys."""
        if self.prototypes is None:
            return ()
        return self.prototypes, torch.arange(len(self.prototypes), device=self.prototypes.device)

    def any_process(self, answer: bool) -> bool:
        """Whether any process says yes; each must ask."""
        if self.fabric.world_size == 1:
            return answer
        answers = self.fabric.all_reduce(torch.tensor(float(answer), device=self.fabric.device), reduce_op="sum")
        return float(answers) > 0  # type: ignore[arg-type]

    def _checked(self, loss: Tensor, images: Tensor, epoch: int, number: int, batch: Any) -> float:
        """The loss as a number, over all processes; before the update, which would spoil the weights too."""
        loss = loss.detach().clone()  # a sum over processes is taken in place
        if self.fabric.world_size > 1:
            loss = self.fabric.all_reduce(loss, reduce_op="mean")  # type: ignore[assignment]
        value = float(loss)
        if math.isfinite(value):
            return value
        encoder = self.task.encoder
        with torch.no_grad(), self.fabric.autocast():
            found = encoder.head.before_norm(encoder.backbone(images)).abs().max()
        largest = float(self.fabric.all_gather(found).max())  # type: ignore[union-attr]
        raise NoNumber(value, number + 1, epoch + 1, self.task.train.origins(batch), largest)

    def _measure(self) -> dict[str, Any]:
        if self.fabric.global_rank == 0:
            found = self.measured()
            self.state.geometries.append({"epoch": self.state.epoch, **found.to_dict(self.task.train.classes)})
            row = found.row()
        else:
            row = {}
        self.fabric.barrier()
        return row

    def measured(self) -> Measured:
        """The geometry and the accuracies as they are now."""
        task = self.task
        encoder = self.parts["encoder"]
        return evaluate(encoder, task.train, task.test, task.normaliser)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: types that torch loads with `weights_only=True`."""
        return {
            "state": asdict(self.state),
            "parts": self.parts.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),  # the scale of gradients in 16 bits
            "plan": self.task.plan.fingerprint(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint.

        Raises:
            TrainingError: If it is of other batches.
        """
        if state["plan"] != self.task.plan.fingerprint():
            raise TrainingError("the checkpoint was made with other batches: the data or its folder has changed")
        self.parts.load_state_dict(state["parts"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self.state = State(**state["state"])


class _Forward(nn.Module):
    """Features of images, or their logits: one module for the gradients of all processes."""

    def __init__(self, parts: nn.ModuleDict) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.parts["encoder"](images)
        if "classifier" in self.parts:
            features = self.parts["classifier"](features)
        return features


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
