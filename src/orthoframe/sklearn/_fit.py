"""Train the encoder of a table: the weights of its rows, the steps, and what is fitted to rows that were held out."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor, nn

from orthoframe._rows import Integers, class_members
from orthoframe.batches import BatchPlan
from orthoframe.errors import Coded, Option, OptionError, brief
from orthoframe.geometry import Calibration, NearestCentre, fit_adjustment
from orthoframe.losses import FrameLoss, GapMeter, SupConLoss
from orthoframe.options import TableLoss
from orthoframe.sklearn._network import TableEncoder

if TYPE_CHECKING:
    from orthoframe.sklearn._classifier import FrameClassifier

_POWERS = {"square-root": 0.5, "balanced": 1.0}  # of one over the size of the class
# Of the frame term, where the number of epochs is not given.
_EPOCHS, _FEWEST_EPOCHS = 20, 5
_FEWEST_STEPS, _MOST_STEPS = 100, 3000
_RISE = 10  # steps in which the learning rate rises
# Of the contrastive loss.
_SUPCON_EPOCHS = 100
_MOMENTUM = 0.9
# Of cross-fitting.
_FOLDS = 2
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the linear path
# Of the linear path, see `linear_path`.
_STRENGTHS, _SPARSE_STRENGTHS = (1.0, 0.03, 0.001), (3.0, 1.0, 0.3, 0.1, 0.03)
_SHARPNESS = 10.0
_STREAM = 8  # of random numbers: 0 to 3 are those of the plan, 7 those of weights


class StopReason(Coded):
    """Why a training ended; each reason has a `sentence`.

    Examples:
        >>> StopReason("floor") == "floor", StopReason("floor").sentence
        (True, 'The loss reached its floor.')
    """

    FLOOR = "floor", "The loss reached its floor."
    PLATEAU = "plateau", "The gap between the loss and its floor no longer fell."  # in files of version 0.1.0 only
    EPOCHS = "epochs", "The maximum number of epochs was reached."
    SOLVED = "solved", "The linear path was solved, and there was no network to train."


def relative_weights(
    sample_weight: ArrayLike | None, class_weight: object, labels: NDArray[Any]
) -> NDArray[np.float64]:
    """Weights of rows times the weights of their classes, `[rows]`; the largest is 1, and 0 leaves a row out.

    Raises:
        ValueError: For weights that are negative, not finite, not one per row, or all zero.
    """
    weights = _relative(_check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True))
    if class_weight is None:
        return weights
    present = weights > 0
    classes, numbers = np.unique(labels[present], return_inverse=True)
    if isinstance(class_weight, str) and class_weight in _POWERS:
        factors = np.bincount(numbers, weights[present]) ** -_POWERS[class_weight]
    elif isinstance(class_weight, dict):
        factors = np.asarray(compute_class_weight(class_weight, classes=classes, y=labels[present]), np.float64)
        if not (np.isfinite(factors).all() and factors.min() >= 0 and factors.any()):
            allowed = " must have finite weights, none negative and not all zero, not "
            raise OptionError(Option("class_weight"), allowed, brief(class_weight))
    else:
        allowed = " must be None, 'square-root', 'balanced', or a dictionary with the weight of each class, not "
        raise OptionError(Option("class_weight"), allowed, brief(repr(class_weight)))
    weights[present] *= factors[numbers]
    return _relative(weights)


def _relative(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rounded to single precision, so that weights that differ only by a factor give the same bytes."""
    relative: NDArray[np.float64] = (weights / weights.max()).astype(np.float32).astype(np.float64)
    return relative


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """The options of `FrameClassifier` that the training reads; `epochs` is None to suit the number of rows."""

    loss: TableLoss
    temperature: float
    epochs: int | None
    tol: float
    learning_rate: float
    weight_decay: float
    dropout: float


Curves = tuple[list[float], list[float], StopReason]


def fit_encoder(encoder: TableEncoder, rows: Tensor, plan: BatchPlan, options: FitOptions) -> Curves:
    """Train an encoder in place, on the device of its standardised float32 rows `[rows, columns]`.

    The learning rate rises for ten steps and falls along a cosine; training ends at the floor or after the last epoch.

    Returns the loss and its gap to the floor, one number per epoch, and why training ended.
    """
    labels = torch.from_numpy(plan.labels.classes.astype(np.int64)).to(rows.device)
    per_epoch = len(plan.batches(0))
    method = _METHODS[options.loss](encoder, plan, options, rows.device)
    criterion, optimizer, epochs = method.criterion, method.optimizer, options.epochs or method.epochs
    generator = torch.Generator(rows.device).manual_seed(plan.seed)
    meter, step = GapMeter(criterion), 0
    losses, gaps = list[float](), list[float]()
    for epoch in range(epochs):
        batches, total = plan.batches(epoch), rows.new_zeros((), dtype=torch.float64)
        meter.reset()
        for batch in batches:
            rise, fall = (step + 1) / _RISE, (1 + math.cos(math.pi * step / (epochs * per_epoch))) / 2
            optimizer.param_groups[0]["lr"] = options.learning_rate * min(1.0, rise) * fall
            index = torch.from_numpy(batch).to(rows.device)
            loss = criterion(encoder(rows[index], options.dropout, generator), labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if method.compares_rows:
                meter.add(loss, plan.labels.classes[batch])
            total += loss.detach() * len(batch)
            step += 1
        if not method.compares_rows:  # terms and floors do not depend on the batch: an epoch is one large batch
            epoch_rows = np.concatenate(batches)
            meter.add(total / len(epoch_rows), plan.labels.classes[epoch_rows])
        if _append_epoch(meter, epoch, options, losses, gaps) <= options.tol:
            return losses, gaps, StopReason.FLOOR
    return losses, gaps, StopReason.EPOCHS


@dataclass(frozen=True, kw_only=True)
class _Method:
    """How a loss is minimised."""

    criterion: FrameLoss | SupConLoss
    optimizer: torch.optim.Optimizer
    epochs: int  # where none are given
    compares_rows: bool  # of a batch with each other


def _contrastive(encoder: TableEncoder, plan: BatchPlan, options: FitOptions, device: torch.device) -> _Method:
    rate, decay = options.learning_rate, options.weight_decay
    return _Method(
        criterion=SupConLoss(options.temperature, gather=False),
        optimizer=torch.optim.SGD(encoder.parameters(), rate, _MOMENTUM, weight_decay=decay, nesterov=True),
        epochs=_SUPCON_EPOCHS,
        compares_rows=True,
    )


def _frame(encoder: TableEncoder, plan: BatchPlan, options: FitOptions, device: torch.device) -> _Method:
    frame = FrameLoss(len(plan.labels.names), encoder.dim, options.temperature, shares=plan.shares()).to(device)
    rate, decay = options.learning_rate, options.weight_decay
    fused = device.type in ("cpu", "cuda")  # one call instead of ten for each layer
    return _Method(
        criterion=frame,
        optimizer=torch.optim.AdamW(encoder.parameters(), rate, weight_decay=decay, fused=fused),
        epochs=_enough_epochs(len(plan.batches(0))),
        compares_rows=False,
    )


_METHODS: dict[TableLoss, Callable[[TableEncoder, BatchPlan, FitOptions, torch.device], _Method]] = {
    "frame": _frame,
    "supcon": _contrastive,
}


def _enough_epochs(per_epoch: int) -> int:
    """More for few rows, which have few steps per epoch, and fewer for many."""
    steps = min(max(_EPOCHS * per_epoch, _FEWEST_STEPS), _MOST_STEPS)
    return max(_FEWEST_EPOCHS, -(-steps // per_epoch))


_USUAL_EPOCHS: dict[TableLoss, Callable[[int], int]] = {"frame": _enough_epochs, "supcon": lambda _: _SUPCON_EPOCHS}


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


def linear_path(rows: Any, numbers: Integers, weights: NDArray[np.float64] | None, strength: float) -> nn.Linear:
    """The layer W x + b of a linear classifier in which all classes count the same.

    Of dense rows it minimises the cross-entropy of softmax(W x + b): logistic regression. Of sparse ones, which have
    many columns, it minimises the squared hinge of each class against the rest, a linear support vector machine, whose
    margins of one are made `_SHARPNESS`, so that the softmax of a row that is right is near the axis of its class.

    Args:
        rows: `[rows, columns]`, an array or a sparse matrix, scaled.
        numbers: `[rows]`, from 0 to k - 1.
        weights: `[rows]`, relative to the other rows of a class; None if they are equal.
        strength: One over the factor of the squared weights W, beside a sum over as many terms as rows.
    """
    weights = np.ones(len(numbers)) if weights is None else weights
    sizes = np.bincount(numbers, weights)
    shared = weights / sizes[numbers] * (len(numbers) / len(sizes))
    model = LinearSVC(C=strength, random_state=0) if issparse(rows) else LogisticRegression(C=strength, max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # close to the optimum suffices, and few rows of many classes
        model.fit(rows, numbers, shared)
    factor = _SHARPNESS if issparse(rows) else 1.0
    matrix, bias = (factor * torch.from_numpy(part) for part in (model.coef_, model.intercept_))
    if len(sizes) == 2:  # one decision, z = +-z / 2
        matrix, bias = torch.cat([-matrix, matrix]) / 2, torch.cat([-bias, bias]) / 2
    layer = nn.Linear(matrix.shape[1], len(sizes), device="meta")  # without drawing weights
    layer.load_state_dict({"weight": matrix.float().contiguous(), "bias": bias.float()}, assign=True)
    return layer


@dataclass(frozen=True)
class CrossFit:
    """What was fitted to rows that were held out."""

    share: float
    """Of the linear path in the scores."""
    strength: float = _STRENGTHS[0]
    """Of the linear path, see `linear_path`."""
    adjust: float = 0.0
    """lambda of the class-size adjustment."""
    calibration: Calibration | None = None
    """Of the adjusted scores."""


def cross_fit(
    fitted: "FrameClassifier",
    rows: Any,
    scaled: Any,
    labels: NDArray[Any],
    weights: NDArray[np.float64],
    hidden: tuple[int, ...],
    shares: tuple[float, ...],
) -> CrossFit:
    """Fit what does not fit itself on training rows, to the scores of rows in the features of the other half.

    A network of a half makes two thirds of the steps, on batches of half the size: with all else that is fitted here,
    both take as long as the network of all rows.

    The share is the one with the best balanced accuracy, averaged with that of its neighbours, because it jumps with
    each row of a rare class. For another strength than the first, and for a lambda that is not 0, balanced accuracy
    must rise by more than its standard error.

    Args:
        fitted: The classifier that is fitted.
        rows: `[rows, columns]`, an array or a sparse matrix.
        scaled: The same as `linear_path` takes them.
        labels: `[rows]`.
        weights: `[rows]`, relative to the other rows of a class.
        hidden: Hidden layers of the network.
        shares: Of the linear path that are compared; 1 alone needs no network, 0 alone no linear path.
    """
    numbers = np.searchsorted(fitted.classes_, labels)
    k, n, seed, truth = len(fitted.classes_), len(numbers), fitted.plan_.seed, torch.from_numpy(numbers).long()
    strengths = _SPARSE_STRENGTHS if issparse(rows) else _STRENGTHS
    network, linear = (torch.full((m, n, k), -torch.inf, dtype=torch.float64) for m in (1, len(strengths)))
    usual = _USUAL_EPOCHS[fitted.loss](len(fitted.plan_.batches(0)))
    epochs = fitted.epochs or usual
    fold_of = folds(numbers, k, np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, _STREAM]))))
    for fold in range(_FOLDS):
        inside, held_out = fold_of != fold, np.flatnonzero(fold_of == fold)
        if not len(held_out) or len(np.unique(numbers[inside])) < 2:
            continue
        present, among = np.unique(numbers[inside], return_inverse=True)
        cells = torch.from_numpy(held_out)[:, None], torch.from_numpy(present)
        if min(shares) < 1:
            part = clone(fitted).set_params(hidden=hidden, adjust=None, random_state=(seed + 1 + fold) % 2**31)
            part.set_params(epochs=max(1, 2 * epochs // 3), batch_size=-(-min(fitted.plan_.batch_size or n, n) // 2))
            if isinstance(fitted.class_weight, dict):  # must name each class that has rows
                every = dict.fromkeys(fitted.classes_[present].tolist(), 1.0)
                part.set_params(class_weight={name: fitted.class_weight.get(name, 1.0) for name in every})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of a half alone, such as many classes for its rows
                part.fit(rows[inside], labels[inside], weights[inside])
            network[0][cells] = part.rule_.scores(part.transform(rows[held_out]))
        for number, strength in enumerate(strengths if max(shares) else ()):
            layer = linear_path(scaled[inside], among, weights[inside], strength).double()
            outputs = torch.from_numpy(scaled[held_out] @ layer.weight.detach().numpy().T) + layer.bias.detach()
            linear[number][cells] = outputs.softmax(1).sqrt()
    strength = _best(linear, truth) if issparse(rows) else 0
    for number in range(1, 0 if issparse(rows) or not max(shares) else len(strengths)):
        strength = number if _is_better(linear[number], linear[strength], truth, errors=2) else strength
    possible = network[0] > -torch.inf if min(shares) < 1 else linear[0] > -torch.inf
    first, second = (path.masked_fill(path == -torch.inf, 0.0) for path in (network[0], linear[strength]))
    mixed = torch.stack([torch.lerp(first, second, share).masked_fill(~possible, -torch.inf) for share in shares])
    scores, counts = mixed[best := _best(mixed, truth)], torch.bincount(truth, minlength=k)
    adjust = 0.0 if fitted.adjust is None else fit_adjustment(scores, truth, counts)
    adjusted = NearestCentre(torch.eye(k), counts, adjust).adjusted(scores)
    if not _is_better(adjusted, scores, truth):
        adjust, adjusted = 0.0, scores
    return CrossFit(shares[best], strengths[strength], adjust, Calibration.fitted(adjusted, truth))


def _best(scores: Tensor, labels: Tensor) -> int:
    """Which scores `[m, rows, k]` have the best balanced accuracy, averaged with that of their neighbours."""
    rates = [_mean_of_classes((one.argmax(1) == labels).double(), labels)[0] for one in scores]
    smooth = [a + 2 * b + c for a, b, c in zip(rates[:1] + rates, rates, [*rates[1:], rates[-1]], strict=False)]
    return smooth.index(max(smooth))


def _is_better(scores: Tensor, others: Tensor, labels: Tensor, errors: float = 1.0) -> bool:
    """Whether balanced accuracy is higher by more than so many standard errors of the difference."""
    right, before = ((one.argmax(1) == labels).double() for one in (scores, others))
    gain, error = _mean_of_classes(right - before, labels)
    return gain > errors * error


def _mean_of_classes(values: Tensor, labels: Tensor) -> tuple[float, float]:
    """The mean over classes of the mean of each class, and its standard error if it is 0 in truth."""
    counts = torch.bincount(labels)
    weights = 1 / (counts[labels] * counts.count_nonzero()).double()
    return float(weights @ values), float((weights * values).square().sum().sqrt())


def folds(numbers: Integers, num_classes: int, random: np.random.Generator) -> Integers:
    """The fold of each row, `[rows]`: rows of a class are dealt out in random order, so that folds differ by one."""
    fold_of, first = np.empty(len(numbers), dtype=np.int64), 0
    for members in class_members(numbers, num_classes):
        fold_of[random.permutation(members)] = (first + np.arange(len(members))) % _FOLDS
        first += len(members)  # the next class goes on where this one ended
    return fold_of
