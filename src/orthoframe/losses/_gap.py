"""How far the loss of an epoch was above its floor."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orthoframe.losses._floor import AnyLabels, collapsed_loss, count_classes, loss_floor
from orthoframe.options import Denominator, Singletons, check_choice, check_temperature


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


class GapMeter:
    """Mean loss of the batches of an epoch, beside the mean of their floors.

    `add` never waits for a GPU: losses and labels stay on their device until they are read.

    Args:
        temperature: tau, from 0.001 to 1e6; may be set at any time, for the batches that follow.
        denominator: As in `supcon_loss`.
        singletons: As in `supcon_loss`. `"error"` is the same as `"skip"` here, because the loss itself raises.

    Examples:
        >>> meter = GapMeter(temperature=1.0)
        >>> meter.add(0.6, [0, 0, 1, 1])
        >>> meter.add(torch.tensor(0.8), [0, 0, 1, 1])
        >>> epoch = meter.read()
        >>> print(f"loss {epoch.loss:.3f}, gap {epoch.gap:.3f}, relative gap {epoch.relative_gap:.3f}")
        loss 0.700, gap 0.149, relative gap 0.271
    """

    def __init__(
        self, temperature: float = 0.1, denominator: Denominator = "all", singletons: Singletons = "skip"
    ) -> None:
        check_temperature(temperature)
        check_choice("denominator", denominator, Denominator)
        check_choice("singletons", singletons, Singletons)
        self.temperature, self.denominator, self.singletons = temperature, denominator, singletons
        self.reset()

    def bounds(self, labels: AnyLabels, key_labels: AnyLabels | None = None) -> tuple[float, float]:
        """Floor of one batch, from the classes of its rows and keys, and its loss if all features coincide."""
        singletons: Singletons = "skip" if self.singletons == "error" else self.singletons
        _, rows, keys = count_classes(labels, key_labels)
        counts = tuple(sorted(zip(rows.tolist(), keys.tolist(), strict=True)))  # nothing else matters
        return _bounds(counts, float(self.temperature), self.denominator, singletons)

    def add(self, loss: float | Tensor, labels: AnyLabels, key_labels: AnyLabels | None = None) -> None:
        """Add one batch: its mean loss, the class of each row, and of each key (a row that is not an anchor)."""
        # Copies, because the next step may write its loss or labels to the same place.
        self._losses.append(loss.detach().clone() if isinstance(loss, Tensor) else float(loss))
        if _is_remote(labels) or _is_remote(key_labels):
            now = GapMeter(self.temperature, self.denominator, self.singletons)
            self._bounds.append(partial(now.bounds, _copied(labels), _copied(key_labels)))
        else:
            self._bounds.append(self.bounds(labels, key_labels))

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


@lru_cache(maxsize=4096)
def _bounds(
    counts: tuple[tuple[int, int], ...], temperature: float, denominator: Denominator, singletons: Singletons
) -> tuple[float, float]:
    batch: dict[str, Any] = {"class_counts": [rows for rows, _ in counts], "key_counts": [keys for _, keys in counts]}
    batch |= {"denominator": denominator, "singletons": singletons}
    return float(loss_floor(temperature=temperature, **batch)), float(collapsed_loss(**batch))


def _is_remote(labels: object) -> bool:
    return isinstance(labels, Tensor) and labels.device.type != "cpu"


def _copied(labels: Any) -> Any:
    return labels.detach().clone() if isinstance(labels, Tensor) else None if labels is None else np.array(labels)
