"""Train the encoder of a table, with the frame term or with the contrastive loss, and stop at the floor."""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from orthoframe.batches import BatchPlan
from orthoframe.errors import Option, OptionError
from orthoframe.losses import FrameLoss, GapMeter, supcon_loss
from orthoframe.options import TableLoss
from orthoframe.sklearn._network import TableEncoder

# Of the frame term, where the number of epochs is not given.
_EPOCHS, _FEWEST_EPOCHS = 20, 5
_FEWEST_STEPS, _MOST_STEPS = 100, 3000
_RISE = 10  # steps in which the learning rate rises
# Of the contrastive loss.
_SUPCON_EPOCHS = 100
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


@dataclass(frozen=True)
class FitOptions:
    """The options of `FrameClassifier` that the training reads; `epochs` is None for as many as suit the rows."""

    loss: TableLoss
    temperature: float
    epochs: int | None
    tol: float
    patience: int
    learning_rate: float
    weight_decay: float
    dropout: float


Curves = tuple[list[float], list[float], StopReason]


def fit_encoder(encoder: TableEncoder, rows: Tensor, plan: BatchPlan, options: FitOptions) -> Curves:
    """Train an encoder in place, on the device of its standardised float32 rows `[rows, columns]`.

    Returns the loss and its gap to the floor, one number per epoch, and why training ended.
    """
    return (_fit_frame if options.loss == "frame" else _fit_supcon)(encoder, rows, plan, options)


def _fit_frame(encoder: TableEncoder, rows: Tensor, plan: BatchPlan, options: FitOptions) -> Curves:
    """A given number of steps of AdamW whose rate rises for ten steps and falls as a cosine; fewer if at the floor."""
    labels = torch.from_numpy(plan.labels.classes.astype(np.int64)).to(rows.device)
    k, per_epoch = len(plan.labels.names), len(plan.batches(0))
    criterion = FrameLoss(k, encoder.dim, options.temperature, shares=plan.shares()).to(rows.device)
    epochs = options.epochs or _enough_epochs(per_epoch)
    fused = rows.device.type in ("cpu", "cuda")  # one call instead of ten for each layer
    optimizer = torch.optim.AdamW(
        encoder.parameters(), options.learning_rate, weight_decay=options.weight_decay, fused=fused
    )
    generator = torch.Generator(rows.device).manual_seed(plan.seed)
    meter, step = GapMeter.of(criterion), 0
    losses, gaps = list[float](), list[float]()
    for epoch in range(epochs):
        batches, total = plan.batches(epoch), rows.new_zeros((), dtype=torch.float64)
        for batch in batches:
            rise, fall = (step + 1) / _RISE, (1 + math.cos(math.pi * step / (epochs * per_epoch))) / 2
            optimizer.param_groups[0]["lr"] = options.learning_rate * min(1.0, rise) * fall
            index = torch.from_numpy(batch).to(rows.device)
            loss = criterion(encoder(rows[index], options.dropout, generator), labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(batch)
            step += 1
        # The terms and floors of rows do not depend on the batch, so that an epoch is one large batch.
        seen = np.concatenate(batches)
        meter.reset()
        meter.add(total / len(seen), plan.labels.classes[seen])
        if _noted(meter, epoch, options, losses, gaps) <= options.tol:
            return losses, gaps, StopReason.FLOOR
    return losses, gaps, StopReason.EPOCHS


def _enough_epochs(per_epoch: int) -> int:
    """So many that few rows have enough steps, and many rows not more than they need."""
    steps = min(max(_EPOCHS * per_epoch, _FEWEST_STEPS), _MOST_STEPS)
    return max(_FEWEST_EPOCHS, -(-steps // per_epoch))


def _fit_supcon(encoder: TableEncoder, rows: Tensor, plan: BatchPlan, options: FitOptions) -> Curves:
    """SGD until the loss is at its floor, or no longer comes closer."""
    labels = torch.from_numpy(plan.labels.classes.astype(np.int64)).to(rows.device)
    first_rate, decay = options.learning_rate, options.weight_decay
    optimizer = torch.optim.SGD(encoder.parameters(), first_rate, _MOMENTUM, weight_decay=decay, nesterov=True)
    patience = options.patience - 1
    scheduler = ReduceLROnPlateau(optimizer, factor=_REDUCTION, patience=patience, threshold=_IMPROVEMENT, eps=0.0)
    generator = torch.Generator(rows.device).manual_seed(plan.seed)
    meter = GapMeter(options.temperature)
    losses, gaps = list[float](), list[float]()
    for epoch in range(options.epochs or _SUPCON_EPOCHS):
        meter.reset()
        for batch in plan.batches(epoch):
            index = torch.from_numpy(batch).to(rows.device)
            features = encoder(rows[index], options.dropout, generator)
            loss = supcon_loss(features, labels[index], temperature=options.temperature)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            meter.add(loss, plan.labels.classes[batch])
        relative_gap = _noted(meter, epoch, options, losses, gaps)
        if relative_gap <= options.tol:
            return losses, gaps, StopReason.FLOOR
        rate = optimizer.param_groups[0]["lr"]
        scheduler.step(relative_gap)
        if optimizer.param_groups[0]["lr"] < rate < first_rate:  # the second plateau
            return losses, gaps, StopReason.PLATEAU
    return losses, gaps, StopReason.EPOCHS


def _noted(meter: GapMeter, epoch: int, options: FitOptions, losses: list[float], gaps: list[float]) -> float:
    """The relative gap of an epoch, whose loss and gap are added to the curves."""
    gap = meter.read()
    if gap is None or gap.relative_gap is None:
        nothing = "has two rows of one class and one of another, so that there is nothing to learn; use a larger "
        no_batch, fixed = f"no batch of epoch {epoch + 1}", Option("binding", "fixed")
        raise OptionError(f"{no_batch} {nothing}", Option("batch_size"), ", or ", fixed)
    if not math.isfinite(gap.loss):
        problem = f"the loss is {gap.loss} in epoch {epoch + 1}; use a "
        raise OptionError(problem, Option("learning_rate"), f" below {options.learning_rate}")
    losses.append(gap.loss)
    gaps.append(gap.gap)
    return gap.relative_gap
