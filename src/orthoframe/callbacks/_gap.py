"""Listen to the loss of a training, in one process or several, and say how far an epoch was above the floor."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from orthoframe._processes import rank_and_world_size
from orthoframe.losses import FrameLoss, Gap, GapMeter, LossOptions, SupConLoss


class _Call(NamedTuple):
    """One call of the loss in one process, with the options that it had then."""

    tensors: list[Any]  # the loss, the labels, and the labels of the keys or None
    options: LossOptions
    joined: bool  # whether the loss is that of the rows of all processes

    def cpu(self) -> "_Call":
        tensors = [None if tensor is None else tensor.cpu() for tensor in self.tensors]
        return self._replace(tensors=tensors, options=self.options.cpu())


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

    def _listen(self, loss: nn.Module, given: tuple[Any, ...], named: dict[str, Any], value: Tensor) -> None:
        if not (torch.is_grad_enabled() and value.requires_grad):
            return
        assert isinstance(loss, SupConLoss | FrameLoss)
        arguments = dict(zip(("features", "labels", "keys", "key_labels"), given, strict=False)) | named
        # Copies, because the next step may write to the same place; nothing is transferred yet, because that would wait
        # for the device at every step.
        tensors = (value, arguments["labels"], arguments.get("key_labels"))
        copies = [None if tensor is None else tensor.detach().clone() for tensor in tensors]
        contrastive = loss if isinstance(loss, SupConLoss) else loss.contrastive
        self._calls.append(_Call(copies, LossOptions.of(loss), contrastive.gather))

    def read(self) -> Gap | None:
        """Means since the last reading, over all processes; None without batches, or if a floor is not known."""
        calls = [call.cpu() for call in self._calls]
        self.reset()
        everyone: list[Any] = [calls]
        _, world_size = rank_and_world_size()
        if world_size > 1:
            everyone = [None] * world_size
            dist.all_gather_object(everyone, calls)
        heard: dict[str, list[float]] = {"loss": [], "floor": [], "collapsed": []}
        for step in zip(*everyone, strict=True):
            losses, labels, key_labels = zip(*(call.tensors for call in step), strict=True)
            options = step[0].options
            if world_size > 1 and (step[0].joined or options.frame):
                if any(keys is not None for keys in key_labels) or not (step[0].joined or options.supcon == 0):
                    return None  # the anchors of each process are compared with others, and so have different floors
                losses, labels, key_labels = (torch.stack(losses).mean(),), (torch.cat(labels),), (None,)
            for loss, rows, keys in zip(losses, labels, key_labels, strict=True):
                for column, value in zip(heard.values(), (float(loss), *options.bounds(rows, keys)), strict=True):
                    column.append(value)
        meter = GapMeter()
        meter.load_state_dict(heard)
        return meter.read()

    def reset(self) -> None:
        """Drop what was heard since the last reading."""
        self._calls.clear()

    def close(self) -> None:
        """Stop listening."""
        self._hook.remove()
