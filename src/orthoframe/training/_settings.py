"""Everything that decides a run, in groups; `resolve` decides what the user leaves open."""

import math
import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from orthoframe.errors import Option, OptionError, brief
from orthoframe.options import (
    Activation,
    Binding,
    Goal,
    Head,
    HeadNorm,
    LearningRateSchedule,
    Model,
    Precision,
    Recipe,
    Scheme,
    check_choice,
    check_number,
)
from orthoframe.training._fields import AUTO, BEYOND, Group, Ramp, type_hints, undecided, usual, usual_value
from orthoframe.training._objectives import OBJECTIVES, Objective
from orthoframe.training._recipes import data_of, loss_of, recipe_values
from orthoframe.training._sources import (
    IMAGE_KINDS,
    BenchmarkImages,
    ImageFiles,
    ImageSettings,
    TableImages,
    absolute_path,
    image_kind,
)

_MEASUREMENTS = 40  # in a run, if nothing else is said
_WARM_UP = 0.05  # the fraction of the steps in which the learning rate rises


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
    """What precedes the activation; with none, averages of ReLU maps approach the frame far more slowly (default:
    linear; none for losses of a linear classifier)."""
    head_norm: HeadNorm = usual("none")
    """A BatchNorm between the linear layer and the activation, which spreads the first features."""
    features: int | None = usual()
    """Dimensions of the features, with a linear head (default: those of the encoder; for your own images and the frame
    term at least 128, and two per class)."""
    activation: Activation = usual("relu")
    """Of the features: relu, abs, square and softplus are non-negative; gelu, leaky-relu and none are not."""

    SHAPE: ClassVar = ("model", "width", "head", "head_norm", "activation")
    """Settings that an encoder to start from decides, beside the dimension of its features."""
    OF_HEAD: ClassVar = ("head", "head_norm", "features", "activation")
    """Settings of the frame head."""

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
    """With the scheme weighted: a class has a share of the rows proportional to its size to this power (default: 0.5;
    1 is as often as it is there, 0 every class equally often)."""
    binding: Binding = usual("fixed")
    """What is added to each batch; fixed: the same example of each class."""
    bound_classes: int | None = usual(None)
    """Bind only the first N classes (default: all)."""
    bound_examples: int = usual(1)
    """Examples of each bound class that are added to a batch."""
    batch_size: int = usual(128)
    """Samples per batch, before binding; with the scheme weighted at most, in batches of equal size."""
    views: int = usual(1)
    """Augmented views of each sample in a batch; one while images are not augmented."""

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
    """Peak learning rate of the backbone; 0 freezes it (default: lr; 0 with a backbone of others)."""
    lr_schedule: LearningRateSchedule = usual("cosine")
    """How the learning rate falls: cosine or step (by ten after each third), or linear, which does not restart; a
    warm-up of 5 % comes before cosine and linear."""
    weight_decay: float = usual(5e-4, least=0, below=BEYOND)
    """L2 penalty on the weights."""
    clean_fraction: float = usual(0.4, least=0, below=1)
    """The last fraction of the epochs, in which images are not augmented and the learning-rate schedule restarts."""

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
    """Predict with a balanced linear classifier of the encoder's features before the head, fitted at the end; for
    classes of a few images that have settled onto the frame."""
    measure_every: int | None = usual(None)
    """Epochs between two measurements of the geometry (default: about forty measurements in all)."""

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
    """Decides everything that is random."""

    def check(self) -> None:
        super().check()
        if self.seed is not AUTO and self.seed >= 2**63:
            raise OptionError(Option("seed"), f" must be below 2^63, not {brief(self.seed, 30)}")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run; the same settings give the same bytes.

    What is left open is decided by `resolve`: by the recipe, by what suits the data, or as usual.

    Attributes:
        images: Where images come from, and which are kept.
        encoder: The network and its head.
        objective: What is minimised.
        batches: Which examples meet.
        schedule: How long, and how fast.
        evaluation: What is measured, and how classes are predicted.
        machine: What computes, and the seed.
        recipe: Where values come from that are not given: `quick`, `accurate`, `fast`, `paper`, or `plain` for the
            usual values alone; by default `accurate` for your own images, and `quick` for the benchmark sets.
        goal: Of the recipe `accurate`: `accuracy`, or `frame`, which settles onto the frame at the end.

    Examples:
        >>> settings = Settings.of(data="folder:photos", temperature=0.2)
        >>> settings.objective
        FrameTerm(temperature=TemperatureSchedule(first=0.2, last=0.2))
    """

    images: ImageSettings = AUTO
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    objective: Objective = AUTO
    batches: BatchSettings = field(default_factory=BatchSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    machine: MachineSettings = field(default_factory=MachineSettings)
    recipe: Recipe = AUTO
    goal: Goal = AUTO

    def __post_init__(self) -> None:
        if self.images is AUTO:
            data = data_of(self.recipe)
            object.__setattr__(self, "images", image_kind(data)(data=data))
        if self.recipe is AUTO:
            object.__setattr__(self, "recipe", "accurate" if self.images.is_own else "quick")
        if self.objective is AUTO:
            object.__setattr__(self, "objective", OBJECTIVES[loss_of(self.recipe)]())

    @classmethod
    def of(cls, **options: Any) -> "Settings":
        """Settings from flat options, as the command and `config.json` have them; None leaves an option open.

        Args:
            **options: `data`, which chooses the kind of images; `loss`, which chooses the objective (or `objective`
                itself); and the fields of all groups.

        Raises:
            OptionError: For an option that does not exist, or that another choice excludes.
        """
        options = {name: value for name, value in options.items() if value is not None}
        choices = {name: options.pop(name) for name in ("recipe", "goal", "objective") if name in options}
        if "recipe" in choices:
            check_choice("recipe", choices["recipe"], Recipe)
        data = options.pop("data", AUTO)
        data = data_of(choices.get("recipe", AUTO)) if data is AUTO else data
        images = image_kind(data)(data=data)
        recipe = choices.setdefault("recipe", "accurate" if images.is_own else "quick")
        loss = options.pop("loss", loss_of(recipe))
        if "objective" not in choices:
            check_choice("loss", loss, OBJECTIVES)
            choices["objective"] = OBJECTIVES[loss]()
        return cls(images=images, **choices).with_options(**options)

    def with_options(self, **options: Any) -> "Settings":
        """The same with other values of some flat options; `data` and `loss` are chosen with `Settings.of`."""
        groups: dict[str, dict[str, Any]] = {name: {} for name in GROUPS}
        for option, value in options.items():
            groups[self._home(option)][option] = value
        changed = {name: replace(getattr(self, name), **values) for name, values in groups.items() if values}
        return replace(self, **changed)

    def _home(self, option: str) -> str:
        """The group that has an option."""
        for name in GROUPS:
            if option in {each.name for each in fields(getattr(self, name))}:
                return name
        losses = [name for name, objective in OBJECTIVES.items() if _has(objective, option)]
        if losses:
            reason = (
                (f"; {self.objective.name} has a linear classifier instead",) if not self.objective.has_head else ()
            )
            raise OptionError(Option(option), " needs ", Option("loss", losses[0]), _or(losses[1:]), *reason)
        if _has(BenchmarkImages, option):
            why = " is for data sets that are downloaded, not for "
            raise OptionError(Option(option), why, Option("data", self.images.data))
        if not _has(ImageFiles, option) and _has(TableImages, option):
            raise OptionError(Option(option), " needs ", Option("data", "csv:FILE"))
        if _has(ImageFiles, option):
            raise OptionError(Option(option), " is for image files, not for ", Option("data", self.images.data))
        raise OptionError(f"there is no setting {option!r}; `orthoframe.training.option_names()` lists them")

    def groups(self) -> list[Group]:
        """All groups."""
        return [getattr(self, name) for name in GROUPS]

    def asked(self) -> dict[str, Any]:
        """What is decided, as flat options."""
        options: dict[str, Any] = {"loss": self.objective.name}
        for group in self.groups():
            options |= group.asked()
        return options

    def usual_options(self) -> dict[str, Any]:
        """What options are where nothing else is said: the recipe's values, and the usual ones."""
        usual_values: dict[str, Any] = {"loss": self.objective.name}
        for classes in option_groups().values():
            for group in classes:
                usual_values |= {each.name: usual_value(group, each.name) for each in fields(group)}
        return {**usual_values, **recipe_values(self), **self.asked()}

    def undecided(self) -> list[str]:
        """Options that are still open; none after `resolve`."""
        return [name for group in self.groups() for name in undecided(group)]

    def check(self) -> None:
        """Refuse values that are not allowed or contradict each other.

        Raises:
            OptionError: With a sentence that names the setting.
        """
        check_choice("recipe", self.recipe, Recipe)
        if self.goal is not AUTO:
            check_choice("goal", self.goal, Goal)
            if self.recipe != "accurate":
                raise OptionError(Option("goal"), " needs ", Option("recipe", "accurate"), "; others end at the frame")
            if not self.objective.has_head:
                raise OptionError(
                    Option("goal"), " needs ", Option("loss", "frame"), ", which has a frame to settle onto"
                )
        for group in self.groups():
            group.check()
        self._check_head()
        self._check_learning()
        if self.images.augment is False and self.batches.views not in (AUTO, 1):
            same = f" without augmentation would be {self.batches.views} times the same image"
            raise OptionError(Option("views", self.batches.views), same)

    def _check_head(self) -> None:
        """A linear classifier has no use for a frame head, nor for another classifier."""
        if self.objective.has_head:
            return
        without = {"head": "none"}
        idle = [(self.encoder, name) for name in EncoderSettings.OF_HEAD] + [(self.evaluation, "probe")]
        for group, name in idle:
            if getattr(group, name) not in (AUTO, None, without.get(name, usual_value(type(group), name))):
                instead = f" or frame; {self.objective.name} has a linear classifier instead"
                raise OptionError(Option(name), " needs ", Option("loss", "supcon"), instead)
        if self.encoder.init not in (AUTO, None):
            why = " starts from an encoder with its head, which ", Option("loss", self.objective.name)
            raise OptionError(Option("init"), *why, " has no use for")

    def _check_learning(self) -> None:
        """Something must learn, and one classifier predicts."""
        backbone_lr = self.schedule.backbone_lr
        if backbone_lr == 0 and self.encoder.head == "none" and self.objective.has_head:
            raise OptionError(Option("backbone_lr", 0), " leaves nothing to train; use ", Option("head", "linear"))
        classifier = self.objective.classifier
        if not self.objective.has_head or classifier is AUTO:
            return
        frozen = backbone_lr == 0 or (self.encoder.backbone not in (AUTO, None) and backbone_lr in (AUTO, None))
        if classifier.largest and frozen:
            learns = " trains the backbone, which is frozen; set "
            raise OptionError(Option("classifier"), learns, Option("backbone_lr"), ", or use ", Option("probe"))
        if self.evaluation.probe is True and classifier.last:
            raise OptionError(Option("probe"), " and ", Option("classifier"), " both predict; leave one of them out")

    def absolute(self) -> "Settings":
        """The same settings with absolute paths."""
        return replace(self, images=self.images.absolute(), encoder=self.encoder.absolute())

    def with_epochs(self, epochs: int) -> "Settings":
        """The same for another number of epochs, which is now decided."""
        return replace(self, schedule=replace(self.schedule, epochs=epochs, minutes=None))

    def views_in(self, epoch: int) -> int:
        """Views of each sample in an epoch: one while images are not augmented."""
        return 1 if self.schedule.is_clean(epoch) else self.batches.views

    def cold_start_remedy(self) -> Option | None:
        """What avoids the plateau at features that are all alike; None if everything known is on."""
        return self.objective.cold_start_remedy(self.encoder.head_norm != "none" or self.encoder.head == "none")

    @property
    def measured_every(self) -> int:
        """Epochs between two measurements of the geometry."""
        return self.evaluation.measure_every or max(1, self.schedule.epochs // _MEASUREMENTS)

    def is_measured(self, epoch: int) -> bool:
        """Whether the geometry is measured after an epoch, counted from 1: also after the first, and before settling.

        Settling begins with the first epoch of images that are not augmented.
        """
        moments = (1, self.schedule.settling_epoch, self.schedule.epochs)
        return epoch in moments or epoch % self.measured_every == 0

    def to_dict(self) -> dict[str, Any]:
        """What is decided, flat and in types that JSON has: a schedule is a number, or a list of first and last."""
        options = self.asked()
        return {name: _json(options[name]) for name in option_names() if name in options} | {
            name: _json(value) for name, value in options.items() if name not in option_names()
        }

    @classmethod
    def from_dict(cls, options: dict[str, Any], objective: Objective | None = None) -> "Settings":
        """The settings that `to_dict` wrote; entries without meaning for this kind of data or loss are ignored.

        Args:
            options: What `config.json` has.
            objective: The objective of a run whose loss came from Python.
        """
        loss = options.get("loss")
        if objective is None and isinstance(loss, str) and loss not in OBJECTIVES:
            raise OptionError(Option("loss", loss), " came from Python; give the objective again")
        start = cls.of(recipe="plain", data=options.get("data"), loss=None if objective else loss, objective=objective)
        kinds = {name: kind for group in start.groups() for name, kind in type_hints(type(group)).items()}
        values = {
            name: value
            for name, value in options.items()
            if name in kinds and name != "data" and (value is not None or type(None) in get_args(kinds[name]))
        }
        for name in ("data_dir", "init"):
            if isinstance(values.get(name), str):
                values[name] = Path(values[name])
        return start.with_options(**values)


GROUPS = ("images", "encoder", "objective", "batches", "schedule", "evaluation", "machine")
"""The attributes of `Settings` that are groups."""


def option_groups() -> dict[str, tuple[type[Group], ...]]:
    """The classes of each group: all kinds of images, and all objectives."""
    return {
        "images": IMAGE_KINDS,
        "encoder": (EncoderSettings,),
        "objective": tuple(OBJECTIVES.values()),
        "batches": (BatchSettings,),
        "schedule": (ScheduleSettings,),
        "evaluation": (EvaluationSettings,),
        "machine": (MachineSettings,),
    }


def option_names() -> list[str]:
    """The names of all flat options, in the order of the groups."""
    names = ["data", "loss"]
    for classes in option_groups().values():
        names += [each.name for group in classes for each in fields(group)]
    return list(dict.fromkeys(names))


def _has(group: type[Group], option: str) -> bool:
    return option in {each.name for each in fields(group)}


def _or(names: list[str]) -> str:
    return "".join(f" or {name}" for name in names)


def _json(value: Any) -> Any:
    if isinstance(value, Ramp):
        return value.to_json()
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
