"""`orthoframe train`: from images to an orthogonal frame."""

from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any, cast

from orthoframe.cli._settings import option, panel, settings_options, typed_options
from orthoframe.cli._terminal import Flag
from orthoframe.errors import Option, OptionError
from orthoframe.options import Goal, Recipe
from orthoframe.training import AUTO, RECIPES, Settings

_FIRST = ("data", "recipe", "goal", "loss", "model", "epochs", "minutes", "seed", "out", "resume")
"""Options that people need first."""
_CHOOSING = ("recipe", "goal", "data", "loss")
"""Options that choose the defaults of others."""
_RUN_OPTIONS = {
    "recipe": option(
        "recipe",
        Recipe,
        f"Which defaults to use: {', '.join(f'{name} ({values.purpose})' for name, values in RECIPES.items())} "
        "(default: accurate for your own images, else quick).",
    ),
    "goal": option(
        "goal",
        Goal,
        "Goal of the recipe accurate: accuracy, or frame, which settles onto the frame at the end and reports what "
        "that costs.",
    ),
    "out": option("out", Path, "The run folder (default: a new one in runs/).", metavar="FOLDER"),
    "resume": option("resume", Path, "Continue the run in this folder, with its own settings.", metavar="FOLDER"),
    "code": option(
        "code",
        Flag,
        "Allow the Python function that a run (of --resume or --init) names as its backbone to be imported and called.",
        False,
    ),
    "tensorboard": option("tensorboard", Flag, "Also write the curves for TensorBoard, to the run folder.", False),
}
"""Options beside those of the groups."""
_NO_SETTINGS = ("out", "resume", "code", "tensorboard")


@dataclass(frozen=True)
class _Command:
    """Train an encoder with the supervised contrastive loss, and say whether its classes form an orthogonal frame.

    Without options: the embedded digits, imbalanced ten to one, a small network, ten seconds. Your own images, in a
    folder with one sub-folder per class, are taken as they are, in any size. A run that was killed or interrupted is
    continued with --resume and ends with the same bytes.

    Exit status: 0 trained, 1 stopped early, 2 bad input. For example:

    orthoframe train

    orthoframe train --data fashion-mnist --model resnet18 --width 16 --epochs 30 --out runs/fashion

    orthoframe train --data folder:photos --minutes 10

    orthoframe train --data folder:photos --backbone efficientnet-lite0

    orthoframe train --recipe paper --ratio 100

    orthoframe train --resume runs/fashion
    """

    def settings(self) -> Settings:
        """The settings that the options describe."""
        return Settings.of(**{name: value for name, value in typed_options(self).items() if name not in _NO_SETTINGS})

    def run(self) -> int:
        """Train or resume; the exit status."""
        from orthoframe.cli._training import run_training

        options = typed_options(self)
        resume, out = options.get("resume"), options.get("out")
        if resume is not None:
            _check_alone(options)
            settings, folder = None, resume
        else:
            settings = self.settings()
            settings.check()
            folder = out or _free_folder(settings)
        return run_training(settings, folder, tensorboard="tensorboard" in options, code="code" in options)


def _check_alone(options: dict[str, Any]) -> None:
    """Refuse options beside a run that is resumed."""
    resume = Option("resume")
    if "out" in options:
        raise OptionError(resume, " names the folder already; leave ", Option("out"), " out")
    others = set(options) - {"resume", "tensorboard", "code"}
    if others - {"epochs"}:
        raise OptionError(resume, " takes the settings from its folder; leave the others out")
    if others:
        why = " keeps the run's number of epochs, because the learning rate depends on it; start a new run with "
        raise OptionError(resume, why, Option("epochs", options["epochs"]), " ", Option("out", "FOLDER"))


def make_command(arguments: Sequence[str]) -> type[_Command]:
    """The command with all options; its help shows the defaults of the recipe that the arguments choose."""
    options, panels = settings_options(_chosen(arguments).usual_options())
    options |= _RUN_OPTIONS
    first = [options[name] for name in _FIRST]
    panels["machine"] += ["code", "tensorboard"]
    rest = [panel(name, [options[each] for each in names if each not in _FIRST]) for name, names in panels.items()]
    command = make_dataclass("TrainCommand", [*first, *rest], bases=(_Command,), frozen=True)
    command.__doc__ = _Command.__doc__
    return cast("type[_Command]", command)


def _chosen(arguments: Sequence[str]) -> Settings:
    """Settings with the defaults that the arguments choose, if they are allowed; all arguments are parsed later."""
    chosen: dict[str, str] = {}
    for word, value in pairwise([*arguments, ""]):
        name, _, attached = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in _CHOOSING:
            chosen[name] = attached or value
    try:
        settings = Settings.of(**chosen)
        settings.check()
    except OptionError:
        return Settings()
    return settings


def _free_folder(settings: Settings) -> Path:
    """A name that says what the run is, with a number if it is taken."""
    images, encoder, objective = settings.images, settings.encoder, settings.objective
    decided = images.with_usual()
    imbalance = [] if decided.imbalance == "none" else [f"{decided.imbalance}{decided.ratio:g}"]
    kind, _, path = images.data.partition(":")
    choices = {name: value for name, value in encoder.asked().items() if value is not None}
    if images.is_own:
        words = [Path(path).expanduser().resolve().stem, *imbalance, choices.get("model", "")]
        words += [Path(choices.get("backbone", "").rpartition(":")[2]).name, objective.name]
        words += [f"from-{Path(choices['init']).resolve().name}"] if "init" in choices else []
    else:
        words = [kind, *(imbalance or ["balanced"]), choices.get("model", "mlp"), choices.get("activation", "relu")]
        words += [] if objective.name == Settings().objective.name else [objective.name]
    seed = 0 if settings.machine.seed is AUTO else settings.machine.seed
    stem = "-".join(word for word in (*words, f"seed{seed}") if word)
    paths = (Path("runs") / (stem if number == 1 else f"{stem}-{number}") for number in count(1))
    return next(path for path in paths if not path.exists())
