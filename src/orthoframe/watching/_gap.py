"""How far the loss of an epoch was above its floor."""

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe.losses import SupConLoss, loss_floor


class Gap(NamedTuple):
    """Means over the batches of an epoch."""

    loss: float
    floor: float


class _Step(NamedTuple):
    """One call of the loss in one process."""

    loss: float
    labels: NDArray[np.int64]
    key_labels: NDArray[np.int64] | None
    options: dict[str, Any]
    gather: bool


class GapMeter:
    """Listens to a loss: every call that can be differentiated is a training batch.

    Args:
        loss: The loss that the training calls.
    """

    def __init__(self, loss: SupConLoss) -> None:
        self._calls: list[tuple[Tensor, Tensor, Tensor | None, dict[str, Any], bool]] = []
        self._hook = loss.register_forward_hook(self._listen, with_kwargs=True)

    def _listen(self, loss: nn.Module, given: tuple[Any, ...], named: dict[str, Any], value: Tensor) -> None:
        if not (torch.is_grad_enabled() and value.requires_grad):
            return
        assert isinstance(loss, SupConLoss)
        arguments = dict(zip(("features", "labels", "keys", "key_labels"), given, strict=False)) | named
        options = {
            "temperature": loss.temperature,
            "denominator": loss.denominator,
            "singletons": loss.singletons if loss.singletons != "error" else "skip",
        }
        # Nothing is moved to the CPU yet: it would wait for the device at every step.
        self._calls.append(
            (value.detach(), arguments["labels"].detach(), arguments.get("key_labels"), options, loss.gather)
        )

    def read(self) -> Gap | None:
        """Loss and floor since the last reading, over all processes; None if there was no batch, or no known floor."""
        steps = [
            _Step(float(value), _integers(labels), None if keys is None else _integers(keys), options, gather)
            for value, labels, keys, options, gather in self._calls
        ]
        self._calls.clear()
        everyone: list[Any] = [steps]
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            everyone = [None] * dist.get_world_size()
            dist.all_gather_object(everyone, steps)
        together = list(zip(*everyone, strict=True))
        if not together:
            return None
        floors = [_floor(parts) for parts in together]
        if any(floor is None for floor in floors):
            return None
        losses = [step.loss for parts in together for step in parts]
        return Gap(sum(losses) / len(losses), sum(floor for floor in floors if floor is not None) / len(floors))

    def forget(self) -> None:
        """Drop what was heard since the last reading."""
        self._calls.clear()

    def close(self) -> None:
        """Listen no more."""
        self._hook.remove()


def _integers(labels: Tensor) -> NDArray[np.int64]:
    return np.asarray(labels.cpu().numpy(), dtype=np.int64)


def _floor(parts: tuple[_Step, ...]) -> float | None:
    """The floor of one batch, of which each process had a part."""
    first = parts[0]
    if len(parts) > 1 and first.gather:
        if any(part.key_labels is not None for part in parts):
            return None  # each process has keys of its own, and so anchors a floor of their own
        labels = np.concatenate([part.labels for part in parts])
        return float(loss_floor(torch.from_numpy(labels), **first.options))
    floors = []
    for part in parts:
        keys = None if part.key_labels is None else torch.from_numpy(part.key_labels)
        floors.append(float(loss_floor(torch.from_numpy(part.labels), key_labels=keys, **part.options)))
    return sum(floors) / len(floors)
