"""How far the mean loss of an epoch was above its floor."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orthoframe._rows import AnyLabels
from orthoframe.losses._floors import (
    classes_of_labels,
    collapsed_loss,
    frame_collapsed,
    frame_floor,
    loss_floor,
)
from orthoframe.losses._frame import FrameLoss
from orthoframe.losses._supcon import SupConLoss

_CONTRASTIVE = (
    "temperature",
    "denominator",
    "singletons",
    "margin",
    "compare",
    "reduction",
    "class_weights",
    "anchor_weights",
)


@dataclass(frozen=True)
class Gap:
    """Means over the batches of an epoch.

    Attributes:
        loss: What the loss was.
        floor: What it is at an orthogonal frame (see `loss_floor`).
        collapsed: What it is if all features coincide (see `collapsed_loss`).
    """

    loss: float
    floor: float
    collapsed: float

    @property
    def gap(self) -> float:
        """How far the loss is above its floor."""
        return self.loss - self.floor

    @property
    def relative_gap(self) -> float | None:
        """The gap relative to that of coinciding features: 0 at the floor; None if there is nothing to learn."""
        return self.gap / (self.collapsed - self.floor) if self.collapsed > self.floor else None


@dataclass(frozen=True)
class LossOptions:
    """Everything that the floor of a loss depends on, as it was when a batch went through the loss.

    Attributes:
        contrastive: The options of the contrastive part, named as in `loss_floor`.
        supcon: The weight of that part.
        frame: The options of the frame term, named as in `frame_floor`; None without one.
    """

    contrastive: dict[str, Any]
    supcon: float = 1.0
    frame: dict[str, Any] | None = None

    @classmethod
    def of(cls, loss: object) -> "LossOptions":
        """Copies of the options of a loss module: a schedule may change them at any time."""
        loss = getattr(loss, "_orig_mod", loss)  # the module that torch.compile has wrapped
        if isinstance(loss, FrameLoss):
            frame = {name: _copied(getattr(loss, name)) for name in ("temperature", "margin")}
            frame |= {"num_classes": len(loss.frame), "shares": loss.log_shares.exp()}
            return cls(cls.of(loss.contrastive).contrastive, float(loss.supcon), frame)
        if not isinstance(loss, SupConLoss):
            raise TypeError(f"the floor is known for SupConLoss and FrameLoss, not for {type(loss).__name__}")
        return cls({name: _copied(getattr(loss, name)) for name in _CONTRASTIVE})

    def cpu(self) -> "LossOptions":
        """The same, off the device."""
        frame = None if self.frame is None else _on_cpu(self.frame)
        return LossOptions(_on_cpu(self.contrastive), self.supcon, frame)

    def bounds(self, labels: AnyLabels, key_labels: AnyLabels | None = None) -> tuple[float, float]:
        """Floor of one batch, from the classes of its rows and keys, and its loss if all features coincide."""
        parts = [(1.0, _frame_bounds(labels, self.frame))] if self.frame else []
        if self.supcon or not parts:
            parts.append((self.supcon, _contrastive_bounds(labels, key_labels, self.contrastive)))
        floor, collapsed = (math.fsum(weight * part[i] for weight, part in parts) for i in (0, 1))
        return floor, collapsed


class GapMeter:
    """Mean loss of the batches of an epoch, beside the mean of their floors.

    `add` never waits for a GPU: losses, labels and options stay on their device until they are read.

    Args:
        loss: The module whose batches are added, `SupConLoss` or `FrameLoss`; `SupConLoss()` by default. Its options
            are read with each batch, so that a schedule may change them.

    Raises:
        TypeError: For another module, because its floor is not known.

    Examples:
        >>> meter = GapMeter(SupConLoss(temperature=1.0))
        >>> meter.add(0.6, [0, 0, 1, 1])
        >>> meter.add(torch.tensor(0.8), [0, 0, 1, 1])
        >>> epoch = meter.read()
        >>> print(f"loss {epoch.loss:.3f}, gap {epoch.gap:.3f}, "
        ...       f"relative gap {epoch.relative_gap:.3f}")
        loss 0.700, gap 0.149, relative gap 0.271
        >>> loss = FrameLoss(num_classes=2, dim=4, supcon=0.5)
        >>> meter, labels = GapMeter(loss), torch.tensor([0, 0, 1, 1])
        >>> meter.add(loss(torch.ones(4, 4), labels), labels)
        >>> round(meter.read().relative_gap, 4)  # all features are alike
        1.0
    """

    def __init__(self, loss: SupConLoss | FrameLoss | None = None) -> None:
        self._loss = SupConLoss() if loss is None else loss
        LossOptions.of(self._loss)  # refuses a module whose floor is not known
        self.reset()

    def bounds(self, labels: AnyLabels, key_labels: AnyLabels | None = None) -> tuple[float, float]:
        """Floor of one batch, from the classes of its rows and keys, and its loss if all features coincide."""
        return LossOptions.of(self._loss).bounds(labels, key_labels)

    def add(self, loss: float | Tensor, labels: AnyLabels, key_labels: AnyLabels | None = None) -> None:
        """Add one batch: its mean loss, the class of each row, and of each key (a row that is not an anchor).

        Raises:
            ValueError: For a loss that is not a scalar.
        """
        if np.ndim(loss):
            raise ValueError(f"loss must be one number for the batch, not of shape {list(np.shape(loss))}; use .mean()")
        # Copies, because the next step may write its loss or labels to the same place.
        self._losses.append(loss.detach().clone() if isinstance(loss, Tensor) else float(loss))
        self._bounds.append(partial(LossOptions.of(self._loss).bounds, _copied(labels), _copied(key_labels)))

    def read(self) -> Gap | None:
        """Means over the batches since the last reset; None if there was none."""
        columns = self.state_dict()
        if not columns["loss"]:
            return None
        return Gap(**{name: math.fsum(values) / len(values) for name, values in columns.items()})

    def reset(self) -> None:
        """Forget all batches."""
        self._losses: list[float | Tensor] = []
        self._bounds: list[tuple[float, float] | partial[tuple[float, float]]] = []

    def state_dict(self) -> dict[str, list[float]]:
        """`loss`, `floor` and `collapsed` of each batch since the last reset."""
        tensors = [loss for loss in self._losses if isinstance(loss, Tensor)]
        if tensors:  # all at once, because each transfer waits for the device
            read = iter(torch.stack(tensors).tolist())
            self._losses = [next(read) if isinstance(loss, Tensor) else loss for loss in self._losses]
        bounds = [bound() if isinstance(bound, partial) else bound for bound in self._bounds]
        self._bounds = [*bounds]
        floors, collapsed = [floor for floor, _ in bounds], [collapsed for _, collapsed in bounds]
        return {"loss": [float(loss) for loss in self._losses], "floor": floors, "collapsed": collapsed}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        """Continue with the batches of a `state_dict`."""
        self._losses = [*state["loss"]]
        self._bounds = [*zip(state["floor"], state["collapsed"], strict=True)]


def _contrastive_bounds(
    labels: AnyLabels, key_labels: AnyLabels | None, options: dict[str, Any]
) -> tuple[float, float]:
    batch = classes_of_labels(labels, key_labels, options["class_weights"], options["anchor_weights"])
    columns = (column.tolist() for column in (batch.rows, batch.keys, batch.class_weights, batch.anchor_weights))
    return _cached_bounds(
        tuple(sorted(zip(*columns, strict=True))),
        temperature=float(options["temperature"]),
        denominator=options["denominator"],
        margin=float(options["margin"]),
        compare=options["compare"],
        singletons="skip" if options["singletons"] == "error" else options["singletons"],
        reduction="sum" if options["reduction"] == "sum" else "mean",
    )


@lru_cache(maxsize=4096)
def _cached_bounds(classes: tuple[tuple[int, int, float, float], ...], **options: Any) -> tuple[float, float]:
    """Bounds of a batch from the rows, keys, class weight and anchor weight of its classes, in any order."""
    names = ("class_counts", "key_counts", "class_weights", "anchor_weights")
    options |= {name: [entry[i] for entry in classes] for i, name in enumerate(names)}
    return float(loss_floor(**options)), float(collapsed_loss(**options))


def _frame_bounds(labels: AnyLabels, options: dict[str, Any]) -> tuple[float, float]:
    numbers = {name: float(options[name]) for name in ("temperature", "margin")}
    return float(frame_floor(labels, **options | numbers)), float(frame_collapsed(labels, **options | numbers))


def _on_cpu(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value.cpu() if isinstance(value, Tensor) else value for name, value in options.items()}


def _copied(value: Any) -> Any:
    """A copy of what may change in place: tensors, arrays and lists."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    return value if value is None or isinstance(value, float | int | str) else np.array(value)
