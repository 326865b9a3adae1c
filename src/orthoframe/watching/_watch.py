"""Measure, remember, draw."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from orthoframe.geometry import Geometry, GeometryMetric
from orthoframe.losses import SupConLoss
from orthoframe.watching._gap import GapMeter


class Watch:
    """What is known of a training that something else runs.

    Args:
        num_classes: k; labels are 0..k-1.
        every: Epochs between two measurements.
        loss: The loss to listen to; by default the only `SupConLoss` in the model, if there is one.
        name: Before the names of logged numbers, and the name of the picture.

    Attributes:
        history: A row for each measurement: `epoch`, `delta_of`, `beta_nc`, and with a loss `floor` and `gap`.
        geometry: The last measurement.

    Raises:
        ValueError: For fewer than one class, or one epoch between measurements.
        TypeError: For a loss that is no `SupConLoss`.
    """

    def __init__(self, num_classes: int, every: int, loss: SupConLoss | None, name: str) -> None:
        for word, value in (("num_classes", num_classes), ("every", every)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{word} must be a whole number from 1, not {value!r}")
        if loss is not None and not isinstance(loss, SupConLoss):
            raise TypeError(f"loss must be a SupConLoss, whose floor is known, not {type(loss).__name__}")
        self.num_classes, self.every, self.name = num_classes, every, name
        self.history: list[dict[str, float]] = []
        self.geometry: Geometry | None = None
        self._loss = loss
        self._meter: GapMeter | None = None

    def start(self, model: nn.Module) -> None:
        """Listen to the loss, given or found in the model."""
        self.stop()
        found = [module for module in model.modules() if isinstance(module, SupConLoss)]
        loss = self._loss or (found[0] if len(found) == 1 else None)
        self._meter = None if loss is None else GapMeter(loss)

    def stop(self) -> None:
        """Listen no more."""
        if self._meter is not None:
            self._meter.close()
            self._meter = None

    def forget(self) -> None:
        """Drop the losses of an epoch that is not measured."""
        if self._meter is not None:
            self._meter.forget()

    def measured(self, epoch: float) -> bool:
        """Whether the last measurement was of this epoch."""
        return bool(self.history) and self.history[-1]["epoch"] == epoch

    def measure(self, epoch: float, parts: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
        """Measure features and labels that come in parts, over all processes.

        Args:
            epoch: Epochs that are done.
            parts: `(features, labels)` of this process.

        Returns:
            The numbers to log.
        """
        self.geometry = _geometry(parts, self.num_classes)
        numbers = {"delta_of": self.geometry.delta_of, "beta_nc": self.geometry.beta_nc}
        gap = None if self._meter is None else self._meter.read()
        if gap is not None:
            numbers |= {"floor": gap.floor, "gap": gap.loss - gap.floor}
        self.history.append({"epoch": epoch, **numbers})
        return self.named(numbers)

    def named(self, numbers: dict[str, float]) -> dict[str, float]:
        """The same numbers as a logger is told them."""
        return {f"{self.name}/{key}": value for key, value in numbers.items()}

    def draw(self, folder: Path) -> None:
        """Draw the last measurement into a folder, as a heat map of cosines and what belongs to it."""
        if self.geometry is not None:
            from orthoframe.reporting import geometry_figure

            target = folder / f"{self.name}.png"
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                geometry_figure(self.geometry).savefig(target, dpi=150)
            except OSError as error:  # the training is done, and must not be lost for a picture
                warnings.warn(f"the picture of the geometry could not be written: {error}", stacklevel=2)


class Watched:
    """What a callback shows of its `Watch`."""

    _watch: Watch

    @property
    def history(self) -> list[dict[str, float]]:
        """A row for each measurement: `epoch`, `delta_of`, `beta_nc`, and with a loss `floor` and `gap`."""
        return self._watch.history

    @property
    def geometry(self) -> Geometry | None:
        """The last measurement, whole."""
        return self._watch.geometry


def _geometry(parts: Iterable[tuple[Tensor, Tensor]], num_classes: int) -> Geometry:
    metric: GeometryMetric | None = None
    for pair in parts:
        features, labels = _checked(pair)
        if features.device.type == "mps":
            features = features.cpu()  # which has float64
        if metric is None:
            metric = GeometryMetric(num_classes, features.shape[1]).to(features.device)
        metric.update(features, labels.to(features.device))
    if metric is None:
        raise ValueError("there are no rows to measure; data gave no batch")
    return metric.geometry()


def _checked(pair: Any) -> tuple[Tensor, Tensor]:
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, Tensor) for part in pair)):
        raise TypeError(
            f"features must return a pair of tensors, (features, labels), not {type(pair).__name__}; "
            "give features=... that makes them from the model and a batch"
        )
    features, labels = pair
    if features.ndim != 2:
        raise ValueError(f"features must have shape [rows, dim], not {list(features.shape)}")
    return features, labels
