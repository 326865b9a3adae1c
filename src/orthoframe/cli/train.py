"""`orthoframe train`: from images to an orthogonal frame."""

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from orthoframe.cli._terminal import Flag, Folder
from orthoframe.errors import Option, OptionError
from orthoframe.options import Denominator, Goal, Head, Loss, Recipe
from orthoframe.training import Ramp, Settings, TemperatureSchedule, make_settings


def _parse_schedule(words: list[str], kind: type[Ramp]) -> Ramp:
    """A number, or the first and the last of a schedule; whether they are allowed is checked with all settings."""
    with suppress(ValueError):
        values = [float(part) for part in words[0].split(":")]
        if len(values) <= 2:
            return kind(values[0], values[-1])
    raise ValueError(f"must be a number, or a schedule such as 0.1:0.5, not {words[0]!r}")


def _schedule(kind: type[Ramp], metavar: str) -> Any:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=partial(_parse_schedule, kind=kind),
        is_instance=lambda value: isinstance(value, kind),
        str_from_instance=lambda ramp: [f"{ramp.first:g}" if ramp.constant else f"{ramp.first:g}:{ramp.last:g}"],
    )


def _parse_size(words: list[str]) -> tuple[int, int]:
    """`64` for a square, or `48x64` for height and width."""
    with suppress(ValueError):
        sides = [int(part) for part in words[0].lower().split("x")]
        if len(sides) <= 2:
            return sides[0], sides[-1]
    raise ValueError(f"must be a number of pixels, or height and width such as 48x64, not {words[0]!r}")


_SIZE = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="N|HxW",
    instance_from_str=_parse_size,
    is_instance=lambda value: value is None or isinstance(value, tuple),
    str_from_instance=lambda size: ["None" if size is None else f"{size[0]}x{size[1]}"],
)


def _parse_adjust(words: list[str]) -> float | Literal["fit"]:
    """`fit`, or a number; whether that is allowed is checked with all settings."""
    if words[0] == "fit":
        return "fit"
    with suppress(ValueError):
        return float(words[0])
    raise ValueError(f"must be fit, or a number such as 0.25, not {words[0]!r}")


_ADJUST = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="fit|LAMBDA",
    instance_from_str=_parse_adjust,
    is_instance=lambda value: value is None or value == "fit" or isinstance(value, float | int),
    str_from_instance=lambda value: [str(value)],
)


@dataclass(frozen=True)
class TrainCommand(Settings):
    """Train an encoder with the supervised contrastive loss, and say whether its classes form an orthogonal frame.

    Without options: the embedded digits, imbalanced ten to one, a small network, ten seconds. Your own images,
    in a folder with one sub-folder per class, are taken as they are, in any size. A run that was
    killed or interrupted is continued with --resume and ends with the same bytes. Exit status: 0 trained, 1 stopped
    early, 2 bad input. For example:

    orthoframe train

    orthoframe train --data fashion-mnist --model resnet18 --width 16 --epochs 30 --out runs/fashion

    orthoframe train --data folder:photos --minutes 10

    orthoframe train --recipe paper --ratio 100

    orthoframe train --resume runs/fashion
    """

    temperature: Annotated[TemperatureSchedule, _schedule(TemperatureSchedule, "TAU[:TAU]")] = Settings.temperature
    """Temperature of the loss: a number, or the first and the last of a schedule, such as 0.1:0.5."""
    margin: Annotated[Ramp, _schedule(Ramp, "M[:M]")] = Settings.margin
    """Taken off the cosines of the own class, which leads faster to the same frame; it may rise, such as 0:0.5."""
    supcon: Annotated[Ramp, _schedule(Ramp, "WEIGHT[:WEIGHT]")] = Settings.supcon
    """Weight of a contrastive part beside the frame term of --loss frame; it may rise, such as 0:0.3."""
    classifier: Annotated[Ramp, _schedule(Ramp, "WEIGHT[:WEIGHT]")] = Settings.classifier
    """Weight of a linear classifier (balanced softmax) on the features before the head, beside the loss: with it the
    network learns faster. It predicts, unless its weight ends at zero, such as 1:0."""
    adjust: Annotated[float | Literal["fit"] | None, _ADJUST] = Settings.adjust
    """What is taken off the score of a class, times the logarithm of its share of the training images, or of the rows
    that a linear classifier was shown (default: fit, if there are validation images, on which it is fitted; else 0)."""
    size: Annotated[tuple[int, int] | None, _SIZE] = None
    """Height and width that image files get, 64 or 48x64 (default: chosen from them, and printed)."""
    recipe: Recipe | None = None
    """Which defaults to use: quick, accurate (the most accurate classes), fast (the fewest epochs to the frame) or
    paper (as published; needs a GPU). Default: accurate for your own images, else quick."""
    goal: Goal | None = None
    """Of the recipe accurate: accuracy, or frame, which settles onto the frame at the end and says what that cost."""
    out: Folder = None
    """The run folder (default: a new one in runs/)."""
    resume: Folder = None
    """Continue the run in this folder, with its own settings."""
    code: Flag = False
    """Allow the Python function that a run (of --resume or --init) names as its backbone to be imported and called."""
    tensorboard: Flag = False
    """Also write the curves for TensorBoard, to the run folder."""

    @classmethod
    def defaults(
        cls,
        recipe: Recipe | None = None,
        goal: Goal | None = None,
        data: str | None = None,
        loss: Loss | None = None,
        init: Path | None = None,
        backbone: str | None = None,
        minutes: float | None = None,
        head: Head | None = None,
        denominator: Denominator | None = None,
        probe: Flag = False,
        backbone_lr: float | None = None,
    ) -> "TrainCommand":
        """The defaults of all options, as the recipe gives them; what else was given may exclude some."""
        every: dict[str, Any] = {"data": data, "loss": loss, "init": init, "backbone": backbone, "minutes": minutes}
        every |= {"head": head, "denominator": denominator, "probe": probe or None, "backbone_lr": backbone_lr}
        chosen = make_settings(recipe, goal, **{name: value for name, value in every.items() if value is not None})
        return cls(recipe=recipe, goal=goal, **{field.name: getattr(chosen, field.name) for field in fields(chosen)})

    def run(self) -> int:
        """Train or resume; the exit status."""
        from orthoframe.cli._training import run_training

        settings = Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})
        if self.resume is not None:
            self._check_alone(settings)
            return run_training(None, self.resume, self.tensorboard, self.code)
        settings.check()
        return run_training(settings, self.out or _free_folder(settings), self.tensorboard, self.code)

    def _check_alone(self, settings: Settings) -> None:
        resume = Option("resume")
        if self.out is not None:
            raise OptionError(resume, " names the folder already; leave ", Option("out"), " out")
        usual = make_settings()
        if self.recipe is not None or self.goal is not None or replace(settings, epochs=usual.epochs) != usual:
            raise OptionError(resume, " takes the settings from its folder; leave the others out")
        if settings.epochs != usual.epochs:
            why = " keeps the run's number of epochs, because the learning rate depends on it; start a new run with "
            raise OptionError(resume, why, Option("epochs", settings.epochs), " ", Option("out", "FOLDER"))


def _free_folder(settings: Settings) -> Path:
    """A name that says what the run is, with a number if it is taken."""
    kind, _, path = settings.data.partition(":")
    if path:  # of the user's own
        words = [Path(path).expanduser().resolve().stem]
        words += [] if settings.imbalance in (None, "none") else [f"{settings.imbalance}{settings.ratio:g}"]
        words += [settings.model or "", Path((settings.backbone or "").partition(":")[2]).name, settings.loss]
        words += [] if settings.init is None else [f"from-{Path(settings.init).resolve().name}"]
    else:
        made = settings.imbalance or "step"
        words = [kind, "balanced" if made == "none" else f"{made}{settings.ratio:g}"]
        words += [settings.model or "mlp", settings.activation]
        words += [] if settings.loss == "supcon" else [settings.loss]
    stem = "-".join(word for word in (*words, f"seed{settings.seed}") if word)
    paths = (Path("runs") / (stem if number == 1 else f"{stem}-{number}") for number in count(1))
    return next(path for path in paths if not path.exists())
