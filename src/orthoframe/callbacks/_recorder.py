"""Measure a model between training epochs, leaving the training as it was, listen to its loss, and keep the history."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from orthoframe._processes import rank_and_world_size
from orthoframe._rows import label_tensor
from orthoframe.errors import MissingPackageError
from orthoframe.geometry import Geometry
from orthoframe.losses import FrameLoss, Gap, GapMeter, LossOptions, SupConLoss
from orthoframe.options import check_count, check_size

# Without gradients, this fits into memory wherever a training batch does.
_BATCH_SIZE = 128


class _Call(NamedTuple):
    """One call of the loss in one process, with the options that it had then."""

    loss: Tensor
    labels: Tensor
    key_labels: Tensor | None
    options: LossOptions
    joined: bool  # whether the loss compares the rows of all processes

    def cpu(self) -> "_Call":
        key_labels = None if self.key_labels is None else self.key_labels.cpu()
        return self._replace(
            loss=self.loss.cpu(), labels=self.labels.cpu(), key_labels=key_labels, options=self.options.cpu()
        )


class GapListener:
    """Listens to a loss: every call with gradients counts as a training batch.

    Examples:
        >>> loss = SupConLoss(temperature=1.0)
        >>> listener = GapListener(loss)
        >>> _ = loss(torch.eye(4, requires_grad=True), torch.tensor([0, 0, 1, 1]))
        >>> round(listener.read().gap, 3)
        0.547
    """

    def __init__(self, loss: SupConLoss | FrameLoss) -> None:
        self._calls: list[_Call] = []
        self._hook = loss.register_forward_hook(self._listen, with_kwargs=True)

    def _listen(self, loss: nn.Module, positional: tuple[Any, ...], named: dict[str, Any], value: Tensor) -> None:
        if not (torch.is_grad_enabled() and value.requires_grad):
            return
        assert isinstance(loss, SupConLoss | FrameLoss)
        arguments = dict(zip(("features", "labels", "keys", "key_labels"), positional, strict=False)) | named
        labels, key_labels = arguments["labels"], arguments.get("key_labels")
        contrastive = loss if isinstance(loss, SupConLoss) else loss.contrastive
        # Copies, because the next step may write to the same place; nothing is transferred yet, because that would wait
        # for the device at every step.
        call = _Call(
            loss=value.detach().clone(),
            labels=label_tensor(labels, value.device).clone(),
            key_labels=None if key_labels is None else label_tensor(key_labels, value.device).clone(),
            options=LossOptions.of(loss),
            joined=contrastive.gather,
        )
        self._calls.append(call)

    def read(self) -> Gap | None:
        """Means since the last reading, over all processes; None without batches, or if a batch has no known floor."""
        calls = [call.cpu() for call in self._calls]
        self.reset()
        everyone: list[Any] = [calls]
        _, world_size = rank_and_world_size()
        if world_size > 1:
            everyone = [None] * world_size
            dist.all_gather_object(everyone, calls)
        columns: dict[str, list[float]] = {"loss": [], "floor": [], "collapsed": []}
        for same_step in zip(*everyone, strict=True):
            step = list(same_step)
            first = step[0]
            if world_size > 1 and (first.joined or first.options.frame):
                if any(call.key_labels is not None for call in step) or not (first.joined or first.options.supcon == 0):
                    return None  # the anchors of each process are compared with others, and so have different floors
                loss = torch.stack([call.loss for call in step]).mean()
                step = [first._replace(loss=loss, labels=torch.cat([call.labels for call in step]))]
            for call in step:
                floor, collapsed = call.options.bounds(call.labels, call.key_labels)
                for name, value in (("loss", float(call.loss)), ("floor", floor), ("collapsed", collapsed)):
                    columns[name].append(value)
        meter = GapMeter()
        meter.load_state_dict(columns)
        return meter.read()

    def reset(self) -> None:
        """Drop the calls since the last reading."""
        self._calls.clear()

    def close(self) -> None:
        """Stop listening."""
        self._hook.remove()


class GeometryRecorder:
    """Measures geometry and gap of a training that something else runs; callbacks derive from it, with its options.

    Attributes:
        history: One row per measurement: `epoch`, `delta_of`, `beta_nc`, and with a loss `floor` and `gap`.
        geometry: The last measurement.

    Raises:
        OptionError: If `num_classes` or `every` is below 1.
        TypeError: If `loss` is neither a `SupConLoss` nor a `FrameLoss`.
    """

    def __init__(self, num_classes: int, every: int, loss: SupConLoss | FrameLoss | None, name: str) -> None:
        self.num_classes, self.every = check_size("num_classes", num_classes), check_count("every", every)
        if loss is not None and not isinstance(loss, SupConLoss | FrameLoss):
            raise TypeError(f"loss must be a SupConLoss or FrameLoss, whose floor is known, not {type(loss).__name__}")
        self.history: list[dict[str, float]] = []
        self.geometry: Geometry | None = None
        self._name, self._loss = name, loss
        self._listener: GapListener | None = None

    def start(self, model: nn.Module) -> None:
        """Start listening to the loss: the one passed, or the only one that the model contains."""
        self.stop()
        losses = [module for module in model.modules() if isinstance(module, SupConLoss | FrameLoss)]
        parts = [loss.contrastive for loss in losses if isinstance(loss, FrameLoss)]
        losses = [loss for loss in losses if not any(loss is part for part in parts)]
        loss = self._loss or (losses[0] if len(losses) == 1 else None)
        self._listener = None if loss is None else GapListener(loss)

    def stop(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def reset(self) -> None:
        """Drop the losses of an epoch that was not measured."""
        if self._listener is not None:
            self._listener.reset()

    def measured(self, epoch: float) -> bool:
        """Whether the last measurement was made after this epoch."""
        return bool(self.history) and self.history[-1]["epoch"] == epoch

    def measure(self, epoch: float, parts: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """Measure the rows of all processes after an epoch, from batches `(features, labels)` of this process.

        Returns the numbers by the names under which they are logged.
        """
        self.geometry = _geometry(parts, self.num_classes)
        numbers = {"delta_of": self.geometry.delta_of, "beta_nc": self.geometry.beta_nc}
        gap = None if self._listener is None else self._listener.read()
        if gap is not None:
            numbers |= {"floor": gap.floor, "gap": gap.gap}
        self.history.append({"epoch": epoch, **numbers})
        return {f"{self._name}/{key}": value for key, value in numbers.items()}

    def draw(self, folder: Path) -> None:
        """Write a picture of the last measurement into a folder."""
        if self.geometry is not None:
            target = folder / f"{self._name}.png"
            try:
                from orthoframe.reporting import geometry_figure

                target.parent.mkdir(parents=True, exist_ok=True)
                geometry_figure(self.geometry).savefig(target, dpi=150)
            except (OSError, MissingPackageError) as error:  # no reason to lose a training that has finished
                warnings.warn(f"the picture of the geometry could not be written: {error}", stacklevel=2)


def shared_rows(data: Any, collate: Callable[[list[Any]], Any] | None = None, workers: int = 0) -> DataLoader[Any]:
    """Load this process's share of a data set, without repeating rows; a DataLoader is returned unchanged."""
    if isinstance(data, DataLoader):
        return data
    if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise TypeError(
            f"data must be a data set with a length, or a DataLoader, not {type(data).__name__}; "
            "give data=DataLoader(...) with the rows that this process should measure"
        )
    rank, world_size = rank_and_world_size()
    if len(data) < world_size:
        raise ValueError(f"data has {len(data)} rows, too few for {world_size} processes; measure more rows")
    rows: Dataset[Any] = data if world_size == 1 else Subset(data, range(rank, len(data), world_size))
    return DataLoader(rows, batch_size=_BATCH_SIZE, collate_fn=collate, num_workers=workers)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; modes and random number generators are restored afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        # A DataLoader draws a seed, and transforms may draw more; loading data does not touch CUDA's generator.
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, training in modes:
            module.training = training


def _geometry(parts: Iterable[Any], num_classes: int) -> Geometry:
    """The geometry of batches `(features, labels)`, which functions of users return."""
    from orthoframe.geometry import GeometryMetric  # torchmetrics is slow to import

    metric: GeometryMetric | None = None
    for pair in parts:
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, Tensor) for part in pair)):
            raise TypeError(
                f"features must return a pair of tensors, (features, labels), not {type(pair).__name__}; "
                "give features=... that makes them from the model and a batch"
            )
        features, labels = pair
        if features.ndim != 2:
            raise ValueError(f"features must have shape [rows, dim], not {list(features.shape)}")
        if features.device.type == "mps":
            features = features.cpu()  # MPS has no float64
        if metric is None:
            metric = GeometryMetric(num_classes, features.shape[1]).to(features.device)
        metric.update(features, labels.to(features.device))
    if metric is None:
        raise ValueError("there are no rows to measure: data has no batches")
    return metric.geometry()
