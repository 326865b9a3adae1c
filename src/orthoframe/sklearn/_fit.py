"""Train the encoder of a table until the loss is at its floor; fit its scores to rows that were not trained on."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from orthoframe._rows import Integers, class_members
from orthoframe.batches import BatchPlan
from orthoframe.errors import Coded, Option, OptionError
from orthoframe.geometry import Calibration, NearestCentre, fit_scores
from orthoframe.losses import FrameLoss, GapMeter, SupConLoss
from orthoframe.options import TableLoss
from orthoframe.sklearn._network import TableEncoder

if TYPE_CHECKING:
    from orthoframe.sklearn._classifier import FrameClassifier

# Of the frame term, where the number of epochs is not given.
_EPOCHS, _FEWEST_EPOCHS = 20, 5
_FEWEST_STEPS, _MOST_STEPS = 100, 3000
_RISE = 10  # steps in which the learning rate rises
# Of the contrastive loss.
_SUPCON_EPOCHS = 100
_MOMENTUM = 0.9
_REDUCTION = 0.1  # of the learning rate, at the first plateau
_IMPROVEMENT = 0.01  # a gap that falls by less than this part of the best one has not fallen
# Of cross-fitting.
_FOLDS = 3
_STREAM = 8  # of random numbers: 0 to 3 are those of the plan, 7 those of weights


class StopReason(Coded):
    """Why a training ended; each reason has a `sentence`.

    Examples:
        >>> StopReason("floor") == "floor", StopReason("floor").sentence
        (True, 'The loss reached its floor.')
    """

    FLOOR = "floor", "The loss reached its floor."
    PLATEAU = "plateau", "The gap between the loss and its floor no longer fell."
    EPOCHS = "epochs", "The maximum number of epochs was reached."


@dataclass(frozen=True)
class FitOptions:
    """The options of `FrameClassifier` that the training reads; `epochs` is None to suit the number of rows."""

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
    """AdamW until the floor or the last epoch; its rate rises for ten steps and falls along a cosine."""
    labels = torch.from_numpy(plan.labels.classes.astype(np.int64)).to(rows.device)
    k, per_epoch = len(plan.labels.names), len(plan.batches(0))
    criterion = FrameLoss(k, encoder.dim, options.temperature, shares=plan.shares()).to(rows.device)
    epochs = options.epochs or _enough_epochs(per_epoch)
    fused = rows.device.type in ("cpu", "cuda")  # one call instead of ten for each layer
    optimizer = torch.optim.AdamW(
        encoder.parameters(), options.learning_rate, weight_decay=options.weight_decay, fused=fused
    )
    generator = torch.Generator(rows.device).manual_seed(plan.seed)
    meter, step = GapMeter(criterion), 0
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
        epoch_rows = np.concatenate(batches)
        meter.reset()
        meter.add(total / len(epoch_rows), plan.labels.classes[epoch_rows])
        if _append_epoch(meter, epoch, options, losses, gaps) <= options.tol:
            return losses, gaps, StopReason.FLOOR
    return losses, gaps, StopReason.EPOCHS


def _enough_epochs(per_epoch: int) -> int:
    """More for few rows, which have few steps per epoch, and fewer for many."""
    steps = min(max(_EPOCHS * per_epoch, _FEWEST_STEPS), _MOST_STEPS)
    return max(_FEWEST_EPOCHS, -(-steps // per_epoch))


def _fit_supcon(encoder: TableEncoder, rows: Tensor, plan: BatchPlan, options: FitOptions) -> Curves:
    """SGD until the loss is at its floor, or no longer approaches it."""
    labels = torch.from_numpy(plan.labels.classes.astype(np.int64)).to(rows.device)
    first_rate, decay = options.learning_rate, options.weight_decay
    optimizer = torch.optim.SGD(encoder.parameters(), first_rate, _MOMENTUM, weight_decay=decay, nesterov=True)
    patience = options.patience - 1
    scheduler = ReduceLROnPlateau(optimizer, factor=_REDUCTION, patience=patience, threshold=_IMPROVEMENT, eps=0.0)
    generator = torch.Generator(rows.device).manual_seed(plan.seed)
    criterion = SupConLoss(options.temperature, gather=False)
    meter = GapMeter(criterion)
    losses, gaps = list[float](), list[float]()
    for epoch in range(options.epochs or _SUPCON_EPOCHS):
        meter.reset()
        for batch in plan.batches(epoch):
            index = torch.from_numpy(batch).to(rows.device)
            loss = criterion(encoder(rows[index], options.dropout, generator), labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, plan.labels.classes[batch])
        relative_gap = _append_epoch(meter, epoch, options, losses, gaps)
        if relative_gap <= options.tol:
            return losses, gaps, StopReason.FLOOR
        rate = optimizer.param_groups[0]["lr"]
        scheduler.step(relative_gap)
        if optimizer.param_groups[0]["lr"] < rate < first_rate:  # the second plateau
            return losses, gaps, StopReason.PLATEAU
    return losses, gaps, StopReason.EPOCHS


def _append_epoch(meter: GapMeter, epoch: int, options: FitOptions, losses: list[float], gaps: list[float]) -> float:
    """Add the loss and the gap of an epoch to the curves; returns its relative gap."""
    gap = meter.read()
    if gap is None or gap.relative_gap is None:
        problem = f"no batch of epoch {epoch + 1} has two rows of one class and one of another"
        advice = Option("batch_size"), ", or ", Option("binding", "fixed")
        raise OptionError(f"{problem}, so that there is nothing to learn; use a larger ", *advice)
    if not math.isfinite(gap.loss):
        problem = f"the loss is {gap.loss} in epoch {epoch + 1}; use a "
        raise OptionError(problem, Option("learning_rate"), f" below {options.learning_rate}")
    losses.append(gap.loss)
    gaps.append(gap.gap)
    return gap.relative_gap


def cross_fit(
    fitted: "FrameClassifier",
    rows: NDArray[Any],
    labels: NDArray[Any],
    sample_weight: NDArray[Any] | None,
    seed: int,
) -> tuple[float, Calibration | None]:
    """Lambda of the class-size adjustment, and the calibration of adjusted scores.

    Both are fitted to the cosines of rows in the features of three networks, each of which was trained without them.
    """
    numbers = np.searchsorted(fitted.classes_, labels)
    k = len(fitted.classes_)
    cosines = torch.full((len(numbers), k), -torch.inf, dtype=torch.float64)
    fold_of = folds(numbers, k, np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, _STREAM]))))
    for fold in range(_FOLDS):
        inside, held_out = fold_of != fold, np.flatnonzero(fold_of == fold)
        if not len(held_out) or len(np.unique(numbers[inside])) < 2:
            continue
        network = clone(fitted).set_params(adjust=None, random_state=(seed + 1 + fold) % 2**31)
        if isinstance(fitted.class_weight, dict):  # must name each class that has rows
            present = np.unique(labels[inside]).tolist()
            network.set_params(class_weight={name: fitted.class_weight.get(name, 1.0) for name in present})
        network.fit(rows[inside], labels[inside], None if sample_weight is None else sample_weight[inside])
        columns = torch.from_numpy(np.searchsorted(fitted.classes_, network.classes_))
        scores = NearestCentre(network.centres_).scores(network.transform(rows[held_out]))
        cosines[torch.from_numpy(held_out)[:, None], columns] = scores
    centres, counts = torch.from_numpy(fitted.centres_), fitted.geometry_.counts
    rule, calibration = fit_scores(centres, counts, cosines, torch.from_numpy(numbers.astype(np.int64)))
    return rule.adjust, calibration


def folds(numbers: Integers, num_classes: int, random: np.random.Generator) -> Integers:
    """The fold of each row, `[rows]`: rows of a class are dealt out in random order, so that folds differ by one."""
    fold_of, first = np.empty(len(numbers), dtype=np.int64), 0
    for members in class_members(numbers, num_classes):
        fold_of[random.permutation(members)] = (first + np.arange(len(members))) % _FOLDS
        first += len(members)  # the next class goes on where this one ended
    return fold_of
