"""Train the encoder of a table until the loss is at its floor, or no longer comes closer."""

import math
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from orthoframe.batches import BatchPlan
from orthoframe.errors import Option, OptionError
from orthoframe.losses import GapMeter, supcon_loss
from orthoframe.sklearn._network import TableEncoder

if TYPE_CHECKING:
    from orthoframe.sklearn._classifier import FrameClassifier

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


def fit_encoder(
    encoder: TableEncoder, rows: Tensor, plan: BatchPlan, options: "FrameClassifier"
) -> tuple[list[float], list[float], StopReason]:
    """Train an encoder in place, on the device of its standardised float32 rows `[rows, columns]`.

    Returns the loss and its gap to the floor, one number per epoch, and why training ended.
    """
    labels = torch.from_numpy(plan.labels.classes.astype(np.int64)).to(rows.device)
    first_rate, decay = options.learning_rate, options.weight_decay
    optimizer = torch.optim.SGD(encoder.parameters(), first_rate, _MOMENTUM, weight_decay=decay, nesterov=True)
    patience = options.patience - 1
    scheduler = ReduceLROnPlateau(optimizer, factor=_REDUCTION, patience=patience, threshold=_IMPROVEMENT, eps=0.0)
    generator = torch.Generator(rows.device).manual_seed(plan.seed)
    meter = GapMeter(options.temperature)
    losses, gaps = list[float](), list[float]()
    for epoch in range(options.epochs):
        meter.reset()
        for batch in plan.batches(epoch):
            index = torch.from_numpy(batch).to(rows.device)
            features = encoder(rows[index], options.dropout, generator)
            loss = supcon_loss(features, labels[index], temperature=options.temperature)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            meter.add(loss, plan.labels.classes[batch])
        gap = meter.read()
        if gap is None or gap.relative_gap is None:
            nothing = "has two rows of one class and one of another, so that there is nothing to learn; use a larger "
            no_batch, fixed = f"no batch of epoch {epoch + 1}", Option("binding", "fixed")
            raise OptionError(f"{no_batch} {nothing}", Option("batch_size"), ", or ", fixed)
        if not math.isfinite(gap.loss):
            problem = f"the loss is {gap.loss} in epoch {epoch + 1}; use a "
            raise OptionError(problem, Option("learning_rate"), f" below {first_rate}")
        losses.append(gap.loss)
        gaps.append(gap.gap)
        if gap.relative_gap <= options.tol:
            return losses, gaps, StopReason.FLOOR
        rate = optimizer.param_groups[0]["lr"]
        scheduler.step(gap.relative_gap)
        if optimizer.param_groups[0]["lr"] < rate < first_rate:  # the second plateau
            return losses, gaps, StopReason.PLATEAU
    return losses, gaps, StopReason.EPOCHS
