"""Measure a model between training epochs, leaving the training as it was, and keep the history."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from orthoframe._processes import rank_and_world_size
from orthoframe.callbacks._gap import GapListener
from orthoframe.errors import MissingPackageError
from orthoframe.geometry import Geometry
from orthoframe.losses import FrameLoss, SupConLoss
from orthoframe.options import check_count, check_size

# Without gradients, this fits into memory wherever a training batch does.
_BATCH_SIZE = 128


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
