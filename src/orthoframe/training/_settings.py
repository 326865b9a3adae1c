"""Everything that decides a run, in groups; `resolve` decides what the user leaves open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from orthoframe.errors import Option, OptionError
from orthoframe.options import Goal, Recipe, check_choice
from orthoframe.training._fields import AUTO, Group, Ramp, names_of, type_hints, usual_value
from orthoframe.training._groups import (
    BatchSettings,
    EncoderSettings,
    EvaluationSettings,
    MachineSettings,
    ScheduleSettings,
)
from orthoframe.training._images import IMAGE_KINDS, ImageSettings, image_kind
from orthoframe.training._objectives import OBJECTIVES, Objective
from orthoframe.training._recipes import RECIPES, data_of, recipe_values


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
        recipe: Where values come from that are not given, see `RECIPES`; by default `accurate` for your own images, and
            `quick` for the benchmark sets.
        goal: Of the recipe `accurate`: `accuracy`, or `frame`, which settles onto the frame at the end; others have
            None.

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
    goal: Goal | None = AUTO

    def __post_init__(self) -> None:
        if self.recipe is not AUTO:
            check_choice("recipe", self.recipe, RECIPES)
        if self.images is AUTO:
            data = data_of(self.recipe)
            object.__setattr__(self, "images", image_kind(data)(data=data))
        if self.recipe is AUTO:
            object.__setattr__(self, "recipe", "accurate" if self.images.is_own else "quick")
        if self.objective is AUTO:
            object.__setattr__(self, "objective", OBJECTIVES[RECIPES[self.recipe].loss]())

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
        choices: dict[str, Any] = {
            name: options.pop(name) for name in ("recipe", "goal", "objective") if name in options
        }
        if "data" in options:
            choices["images"] = image_kind(options["data"])(data=options.pop("data"))
        if "loss" in options and "objective" not in choices:
            check_choice("loss", options["loss"], OBJECTIVES)
            choices["objective"] = OBJECTIVES[options["loss"]]()
        options.pop("loss", None)
        return cls(**choices).with_options(**options)

    def with_options(self, **options: Any) -> "Settings":
        """The same with other values of some flat options; `data` and `loss` are chosen with `Settings.of`."""
        groups = self.groups()
        for option in options:
            if not any(option in names_of(group) for group in groups.values()):
                raise self._misplaced(option)
        changed = {name: replace(group, **_options_of(options, group)) for name, group in groups.items()}
        return replace(self, **changed)

    def _misplaced(self, option: str) -> OptionError:
        """What to say of an option that none of these groups has."""
        losses = [name for name, objective in OBJECTIVES.items() if option in names_of(objective)]
        if losses:
            return self._needs_one_of(option, losses)
        for kind in IMAGE_KINDS:
            if option in names_of(kind):
                return OptionError(Option(option), " needs ", *kind.examples)
        return OptionError(f"there is no setting {option!r}; `orthoframe.training.option_names()` lists them")

    def _needs_one_of(self, option: str, losses: Sequence[str]) -> OptionError:
        """What to say of an option that only other losses have."""
        others = "".join(f" or {name}" for name in losses[1:])
        why = "" if self.objective.has_head else f"; {self.objective.name} has a linear classifier instead"
        return OptionError(Option(option), " needs ", Option("loss", losses[0]), others, why)

    def groups(self) -> dict[str, Any]:
        """All groups by name."""
        return {name: getattr(self, name) for name in option_groups()}

    def asked(self) -> dict[str, Any]:
        """What is decided, as flat options."""
        options = {**self.images.asked(), "loss": self.objective.name}
        for group in self.groups().values():
            options |= group.asked()
        return options

    def filled(self, values: Mapping[str, Any]) -> "Settings":
        """The same, with these values of flat options where nothing is decided."""
        return replace(self, **{name: group.filled(values) for name, group in self.groups().items()})

    def usual_options(self) -> dict[str, Any]:
        """What options are where nothing else is said: the recipe's values, and the usual ones."""
        usual_values: dict[str, Any] = {"loss": self.objective.name}
        for classes in option_groups().values():
            for group in classes:
                usual_values |= {name: usual_value(group, name) for name in names_of(group)}
        return {**usual_values, **recipe_values(self), **self.asked()}

    def undecided(self) -> list[str]:
        """Options that are still open; none after `resolve`."""
        return [name for group in self.groups().values() for name in group.undecided()]

    def check(self) -> None:
        """Refuse values that are not allowed or contradict each other.

        Raises:
            OptionError: With a sentence that names the setting.
        """
        if self.goal not in (AUTO, None):
            check_choice("goal", self.goal, Goal)
            if self.recipe != "accurate":
                raise OptionError(Option("goal"), " needs ", Option("recipe", "accurate"), "; others end at the frame")
            if not self.objective.has_head:
                frame = ", which has a frame to settle onto"
                raise OptionError(Option("goal"), " needs ", Option("loss", "frame"), frame)
        for group in self.groups().values():
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
        idle = {"head": "none", "head_norm": "none", "features": None, "activation": "relu", "probe": False}
        options = self.asked()
        for name, value in idle.items():
            if options.get(name, value) not in (None, value):
                losses = [loss for loss, objective in OBJECTIVES.items() if objective.has_head]
                raise self._needs_one_of(name, losses)
        if self.encoder.init not in (AUTO, None):
            why = " starts from an encoder with its head, which ", Option("loss", self.objective.name)
            raise OptionError(Option("init"), *why, " has no use for")

    @property
    def has_frozen_backbone(self) -> bool:
        """Whether a network of others stays as it is, as it does without a learning rate of its own."""
        return self.encoder.backbone not in (AUTO, None) and self.schedule.backbone_lr in (AUTO, None, 0)

    def _check_learning(self) -> None:
        """Something must learn, and one classifier predicts."""
        if self.schedule.backbone_lr == 0 and self.encoder.head == "none" and self.objective.has_head:
            raise OptionError(Option("backbone_lr", 0), " leaves nothing to train; use ", Option("head", "linear"))
        classifier = self.objective.classifier
        if not self.objective.has_head or classifier is AUTO:
            return
        if classifier.largest and (self.schedule.backbone_lr == 0 or self.has_frozen_backbone):
            learns = " trains the backbone, which is frozen; set "
            raise OptionError(Option("classifier"), learns, Option("backbone_lr"), ", or use ", Option("probe"))
        if self.evaluation.probe is True and classifier.last:
            raise OptionError(Option("probe"), " and ", Option("classifier"), " both predict; leave one of them out")

    def absolute(self) -> "Settings":
        """The same settings with absolute paths."""
        return replace(self, **{name: group.absolute() for name, group in self.groups().items()})

    def measured(self, every: int) -> "Settings":
        """The same with another number of epochs between two measurements."""
        return replace(self, evaluation=replace(self.evaluation, measure_every=every))

    def with_steps(self, steps: int) -> "Settings":
        """The same with the steps of one more epoch, which are now decided."""
        decided = self.schedule.steps or ()
        return replace(self, schedule=replace(self.schedule, steps=(*decided, steps)))

    def views_in(self, epoch: int) -> int:
        """Views of each sample in an epoch: one while images are not augmented."""
        return 1 if self.schedule.is_clean(epoch) else self.batches.views

    def cold_start_remedy(self) -> Option | None:
        """What avoids the plateau at identical features; None if everything known is on."""
        return self.objective.cold_start_remedy(self.encoder.head_norm != "none" or self.encoder.head == "none")

    @property
    def is_for_accuracy(self) -> bool:
        """Whether accuracy is what is asked for: of your own images, unless the run settles onto the frame."""
        return self.images.is_own and (self.objective.classifies or self.schedule.clean_fraction == 0)

    def is_measured(self, epoch: int) -> bool:
        """Whether the geometry is measured after an epoch, counted from 1: also after the first, and before settling.

        Settling begins with the first epoch of images that are not augmented.
        """
        moments = (1, self.schedule.settling_epoch, self.schedule.epochs)
        return epoch in moments or epoch % self.evaluation.measure_every == 0

    def to_dict(self) -> dict[str, Any]:
        """What is decided, flat and in types that JSON has: a schedule is a number, or a list of first and last."""
        return {name: _json(value) for name, value in self.asked().items()}

    @classmethod
    def from_dict(cls, options: dict[str, Any], objective: Objective | None = None) -> "Settings":
        """The settings that `to_dict` wrote; entries without meaning for this kind of data or loss are ignored.

        Args:
            options: What `config.json` has.
            objective: The objective of a run whose loss came from Python.

        Raises:
            OptionError: For settings that are not allowed.
        """
        loss = options.get("loss")
        if objective is None and isinstance(loss, str) and loss not in OBJECTIVES:
            raise OptionError(Option("loss", loss), " came from Python; give the objective again")
        start = cls.of(recipe="plain", data=options.get("data"), loss=None if objective else loss, objective=objective)
        kinds = {name: kind for group in start.groups().values() for name, kind in type_hints(type(group)).items()}
        values = {
            name: value
            for name, value in options.items()
            if name in kinds and name != "data" and (value is not None or type(None) in get_args(kinds[name]))
        }
        settings = start.with_options(**values)
        settings.check()
        return settings


def option_groups() -> dict[str, tuple[type[Group], ...]]:
    """The classes of each group by the attribute of `Settings`: all kinds of images, and all objectives."""
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
        names += [name for group in classes for name in names_of(group)]
    return list(dict.fromkeys(names))


def _options_of(options: Mapping[str, Any], group: Group) -> dict[str, Any]:
    """The options that a group has."""
    return {name: options[name] for name in names_of(group) if name in options}


def _json(value: Any) -> Any:
    if isinstance(value, Ramp):
        return value.to_json()
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
