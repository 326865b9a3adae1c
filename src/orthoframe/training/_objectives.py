"""Objectives: what is minimised, with its settings, and what others need to know of it.

An objective is a group of settings, and light: the help of the command needs it. At the start of a run it makes a
`Criterion`, which turns the outputs of a network into a loss. A loss of your own is a subclass with a `name` and a
`criterion`; give it to `Settings(objective=...)`.
"""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from orthoframe.errors import Option, OptionError, Part
from orthoframe.options import COLDEST, HOTTEST, TEMPERATURE, Binding, Denominator, check_margin
from orthoframe.training._fields import AUTO, BEYOND, NOTHING, Group, Ramp, TemperatureSchedule, usual
from orthoframe.training._groups import BatchSettings

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.losses import FrameLoss, SupConLoss
    from orthoframe.training._causes import LikelyCause
    from orthoframe.training._criteria import Criterion, Problem

_USUAL_TEMPERATURE = TemperatureSchedule(TEMPERATURE, TEMPERATURE)


@dataclass(frozen=True, kw_only=True, repr=False)
class Objective(Group):
    """What is minimised. A subclass with a `name` and a `criterion` is a loss; the rest has defaults."""

    name: ClassVar[str]
    """What it is called, as the option `loss`."""
    has_head: ClassVar[bool] = True
    """Whether features pass a frame head, which makes them unit rows; otherwise a linear classifier reads them."""
    has_certificate: ClassVar[bool] = False
    """Whether a certificate says what its batches guarantee: that is proven of each loss."""
    is_roomy: ClassVar[bool] = False
    """Whether more dimensions than classes help it."""
    usual_binding: ClassVar[Binding] = "fixed"

    def criterion(self, problem: "Problem") -> "Criterion":
        """Make the loss of a run."""
        raise NotImplementedError(f"the objective {type(self).__name__} needs a method `criterion`")

    @property
    def temperature(self) -> TemperatureSchedule | None:
        """Its temperature, if it has one."""
        return None

    @property
    def classifier(self) -> Ramp:
        """The weight of a linear classifier that learns beside the loss."""
        return NOTHING

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

    def prototypes_of(self, num_classes: int, dim: int) -> "Tensor | None":
        """Fixed directions of the classes `[k, dim]`, if it needs any."""
        return None

    def with_new_classes(self) -> Self:
        """The same for an encoder that knows some of the classes already."""
        return self

    def certificate_options(self) -> dict[str, Any]:
        """What `certify_run` needs to know."""
        return {}

    def hindrances(self) -> "list[LikelyCause]":
        """What of it keeps features from the frame."""
        return []

    def certificate_advice(self, batches: BatchSettings) -> tuple[Part, ...]:
        """What to do about batches that do not guarantee the frame."""
        if batches.binding != "fixed":
            why = ", which guarantees the frame at the cost of one row per class in every batch"
            return Option("binding", "fixed"), why
        if batches.bound_classes is not None:
            return "no ", Option("bound_classes"), ", so that every class is bound"
        return (Option("bound_examples", batches.bound_examples + 1),)

    def cold_start_remedy(self, has_batch_norm: bool) -> Option | None:
        """What avoids the plateau at identical features; `has_batch_norm`: or cannot have, in its head."""
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

    has_certificate = True

    temperature: TemperatureSchedule = usual(
        _USUAL_TEMPERATURE, least=COLDEST, most=HOTTEST, advice=(f"{TEMPERATURE:g} is usual",)
    )
    """Temperature of the loss: a number, or START:END for a schedule."""
    margin: Ramp = usual(NOTHING)
    """Margin subtracted from same-class cosines; same optimum, reached sooner. A number, or START:END."""
    denominator: Denominator = usual("all")
    """The denominator of the contrastive loss."""
    prototypes: bool = usual(False)
    """Also compare every batch with a fixed prototype per class, which binds classes without encoding images."""
    classifier: Ramp = usual(NOTHING, least=0, below=BEYOND)
    """Weight of an auxiliary linear classifier (balanced softmax) on backbone features: the network learns faster. It
    predicts, unless its weight ends at zero. A number, or START:END."""

    def check(self) -> None:
        super().check()
        if self.margin is not AUTO:
            for margin in (self.margin.first, self.margin.last):
                check_margin(margin, "all" if self.denominator is AUTO else self.denominator)

    def certificate_options(self) -> dict[str, Any]:
        return {"denominator": self.denominator, "prototypes": self.prototypes}

    def hindrances(self) -> "list[LikelyCause]":
        if not self.classifier.last:
            return []
        from orthoframe.runs import Cause
        from orthoframe.training._causes import LikelyCause

        settling = (Option("recipe", "accurate"), " with ", Option("goal", "frame"), ", which settles onto the frame")
        return [LikelyCause(Cause.CLASSIFIER, settling)]

    def accelerations(self) -> list[tuple[Part, ...]]:
        return [(Option("margin", 0.5),)] if self.margin.last == 0 else []

    def _criterion(
        self, loss: "SupConLoss | FrameLoss", contrastive: "SupConLoss", problem: "Problem", *more: Any
    ) -> "Criterion":
        from orthoframe.training._criteria import Criterion

        keys = problem.prototypes if self.prototypes else None
        schedules = (
            (self.temperature, lambda value: setattr(contrastive, "temperature", value)),
            (self.margin, lambda value: setattr(contrastive, "margin", value)),
            *more,
        )
        return Criterion(loss, problem, schedules, keys=keys, classifier=self.classifier)


@dataclass(frozen=True, kw_only=True, repr=False)
class Contrastive(_Comparison):
    """The supervised contrastive loss."""

    name = "supcon"

    def criterion(self, problem: "Problem") -> "Criterion":
        from orthoframe.losses import SupConLoss

        loss = SupConLoss(denominator=self.denominator)
        return self._criterion(loss, loss, problem)

    def prototypes_of(self, num_classes: int, dim: int) -> "Tensor | None":
        from orthoframe.losses import make_frame

        return make_frame(num_classes, dim) if self.prototypes else None

    def with_new_classes(self) -> Self:
        """Prototypes keep new classes apart from those that have no images here."""
        return replace(self, prototypes=True)

    def cold_start_remedy(self, has_batch_norm: bool) -> Option | None:
        return Option("loss", FrameTerm.name)

    def fastest_temperature(self, rows: float, image_share: float, row_share: float, num_classes: int) -> float | None:
        from orthoframe.losses import fastest_temperature

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

    supcon: Ramp = usual(NOTHING, least=0, below=BEYOND)
    """Weight of the contrastive loss added to the frame term; a number, or START:END (linear)."""

    def check(self) -> None:
        super().check()
        if self.supcon is AUTO or not self.supcon.largest:
            for name, idle in (("denominator", "all"), ("prototypes", False)):
                if getattr(self, name) not in (AUTO, idle):
                    without = " has no effect without the contrastive loss; set "
                    raise OptionError(Option(name), without, Option("supcon"), " to a weight above 0")

    def criterion(self, problem: "Problem") -> "Criterion":
        from orthoframe.losses import FrameLoss

        loss = FrameLoss(problem.num_classes, problem.dim, shares=problem.shares).to(problem.device)
        assert problem.prototypes is not None  # the frame
        loss.frame = problem.prototypes.to(problem.device)
        loss.contrastive.denominator = self.denominator
        # The frame term takes temperature and margin of its contrastive part.
        weight = (self.supcon, lambda value: setattr(loss, "supcon", value))
        return self._criterion(loss, loss.contrastive, problem, weight)

    def prototypes_of(self, num_classes: int, dim: int) -> "Tensor | None":
        from orthoframe.losses import make_frame

        return make_frame(num_classes, dim)

    def certificate_options(self) -> dict[str, Any]:
        return {**super().certificate_options(), "frame": True}

    def certificate_advice(self, batches: BatchSettings) -> tuple[Part, ...]:
        """Only images that are in no batch can be missing."""
        return "more ", Option("epochs")

    def fastest_temperature(self, rows: float, image_share: float, row_share: float, num_classes: int) -> float | None:
        from orthoframe.losses import fastest_temperature

        if self.denominator == "negatives" or self.margin.last >= 1:
            return None
        return float(fastest_temperature(1.0, (1 - row_share) / row_share, margin=self.margin.last))


@dataclass(frozen=True, kw_only=True, repr=False)
class CrossEntropy(Objective):
    """The cross-entropy of an ordinary linear classifier on the encoder's features, which predicts."""

    name = "cross-entropy"
    has_head = False
    usual_binding = "none"
    is_balanced: ClassVar[bool] = False
    """Whether the logarithms of class shares are added to the scores in training."""

    def criterion(self, problem: "Problem") -> "Criterion":
        from orthoframe.training._criteria import ClassifierCriterion

        return ClassifierCriterion(problem, balanced=self.is_balanced)

    def hindrances(self) -> "list[LikelyCause]":
        from orthoframe.runs import Cause
        from orthoframe.training._causes import LikelyCause

        return [LikelyCause(Cause.FREE_LENGTHS, (Option("loss", FrameTerm.name), f" or {Contrastive.name}"))]


@dataclass(frozen=True, kw_only=True, repr=False)
class BalancedSoftmax(CrossEntropy):
    """The cross-entropy with the logarithms of class shares added to the scores in training."""

    name = "balanced-softmax"
    is_balanced = True


OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective for objective in (Contrastive, FrameTerm, CrossEntropy, BalancedSoftmax)
}
"""Objectives by the names that the option `loss` takes."""
