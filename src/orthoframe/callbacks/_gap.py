"""Listen to the loss of a training, in one process or several, and say how far an epoch was above the floor."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from orthoframe._rows import rank_and_world_size
from orthoframe.losses import Gap, GapMeter, SupConLoss
from orthoframe.options import Denominator, Singletons


class _Call(NamedTuple):
    """One call of the loss in one process, with the options that it had then."""

    loss: Tensor
    labels: Tensor
    key_labels: Tensor | None
    options: tuple[float, Denominator, Singletons]
    gather: bool

    def cpu(self) -> "_Call":
        keys = None if self.key_labels is None else self.key_labels.cpu()
        return self._replace(loss=self.loss.cpu(), labels=self.labels.cpu(), key_labels=keys)


class GapListener:
    """Listens to a loss: every call with gradients counts as a training batch.

    Args:
        loss: The loss that the training calls.

    Examples:
        >>> loss = SupConLoss(temperature=1.0)
        >>> listener = GapListener(loss)
        >>> _ = loss(torch.eye(4, requires_grad=True), torch.tensor([0, 0, 1, 1]))
        >>> round(listener.read().gap, 3)
        0.547
    """

    def __init__(self, loss: SupConLoss) -> None:
        self._calls: list[_Call] = []
        self._hook = loss.register_forward_hook(self._listen, with_kwargs=True)

    def _listen(self, loss: nn.Module, given: tuple[Any, ...], named: dict[str, Any], value: Tensor) -> None:
        if not (torch.is_grad_enabled() and value.requires_grad):
            return
        assert isinstance(loss, SupConLoss)
        arguments = dict(zip(("features", "labels", "keys", "key_labels"), given, strict=False)) | named
        keys = arguments.get("key_labels")
        # Copies, because the next step may write to the same place; nothing is transferred yet, because that would wait
        # for the device at every step.
        self._calls.append(
            _Call(
                value.detach().clone(),
                arguments["labels"].detach().clone(),
                None if keys is None else keys.detach().clone(),
                (loss.temperature, loss.denominator, loss.singletons),
                loss.gather,
            )
        )

    def read(self) -> Gap | None:
        """Means since the last reading, over all processes; None without batches, or if a floor is not known."""
        calls = [call.cpu() for call in self._calls]
        self.reset()
        everyone: list[Any] = [calls]
        _, world_size = rank_and_world_size()
        if world_size > 1:
            everyone = [None] * world_size
            dist.all_gather_object(everyone, calls)
        meter = GapMeter()
        for step in zip(*everyone, strict=True):
            meter.temperature, meter.denominator, meter.singletons = step[0].options
            if world_size == 1 or not step[0].gather:
                for call in step:
                    meter.add(call.loss, call.labels, call.key_labels)
            elif any(call.key_labels is not None for call in step):
                return None  # the anchors of each process have different keys, and so different floors
            else:
                losses = torch.stack([call.loss for call in step])
                meter.add(losses.mean(), torch.cat([call.labels for call in step]))
        return meter.read()

    def reset(self) -> None:
        """Drop what was heard since the last reading."""
        self._calls.clear()

    def close(self) -> None:
        """Stop listening."""
        self._hook.remove()
