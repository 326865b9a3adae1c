"""Groups of settings: fields with a usual value and a range, open until a user or `resolve` decides them.

Here are the groups that every run has in common; images have a group for each kind, and each loss is one.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, get_args, get_origin, get_type_hints

from orthoframe.errors import Option, OptionError, brief
from orthoframe.options import (
    Activation,
    Binding,
    Head,
    HeadNorm,
    LearningRateSchedule,
    Model,
    Precision,
    Scheme,
    check_choice,
    check_count,
    check_number,
    check_size,
)

if TYPE_CHECKING:
    from orthoframe.batches import BatchPlan

_WARM_UP = 0.05  # the fraction of the steps in which the learning rate rises


class _Auto:
    """The value of a field that is not decided yet."""

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> str:
        return "AUTO"  # the one of this module, also in a copy and in another process


AUTO: Final[Any] = _Auto()
"""Not decided: `resolve` takes the recipe's value, or what suits the data, or the usual one."""
BEYOND = 1e38
"""Where the range of a weight or a learning rate ends: float32 ends at 3.4e38."""
_NOUNS: dict[Any, str] = {bool: "true or false", str: "a name", Path: "a folder"}


def usual(value: Any = AUTO, **limits: Any) -> Any:
    """A field of a group.

    Args:
        value: What it is unless the user, the recipe or the data decide otherwise; AUTO if one of them must.
        **limits: Of a number, as `check_number` and `check_count` take them.
    """
    return field(default=AUTO, metadata={"usual": value, "limits": limits})


@dataclass(frozen=True)
class Ramp:
    """A number that changes evenly from the first epoch to the last.

    Examples:
        >>> [Ramp(0.0, 0.5).at(epoch, 3) for epoch in range(3)]
        [0.0, 0.25, 0.5]
    """

    first: float
    last: float

    @classmethod
    def of(cls, value: "Ramp | float | Sequence[float]") -> Self:
        """From a schedule, a single number, or the first and the last."""
        if isinstance(value, cls):
            return value
        first, last = value if isinstance(value, Sequence) and len(value) == 2 else (value, value)
        return cls(first, last)  # type: ignore[arg-type]  # whatever it is, `Settings.check` looks at it

    @property
    def constant(self) -> bool:
        return self.first == self.last

    @property
    def largest(self) -> float:
        return max(self.first, self.last)

    def at(self, epoch: int, epochs: int) -> float:
        """The number of an epoch, counted from 0; a single epoch has the last."""
        return self._between(epoch / (epochs - 1) if epochs > 1 else 1.0)

    def to_json(self) -> float | list[float]:
        """A number, or a list of the first and the last."""
        return self.first if self.constant else [self.first, self.last]

    def _between(self, done: float) -> float:
        return self.first + (self.last - self.first) * done


@dataclass(frozen=True)
class TemperatureSchedule(Ramp):
    """A temperature that changes evenly, in its logarithm, from the first epoch to the last.

    Examples:
        >>> schedule = TemperatureSchedule(0.1, 0.4)
        >>> [round(schedule.at(epoch, 3), 3) for epoch in range(3)]
        [0.1, 0.2, 0.4]
    """

    def _between(self, done: float) -> float:
        low, high = sorted((self.first, self.last))
        # Rounding must not lead out of the range, which may end where temperatures are refused.
        return min(max(low, self.first * math.pow(self.last / self.first, done)), high)


NOTHING = Ramp(0.0, 0.0)
"""The weight of what is left out in every epoch."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Settings that belong together; each field is AUTO until it is decided."""

    def __post_init__(self) -> None:
        for name, kind in type_hints(type(self)).items():
            object.__setattr__(self, name, _as_kind(getattr(self, name), kind))

    def __repr__(self) -> str:
        decided = ", ".join(f"{name}={value!r}" for name, value in self.asked().items())
        return f"{type(self).__name__}({decided})"

    def asked(self) -> dict[str, Any]:
        """What is decided, by name."""
        return {name: getattr(self, name) for name in names_of(self) if getattr(self, name) is not AUTO}

    def undecided(self) -> list[str]:
        """Names of the fields that are AUTO."""
        return [name for name in names_of(self) if getattr(self, name) is AUTO]

    def filled(self, values: Mapping[str, Any]) -> Self:
        """The same, with these values where nothing is decided; others in the mapping are not for this group."""
        return replace(self, **{name: values[name] for name in self.undecided() if name in values})

    def with_usual(self) -> Self:
        """The same, with the usual value of each field that is not decided."""
        return self.filled({name: usual_value(type(self), name) for name in names_of(self)})

    def check(self) -> None:
        """Refuse values that are not allowed, or that contradict others of the group.

        Raises:
            OptionError: With a sentence that names the setting.
        """
        kinds = type_hints(type(self))
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not AUTO:
                _check_value(each.name, value, kinds[each.name], each.metadata.get("limits", {}))


def names_of(group: Group | type[Group]) -> list[str]:
    """The names of the fields."""
    return [each.name for each in fields(group)]


def usual_value(group: type[Group], name: str) -> Any:
    """The usual value of a field; AUTO if it has none."""
    return next(each.metadata.get("usual", each.default) for each in fields(group) if each.name == name)


def type_hints(group: type[Group]) -> dict[str, Any]:
    """The types of the fields."""
    kinds = get_type_hints(group)
    return {name: kinds[name] for name in names_of(group)}


def absolute_path(path: str | Path) -> str:
    """The path, whatever folder the process is in later."""
    return os.path.abspath(os.path.expanduser(path))


def _as_kind(value: Any, kind: Any) -> Any:
    """A value as its field has it: a number or a list for a schedule, and paths and tuples as JSON writes them."""
    if isinstance(kind, type) and issubclass(kind, Ramp) and value is not AUTO:
        return kind.of(value)
    if isinstance(value, str) and Path in get_args(kind):
        return Path(value)
    return tuple(value) if isinstance(value, list) else value


def _check_value(name: str, value: Any, kind: Any, limits: dict[str, Any]) -> None:
    """Refuse a value that is not of the field's type, or not within its limits."""
    kinds = [each for each in (get_args(kind) if get_origin(kind) is not Literal else ()) if each is not type(None)]
    optional = type(None) in get_args(kind)
    if optional and value is None:
        return
    single = kinds[0] if optional and len(kinds) == 1 else kind
    if get_origin(single) is Literal:
        check_choice(name, value, single)
    elif single is int:
        check = check_count if limits.get("least") == 0 else check_size
        check(name, value, limits.get("least", 1))
    elif single is float:
        check_number(name, value, **limits)
    elif single in _NOUNS:
        if not isinstance(value, single):
            raise OptionError(Option(name), f" must be {_NOUNS[single]}, not {brief(repr(value), 60)}")
    elif isinstance(single, type) and issubclass(single, Ramp):
        for number in (value.first, value.last):
            check_number(name, number, **limits)


@dataclass(frozen=True, kw_only=True, repr=False)
class EncoderSettings(Group):
    """The network that encodes images, and its head."""

    model: Model | None = usual()
    """The encoder (default: resnet18 for your own images from 16 pixels on, else mlp)."""
    width: int | None = usual(None)
    """Width of the encoder (default: the model's; 16 if the model is chosen automatically)."""
    backbone: str | None = usual(None)
    """Another network instead: hf:NAME_OR_FOLDER (of transformers) or MODULE:FACTORY (a Python function)."""
    init: Path | None = usual(None)
    """Start from the encoder of this run; known classes keep their directions, new ones get dimensions of their own."""
    head: Head = usual()
    """A linear layer before the activation, or none, with which features approach the frame far more slowly (default:
    linear; none for losses of a linear classifier)."""
    head_norm: HeadNorm = usual("none")
    """BatchNorm between the linear layer and the activation, which spreads the features early in training."""
    features: int | None = usual()
    """Dimensions of the features, with a linear head (default: those of the encoder; for your own images and the frame
    term at least 128, and two per class)."""
    activation: Activation = usual("relu")
    """Applied before the unit norm; the frame needs features that are non-negative, as relu and abs make them."""

    SHAPE: ClassVar = ("model", "width", "head", "features", "head_norm", "activation")
    """Settings that an encoder to start from decides."""

    def check(self) -> None:
        super().check()
        if self.backbone not in (AUTO, None):
            for name in ("model", "width", "init"):
                if getattr(self, name) not in (AUTO, None):
                    raise OptionError(Option("backbone"), " takes the place of ", Option(name), "; leave one out")
        if self.head == "none" and self.features not in (AUTO, None):
            otherwise = "; without it the width decides the dimension"
            raise OptionError(Option("features"), " needs ", Option("head", "linear"), otherwise)
        if self.head == "none" and self.head_norm not in (AUTO, "none"):
            raise OptionError(Option("head_norm", self.head_norm), " needs ", Option("head", "linear"))

    def shape(self) -> dict[str, Any]:
        """What the network is made of, as `make_frame_encoder` and `Architecture` take it."""
        return {name: getattr(self, name) for name in self.SHAPE}

    def absolute(self) -> Self:
        """The same with absolute paths."""
        init, backbone = self.init, self.backbone
        if init not in (AUTO, None):
            init = Path(absolute_path(init))
        if isinstance(backbone, str) and backbone.startswith("hf:") and os.path.isdir(os.path.expanduser(backbone[3:])):
            backbone = f"hf:{absolute_path(backbone[3:])}"
        return replace(self, init=init, backbone=backbone)


@dataclass(frozen=True, kw_only=True, repr=False)
class BatchSettings(Group):
    """Which examples meet."""

    scheme: Scheme = usual("reshuffle")
    """How samples are drawn and cut into batches."""
    power: float | None = usual(None, least=0, most=1)
    """With the scheme weighted: rows are sampled in proportion to class size^POWER (default: 0.5; 1 samples as in the
    data, 0 all classes equally often)."""
    binding: Binding = usual("fixed")
    """Examples that bind each batch; fixed adds the same example of each class."""
    bound_classes: int | None = usual(None)
    """Bind only the first N classes (default: all)."""
    bound_examples: int = usual(1)
    """Examples of each bound class that are added to a batch."""
    batch_size: int = usual(128)
    """Samples per batch, before binding; with the scheme weighted at most, in batches of equal size."""
    views: int = usual(1)
    """Augmented views of each sample in a batch; 1 in epochs without augmentation."""

    @classmethod
    def of(cls, plan: "BatchPlan") -> Self:
        """The settings of a plan, as far as it has them."""
        return cls(
            scheme=plan.scheme,
            power=plan.power,
            binding=plan.binding,
            bound_examples=plan.bound_examples,
            batch_size=plan.batch_size or AUTO,
            views=plan.views,
        )

    def check(self) -> None:
        super().check()
        if self.binding in ("none", "present"):
            for name in ("bound_classes", "bound_examples"):
                if getattr(self, name) not in (AUTO, usual_value(BatchSettings, name)):
                    others = f", redrawn or random, not {self.binding}"
                    raise OptionError(Option(name), " needs ", Option("binding", "fixed"), others)
        if self.scheme == "full" and self.batch_size not in (AUTO, usual_value(BatchSettings, "batch_size")):
            whole = " is one batch of all samples; leave "
            raise OptionError(Option("scheme", "full"), whole, Option("batch_size"), " out")
        if self.power not in (AUTO, None) and self.scheme != "weighted":
            raise OptionError(Option("power"), " needs ", Option("scheme", "weighted"))


@dataclass(frozen=True, kw_only=True, repr=False)
class ScheduleSettings(Group):
    """How long, and how fast."""

    epochs: int = usual()
    """Passes over the data (default: as many as 2000 steps make, from 5 to 500)."""
    minutes: float | None = usual(None, above=0)
    """Train for about this many minutes in all, start-up and report included; at least one epoch."""
    lr: float = usual(0.1, above=0, below=BEYOND)
    """Peak learning rate of SGD with Nesterov momentum 0.9."""
    backbone_lr: float | None = usual(least=0, below=BEYOND)
    """Peak learning rate of the backbone; 0 freezes it (default: as lr; 0 with backbone)."""
    lr_schedule: LearningRateSchedule = usual("cosine")
    """Learning-rate schedule: cosine or linear after a warm-up of 5 %, or step (divided by 10 after each third); linear
    does not restart."""
    weight_decay: float = usual(5e-4, least=0, below=BEYOND)
    """L2 penalty on the weights."""
    clean_fraction: float = usual(0.4, least=0, below=1)
    """Final fraction of the epochs, without augmentation; the learning-rate schedule restarts there."""

    def check(self) -> None:
        super().check()
        if self.epochs is not AUTO and self.minutes not in (AUTO, None):
            raise OptionError(Option("minutes"), " decides the number of epochs; leave ", Option("epochs"), " out")

    @property
    def settling_epoch(self) -> int:
        """The first epoch, counted from 0, of images that are not augmented; the number of epochs if there is none.

        Examples:
            >>> [ScheduleSettings(clean_fraction=0.4, epochs=n).settling_epoch for n in (10, 8, 2)]
            [6, 5, 2]
        """
        return math.ceil((1 - self.clean_fraction) * self.epochs - 1e-9)

    def is_clean(self, epoch: int) -> bool:
        """Whether images are not augmented in an epoch."""
        return epoch >= self.settling_epoch

    def learning_rate(self, progress: float) -> float:
        """The learning rate after a fraction of all steps, from 0 to below 1.

        Examples:
            >>> schedule = ScheduleSettings(lr=1.0, clean_fraction=0.4, epochs=20, lr_schedule="cosine")
            >>> progress = (0.0, 0.05, 0.3, 0.599, 0.6, 0.8)
            >>> [round(schedule.learning_rate(part), 2) for part in progress]
            [0.0, 0.98, 0.5, 0.0, 1.0, 0.5]
        """
        restart = self.settling_epoch / self.epochs
        phase = progress / restart if progress < restart else (progress - restart) / (1.0 - restart)
        if self.lr_schedule == "step":
            return self.lr * 0.1 ** math.floor(3 * phase)
        fall = 1 - progress if self.lr_schedule == "linear" else 0.5 * (1 + math.cos(math.pi * phase))
        return self.lr * min(1.0, progress / _WARM_UP) * fall


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationSettings(Group):
    """What is measured, and how classes are predicted."""

    adjust: float | Literal["fit"] = usual()
    """Logit adjustment: score - lambda log(class share); fit tunes lambda on validation images (default: fit if there
    are any, else 0)."""
    probe: bool = usual(False)
    """Predict with a balanced linear probe on the features before the head, fitted after training; for classes of a few
    images whose features have settled onto the frame."""
    measure_every: int | None = usual(None)
    """Measure the geometry every N epochs (default: about 40 measurements in all)."""

    def check(self) -> None:
        super().check()
        if self.adjust is not AUTO and self.adjust != "fit":
            check_number("adjust", self.adjust, least=0, most=100, advice=("or ", Option("adjust", "fit")))
        if self.probe is True and self.adjust not in (AUTO, 0):
            raise OptionError(Option("probe"), " is balanced already; leave ", Option("adjust"), " out")


@dataclass(frozen=True, kw_only=True, repr=False)
class MachineSettings(Group):
    """What computes, and the seed."""

    precision: Precision = usual("32")
    """Floating-point precision of the encoder; 16-mixed needs a GPU."""
    devices: int = usual(1)
    """Processes that share each batch (CPU cores or GPUs); torchrun and SLURM set their own number."""
    compile: bool = usual(False)
    """Compile the encoder with torch.compile."""
    seed: int = usual(0, least=0)
    """Seed of everything that is random."""

    def check(self) -> None:
        super().check()
        if self.seed is not AUTO and self.seed >= 2**63:
            raise OptionError(Option("seed"), f" must be below 2^63, not {brief(self.seed, 30)}")
