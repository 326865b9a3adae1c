"""Listen to the loss of a training, in one process or several: how far was an epoch above its floor?"""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from orthoframe._processes import rank_and_world_size
from orthoframe._rows import label_tensor
from orthoframe.losses import FrameLoss, Gap, GapMeter, LossOptions, SupConLoss


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
