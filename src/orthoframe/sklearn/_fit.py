"""Train the encoder of a table until the loss is at its floor, or no longer comes closer."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from orthoframe.batches import BatchPlan
from orthoframe.errors import Option, OptionError
from orthoframe.losses import GapMeter, supcon_loss
from orthoframe.sklearn._network import TableEncoder

_MOMENTUM = 0.9
_REDUCTION = 0.1  # of the learning rate, at the first plateau
_IMPROVEMENT = 0.01  # a gap that falls by less than this part of the best one has not fallen


class StopReason(StrEnum):
    """Why a training ended; each reason is its name, and has a `sentence`.

    Examples:
        >>> StopReason("floor") == "floor", StopReason("floor").sentence
        (True, 'The loss reached its floor.')
    """

    FLOOR = "floor", "The loss reached its floor."
    PLATEAU = "plateau", "The gap between the loss and its floor no longer fell."
    EPOCHS = "epochs", "The maximum number of epochs was reached."

    sentence: str

    def __new__(cls, code: str, sentence: str = "") -> "StopReason":
        """A string with a sentence."""
        reason = str.__new__(cls, code)
        reason._value_, reason.sentence = code, sentence
        return reason


@dataclass
class History:
    """How a training went; one number per epoch."""

    loss: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)  # loss minus floor
    stopped: StopReason = StopReason.EPOCHS


def fit_encoder(
    encoder: TableEncoder,
    rows: Tensor,
    plan: BatchPlan,
    *,
    temperature: float,
    learning_rate: float,
    weight_decay: float,
    dropout: float,
    epochs: int,
    tol: float,
    patience: int,
) -> History:
    """Train an encoder in place, on the device of its standardised float32 rows; options as in `FrameClassifier`.

    Raises:
        OptionError: If the loss is not finite, or no batch has anything to compare.
    """
    labels = torch.from_numpy(plan.labels.classes.astype(np.int64)).to(rows.device)
    optimizer = torch.optim.SGD(
        encoder.parameters(), learning_rate, momentum=_MOMENTUM, weight_decay=weight_decay, nesterov=True
    )
    scheduler = ReduceLROnPlateau(optimizer, factor=_REDUCTION, patience=patience - 1, threshold=_IMPROVEMENT, eps=0.0)
    generator = torch.Generator(rows.device).manual_seed(plan.seed)
    meter, history = GapMeter(temperature), History()
    for epoch in range(epochs):
        meter.reset()
        for batch in plan.batches(epoch):
            index = torch.from_numpy(batch).to(rows.device)
            loss = supcon_loss(encoder(rows[index], dropout, generator), labels[index], temperature=temperature)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            meter.add(loss, plan.labels.classes[batch])
        gap = meter.read()
        if gap is None or gap.relative_gap is None:
            raise OptionError(
                f"no batch of epoch {epoch + 1} has two rows of one class and one of another, so that there is nothing "
                "to learn; use a larger ",
                Option("batch_size"),
                ", or ",
                Option("binding", "fixed"),
            )
        if not math.isfinite(gap.loss):
            raise OptionError(
                f"the loss is {gap.loss} in epoch {epoch + 1}; use a ",
                Option("learning_rate"),
                f" below {learning_rate}",
            )
        history.loss.append(gap.loss)
        history.gap.append(gap.gap)
        if gap.relative_gap <= tol:
            history.stopped = StopReason.FLOOR
            break
        rate = optimizer.param_groups[0]["lr"]
        scheduler.step(gap.relative_gap)
        if optimizer.param_groups[0]["lr"] < rate < learning_rate:  # the second plateau
            history.stopped = StopReason.PLATEAU
            break
    return history
