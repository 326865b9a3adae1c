"""Objectives: what is minimised, with its settings, and what others need to know of it.

An objective is a group of settings. At the start of a run it makes a `Criterion`, which turns the outputs of a network
into a loss. A loss of your own is a subclass with a `name` and a `criterion`; give it to `Settings(objective=...)`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe.errors import Option, OptionError, Part
from orthoframe.losses import FrameLoss, GapMeter, SupConLoss, fastest_temperature, make_frame
from orthoframe.options import COLDEST, HOTTEST, TEMPERATURE, Binding, Denominator, check_margin
from orthoframe.runs import Cause
from orthoframe.training._causes import LikelyCause
from orthoframe.training._fields import AUTO, BEYOND, Group, usual
from orthoframe.training._schedules import Ramp, TemperatureSchedule

PARALLEL = 0.9
"""The mean cosine of two rows above which features are nearly all alike."""
_COLD = 0.95  # of the way from the floor to the loss of features that are all alike
_NOTHING, _USUAL = Ramp(0.0, 0.0), TemperatureSchedule(TEMPERATURE, TEMPERATURE)


class Outputs(NamedTuple):
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
        keys: Prototypes and their classes, with which every batch is compared.
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
        keys: tuple[Tensor, ...] = (),
        classifier: Ramp = _NOTHING,
    ) -> None:
        self._loss, self._problem, self._schedules, self._keys = loss, problem, schedules, keys
        self._classifier, self._weight = classifier, 0.0
        self.meter = GapMeter.of(loss) if isinstance(loss, SupConLoss | FrameLoss) else GapMeter()
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

    def loss(self, outputs: Outputs, labels: Tensor, rows: int) -> Tensor:
        """This process's part of the loss, whose mean over processes is the loss; `rows`: of the whole batch."""
        # All prototypes are in every process: the loss gathers rows, but not keys.
        loss: Tensor = self._loss(outputs.rows, labels, *self._keys)
        return loss

    def minimised(self, loss: Tensor, outputs: Outputs, labels: Tensor, rows: int) -> Tensor:
        """The loss, and beside it that of a linear classifier, if there is one.

        Also in epochs in which its weight is zero: processes wait for the gradient of every weight.
        """
        if not self._classifier.largest:
            return loss
        return loss + self._weight * _classified(outputs, labels, rows, self._problem, self._priors)

    def key_labels(self) -> range | None:
        """The classes of the prototypes that every batch is compared with."""
        return range(len(self._keys[0])) if self._keys else None

    def is_cold(self, loss: float, rows: Tensor, labels: Tensor) -> tuple[float, float] | None:
        """Whether training has not begun: the loss of features that are all alike, and the mean cosine of two rows.

        Args:
            loss: Of a batch.
            rows: Features of the batch, or of a part of it.
            labels: Of the whole batch.

        Returns:
            Both numbers if the loss is about that of features that are all alike, and rows are nearly parallel.
        """
        if not self.has_floor:
            return None
        floor, collapsed = self.meter.bounds(labels, self.key_labels())
        if len(rows) < 2 or collapsed <= floor or loss - floor < _COLD * (collapsed - floor):  # or of one class
            return None
        cosine = mean_cosine(rows)
        return (collapsed, cosine) if cosine > PARALLEL else None


class _ClassifierCriterion(Criterion):
    """The cross-entropy of a linear classifier on features of any length."""

    def __init__(self, problem: Problem, *, balanced: bool) -> None:
        super().__init__(nn.Identity(), problem)
        self._priors = _log_shares(problem) if balanced else None

    def loss(self, outputs: Outputs, labels: Tensor, rows: int) -> Tensor:
        return _classified(outputs, labels, rows, self._problem, self._priors)


@dataclass(frozen=True, kw_only=True, repr=False)
class Objective(Group):
    """What is minimised. A subclass with a `name` and a `criterion` is a loss; the rest has defaults."""

    name: ClassVar[str]
    """What it is called, as the option `loss`."""
    has_head: ClassVar[bool] = True
    """Whether features pass a frame head, which makes them unit rows; otherwise a linear classifier reads them."""
    has_certificate: ClassVar[bool] = True
    """Whether a certificate says what its batches guarantee."""
    is_roomy: ClassVar[bool] = False
    """Whether more dimensions than classes help it."""
    usual_binding: ClassVar[Binding] = "fixed"

    def criterion(self, problem: Problem) -> Criterion:
        """Make the loss of a run."""
        raise NotImplementedError(f"the objective {type(self).__name__} needs a method `criterion`")

    @property
    def temperature(self) -> TemperatureSchedule | None:
        """Its temperature, if it has one."""
        return None

    @property
    def classifier(self) -> Ramp:
        """The weight of a linear classifier that learns beside the loss."""
        return _NOTHING

    @property
    def has_classifier(self) -> bool:
        """Whether a linear classifier of the backbone's features learns, alone or beside the loss."""
        return not self.has_head or self.classifier.largest > 0

    @property
    def classifies(self) -> bool:
        """Whether that classifier predicts at the end, and not prototypes or means."""
        return not self.has_head or self.classifier.last > 0

    @property
    def classifier_leaves(self) -> bool:
        """Whether a classifier teaches at first and predicts nothing at the end, as on the way to the frame."""
        return self.classifier.first > self.classifier.last == 0

    @property
    def is_steady(self) -> bool:
        """Whether its floor is the same in all epochs."""
        ramps = [getattr(self, each.name) for each in fields(self) if each.name != "classifier"]
        return all(ramp.constant for ramp in ramps if isinstance(ramp, Ramp))

    def prototypes_of(self, num_classes: int, dim: int) -> Tensor | None:
        """Fixed directions of the classes `[k, dim]`, if it needs any."""
        return None

    def with_new_classes(self) -> Self:
        """The same for an encoder that knows some of the classes already."""
        return self

    def certificate_options(self) -> dict[str, Any]:
        """What `certify_run` needs to know."""
        return {}

    def hindrances(self) -> list[LikelyCause]:
        """What of it keeps features from the frame."""
        return []

    def certificate_advice(self, binding: Binding, bound_classes: int | None, bound_examples: int) -> tuple[Part, ...]:
        """What to do about batches that do not guarantee the frame."""
        if binding != "fixed":
            why = ", which guarantees the frame at the cost of one row per class in every batch"
            return Option("binding", "fixed"), why
        if bound_classes is not None:
            return "no ", Option("bound_classes"), ", so that every class is bound"
        return (Option("bound_examples", bound_examples + 1),)

    def cold_start_remedy(self, has_batch_norm: bool) -> Option | None:
        """What avoids the plateau at features that are all alike; `has_batch_norm`: or cannot have, in its head."""
        return None if has_batch_norm else Option("head_norm", "batch")

    def fastest_temperature(self, rows: float, image_share: float, row_share: float, num_classes: int) -> float | None:
        """The temperature at which free features near the frame move fastest; None if there is none.

        Args:
            rows: Of a batch.
            image_share: The part of all images that the largest class has.
            row_share: The part of all rows in batches that the class with most of them has.
            num_classes: k.
        """
        return None

    def accelerations(self) -> list[tuple[Part, ...]]:
        """Options that lead to the frame in fewer steps."""
        return []


@dataclass(frozen=True, kw_only=True, repr=False)
class _Comparison(Objective):
    """Options of the losses that compare unit rows."""

    temperature: TemperatureSchedule = usual(_USUAL, least=COLDEST, most=HOTTEST, advice=(f"{TEMPERATURE:g} is usual",))
    """Temperature of the loss: a number, or START:END for a schedule."""
    margin: Ramp = usual(_NOTHING)
    """Margin subtracted from same-class cosines; same optimum, reached sooner. A number, or START:END."""
    denominator: Denominator = usual("all")
    """The denominator of the contrastive loss."""
    prototypes: bool = usual(False)
    """Also compare every batch with a fixed prototype per class, which binds classes without encoding images."""
    classifier: Ramp = usual(_NOTHING, least=0, below=BEYOND)
    """Weight of an auxiliary linear classifier (balanced softmax) on backbone features: the network learns faster. It
    predicts, unless its weight ends at zero. A number, or START:END."""

    def check(self) -> None:
        super().check()
        if self.margin is not AUTO:
            for margin in (self.margin.first, self.margin.last):
                check_margin(margin, "all" if self.denominator is AUTO else self.denominator)

    def certificate_options(self) -> dict[str, Any]:
        return {"denominator": self.denominator, "prototypes": self.prototypes}

    def hindrances(self) -> list[LikelyCause]:
        if not self.classifier.last:
            return []
        settling = (Option("recipe", "accurate"), " with ", Option("goal", "frame"), ", which settles onto the frame")
        return [LikelyCause(Cause.CLASSIFIER, settling)]

    def accelerations(self) -> list[tuple[Part, ...]]:
        return [(Option("margin", 0.5),)] if self.margin.last == 0 else []

    def _keys(self, problem: Problem) -> tuple[Tensor, ...]:
        """Prototypes that every batch is compared with, and their classes."""
        if not self.prototypes or problem.prototypes is None:
            return ()
        return problem.prototypes.to(problem.device), torch.arange(problem.num_classes, device=problem.device)

    def _criterion(
        self, loss: SupConLoss | FrameLoss, contrastive: SupConLoss, problem: Problem, *more: Any
    ) -> Criterion:
        schedules = (
            (self.temperature, lambda value: setattr(contrastive, "temperature", value)),
            (self.margin, lambda value: setattr(contrastive, "margin", value)),
            *more,
        )
        return Criterion(loss, problem, schedules, keys=self._keys(problem), classifier=self.classifier)


@dataclass(frozen=True, kw_only=True, repr=False)
class Contrastive(_Comparison):
    """The supervised contrastive loss."""

    name = "supcon"

    def criterion(self, problem: Problem) -> Criterion:
        loss = SupConLoss(denominator=self.denominator)
        return self._criterion(loss, loss, problem)

    def prototypes_of(self, num_classes: int, dim: int) -> Tensor | None:
        return make_frame(num_classes, dim) if self.prototypes else None

    def with_new_classes(self) -> Self:
        """Prototypes keep new classes apart from those that have no images here."""
        return replace(self, prototypes=True)

    def cold_start_remedy(self, has_batch_norm: bool) -> Option | None:
        return Option("loss", FrameTerm.name)

    def fastest_temperature(self, rows: float, image_share: float, row_share: float, num_classes: int) -> float | None:
        margin = self.margin.last
        if self.denominator == "negatives" or margin >= 1:
            return None
        positives, negatives = max(1.0, rows * image_share - 1), max(1.0, rows * (1 - image_share))
        if self.denominator == "class-average":
            negatives = num_classes - 1.0
        return float(fastest_temperature(positives, negatives, denominator=self.denominator, margin=margin))

    def accelerations(self) -> list[tuple[Part, ...]]:
        faster = ("sincere",) if self.margin.largest else ("sincere", "negatives")  # the latter has no margin
        others = [(Option("denominator", name),) for name in faster if name != self.denominator]
        return [*super().accelerations(), *others]


@dataclass(frozen=True, kw_only=True, repr=False)
class FrameTerm(_Comparison):
    """The frame term: cosines to a fixed orthogonal frame, with a contrastive part if wanted."""

    name = "frame"
    is_roomy = True

    supcon: Ramp = usual(_NOTHING, least=0, below=BEYOND)
    """Weight of the contrastive loss added to the frame term; a number, or START:END (linear)."""

    def check(self) -> None:
        super().check()
        if self.supcon is AUTO or not self.supcon.largest:
            for name, idle in (("denominator", "all"), ("prototypes", False)):
                if getattr(self, name) not in (AUTO, idle):
                    without = " has no effect without the contrastive loss; set "
                    raise OptionError(Option(name), without, Option("supcon"), " to a weight above 0")

    def criterion(self, problem: Problem) -> Criterion:
        loss = FrameLoss(problem.num_classes, problem.dim, shares=problem.shares).to(problem.device)
        assert problem.prototypes is not None  # the frame
        loss.frame = problem.prototypes.to(problem.device)
        loss.contrastive.denominator = self.denominator
        # The frame term takes temperature and margin of its contrastive part.
        weight = (self.supcon, lambda value: setattr(loss, "supcon", value))
        return self._criterion(loss, loss.contrastive, problem, weight)

    def prototypes_of(self, num_classes: int, dim: int) -> Tensor | None:
        return make_frame(num_classes, dim)

    def certificate_options(self) -> dict[str, Any]:
        return {**super().certificate_options(), "frame": True}

    def certificate_advice(self, binding: Binding, bound_classes: int | None, bound_examples: int) -> tuple[Part, ...]:
        """Only images that are in no batch can be missing."""
        return "more ", Option("epochs")

    def fastest_temperature(self, rows: float, image_share: float, row_share: float, num_classes: int) -> float | None:
        if self.denominator == "negatives" or self.margin.last >= 1:
            return None
        return float(fastest_temperature(1.0, (1 - row_share) / row_share, margin=self.margin.last))


@dataclass(frozen=True, kw_only=True, repr=False)
class CrossEntropy(Objective):
    """The cross-entropy of an ordinary linear classifier on the encoder's features, which predicts."""

    name = "cross-entropy"
    has_head = False
    has_certificate = False  # it compares no rows with each other
    usual_binding = "none"

    def criterion(self, problem: Problem) -> Criterion:
        return _ClassifierCriterion(problem, balanced=False)

    def hindrances(self) -> list[LikelyCause]:
        return [LikelyCause(Cause.FREE_LENGTHS, (Option("loss", FrameTerm.name), f" or {Contrastive.name}"))]


@dataclass(frozen=True, kw_only=True, repr=False)
class BalancedSoftmax(CrossEntropy):
    """The cross-entropy with the logarithms of class shares added to the scores in training."""

    name = "balanced-softmax"

    def criterion(self, problem: Problem) -> Criterion:
        return _ClassifierCriterion(problem, balanced=True)


OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective for objective in (Contrastive, FrameTerm, CrossEntropy, BalancedSoftmax)
}
"""Objectives by the names that the option `loss` takes."""


def mean_cosine(rows: Tensor) -> float:
    """The mean cosine of two different unit rows.

    Examples:
        >>> mean_cosine(torch.eye(2)), mean_cosine(torch.ones(2, 1))
        (0.0, 1.0)
    """
    unit = rows.detach().double()
    return float((unit.sum(0).square().sum() - unit.square().sum()) / (len(rows) * (len(rows) - 1)))


def _classified(outputs: Outputs, labels: Tensor, rows: int, problem: Problem, priors: Tensor | None) -> Tensor:
    """This process's part of the cross-entropy of the linear classifier."""
    assert outputs.scores is not None
    scores = outputs.scores.float() if priors is None else outputs.scores.float() + priors
    # Not the mean over this process's rows: another process may have one more.
    return F.cross_entropy(scores, labels, reduction="sum") * (problem.processes / rows)


def _log_shares(problem: Problem) -> Tensor:
    return torch.from_numpy(problem.shares).log().float().to(problem.device)
