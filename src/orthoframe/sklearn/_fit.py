"""Train the encoder of a table: batches of the plan, the contrastive loss, the gap to its floor after each epoch."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe.batches import BatchPlan
from orthoframe.losses import collapsed_loss, loss_floor, supcon_loss
from orthoframe.sklearn._network import TableEncoder
from orthoframe.sklearn._stopping import Reason, Stopping

_MOMENTUM = 0.9


@dataclass(frozen=True)
class History:
    """How a training went; a number an epoch."""

    loss: list[float]
    gap: list[float]  # loss less its floor
    stopped: Reason


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
    """Train an encoder where its rows are, on the CPU or a GPU.

    Args:
        encoder: Changed in place.
        rows: `[rows, columns]`, standardised, float32.
        plan: Which rows meet.
        temperature: Of the loss.
        learning_rate: Of SGD with Nesterov momentum 0.9.
        weight_decay: Pull of the weights to zero.
        dropout: The part of the hidden units that is left out at each step.
        epochs: The largest number of epochs.
        tol: As in `Stopping`.
        patience: As in `Stopping`.

    Returns:
        The history.

    Raises:
        ValueError: If the loss is no number, or no batch has anything to compare.
    """
    labels = torch.from_numpy(plan.labels.classes.astype(np.int64)).to(rows.device)
    optimizer = torch.optim.SGD(
        encoder.parameters(), learning_rate, momentum=_MOMENTUM, weight_decay=weight_decay, nesterov=True
    )
    stopping, losses, gaps = Stopping(tol, patience), [], []
    stopped: Reason = "epochs"
    generator = torch.Generator(rows.device).manual_seed(plan.seed)
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * stopping.slowdown
        values, floors, collapsed = [], [], []
        for batch in plan.batches(epoch):
            index = torch.from_numpy(batch).to(rows.device)
            loss = supcon_loss(encoder(rows[index], dropout, generator), labels[index], temperature=temperature)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            values.append(loss.detach())
            floor, alike = _bounds(_sizes(plan, batch), temperature)
            floors.append(floor)
            collapsed.append(alike)
        # All at once: reading each loss would make a GPU wait at every step.
        losses.append(float(torch.stack(values).double().mean()))
        floor, alike = math.fsum(floors) / len(floors), math.fsum(collapsed) / len(collapsed)
        gaps.append(losses[-1] - floor)
        if alike <= floor:
            raise ValueError(
                f"no batch of epoch {epoch + 1} has two rows of a class and one of another, so that there is nothing "
                'to learn from; use a larger batch_size, or binding="fixed"'
            )
        if not math.isfinite(losses[-1]):
            raise ValueError(
                f"the loss is {losses[-1]} in epoch {epoch + 1}; use a learning_rate below {learning_rate}"
            )
        reason = stopping.after(gaps[-1] / (alike - floor))
        if reason is not None:
            stopped = reason
            break
    return History(losses, gaps, stopped)


def _sizes(plan: BatchPlan, batch: NDArray[Any]) -> tuple[int, ...]:
    return tuple(np.sort(np.bincount(plan.labels.classes[batch], minlength=len(plan.labels.names))).tolist())


@lru_cache(maxsize=4096)
def _bounds(class_counts: tuple[int, ...], temperature: float) -> tuple[float, float]:
    """The floor of a batch, and its loss if everything has collapsed."""
    floor = loss_floor(class_counts=class_counts, temperature=temperature)
    return float(floor), float(collapsed_loss(class_counts=class_counts))
