"""Criteria: the losses of a run at work, from the outputs of a network to a number that falls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe.losses import FrameLoss, GapMeter, SupConLoss
from orthoframe.training._fields import NOTHING, Ramp, TemperatureSchedule

PARALLEL = 0.9
"""The mean cosine of two rows above which features are nearly all alike."""
_COLD = 0.95  # of the way from the floor to the loss of identical features


class NetworkOutputs(NamedTuple):
    """What a network makes of a batch."""

    rows: Tensor  # [batch, dim], unit features
    scores: Tensor | None  # [batch, k], of the linear classifier


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What an objective works on."""

    num_classes: int
    dim: int  # of the unit features
    shares: NDArray[np.float64]  # [k], the part of all rows that each class has in the batches
    prototypes: Tensor | None  # [k, dim]
    epochs: int
    device: torch.device
    processes: int  # that share each batch


class Criterion:
    """An objective at work: the loss of a batch, and what is known of it.

    Args:
        loss: From unit features and labels to the loss: the mean over all processes is what counts.
        problem: What it works on.
        schedules: Values that change from epoch to epoch; each function sets its own.
        keys: Prototypes `[k, dim]`, with which every batch is compared.
        classifier: The weight of a linear classifier beside the loss.

    Attributes:
        meter: The losses of the steps of an epoch, beside their floors.
        has_floor: Whether the loss has a floor, which is reached at the frame.
    """

    def __init__(
        self,
        loss: Callable[..., Tensor],
        problem: Problem,
        schedules: tuple[tuple[Ramp, Callable[[float], None]], ...] = (),
        *,
        keys: Tensor | None = None,
        classifier: Ramp = NOTHING,
    ) -> None:
        self._loss, self._problem, self._schedules = loss, problem, schedules
        self._keys = () if keys is None else (keys.to(problem.device), torch.arange(len(keys), device=problem.device))
        self._classifier, self._weight = classifier, 0.0
        self.meter = GapMeter(loss) if isinstance(loss, SupConLoss | FrameLoss) else GapMeter()
        self.has_floor = isinstance(loss, SupConLoss | FrameLoss)
        self._priors = _log_shares(problem) if classifier.largest else None

    def set_epoch(self, epoch: int) -> float | None:
        """Set what changes from epoch to epoch; the temperature, if there is one."""
        epochs, temperature = self._problem.epochs, None
        self._weight = self._classifier.at(epoch, epochs)
        for schedule, set_value in self._schedules:
            value = schedule.at(epoch, epochs)
            set_value(value)
            temperature = value if isinstance(schedule, TemperatureSchedule) else temperature
        return temperature

    def loss(self, outputs: NetworkOutputs, labels: Tensor, rows: int) -> Tensor:
        """This process's part of the loss, whose mean over processes is the loss; `rows`: of the whole batch."""
        # All prototypes are in every process: the loss gathers rows, but not keys.
        loss: Tensor = self._loss(outputs.rows, labels, *self._keys)
        return loss

    def minimised(self, loss: Tensor, outputs: NetworkOutputs, labels: Tensor, rows: int) -> Tensor:
        """The loss, and beside it that of a linear classifier, if there is one.

        Also in epochs in which its weight is zero: processes wait for the gradient of every weight.
        """
        if not self._classifier.largest:
            return loss
        return loss + self._weight * _classified(outputs, labels, rows, self._problem, self._priors)

    def key_labels(self) -> range | None:
        """The classes of the prototypes that every batch is compared with."""
        return range(self._problem.num_classes) if self._keys else None

    def is_cold(self, loss: float, rows: Tensor, labels: Tensor) -> tuple[float, float] | None:
        """Whether training has not begun, by the loss of a batch, features of a part of it, and all of its labels.

        Returns:
            The loss of identical features and the mean cosine of two rows, if the loss is about the former, and rows
            are nearly parallel.
        """
        if not self.has_floor:
            return None
        floor, collapsed = self.meter.bounds(labels, self.key_labels())
        if len(rows) < 2 or collapsed <= floor or loss - floor < _COLD * (collapsed - floor):  # or of one class
            return None
        cosine = mean_cosine(rows)
        return (collapsed, cosine) if cosine > PARALLEL else None


class ClassifierCriterion(Criterion):
    """The cross-entropy of a linear classifier on features of any length."""

    def __init__(self, problem: Problem, *, balanced: bool) -> None:
        super().__init__(nn.Identity(), problem)
        self._priors = _log_shares(problem) if balanced else None

    def loss(self, outputs: NetworkOutputs, labels: Tensor, rows: int) -> Tensor:
        return _classified(outputs, labels, rows, self._problem, self._priors)


def mean_cosine(rows: Tensor) -> float:
    """The mean cosine of two different unit rows.

    Examples:
        >>> mean_cosine(torch.eye(2)), mean_cosine(torch.ones(2, 1))
        (0.0, 1.0)
    """
    unit = rows.detach().double()
    return float((unit.sum(0).square().sum() - unit.square().sum()) / (len(rows) * (len(rows) - 1)))


def _classified(outputs: NetworkOutputs, labels: Tensor, rows: int, problem: Problem, priors: Tensor | None) -> Tensor:
    """This process's part of the cross-entropy of the linear classifier."""
    assert outputs.scores is not None
    scores = outputs.scores.float() if priors is None else outputs.scores.float() + priors
    # Not the mean over this process's rows: another process may have one more.
    return F.cross_entropy(scores, labels, reduction="sum") * (problem.processes / rows)


def _log_shares(problem: Problem) -> Tensor:
    return torch.from_numpy(problem.shares).log().float().to(problem.device)
