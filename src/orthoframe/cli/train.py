"""`orthoframe train`: from images to an orthogonal frame."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypeVar, cast, get_args, get_origin

import tyro

from orthoframe.cli._terminal import Flag, help_texts
from orthoframe.errors import Option, OptionError
from orthoframe.options import DATA_KINDS, Goal, Recipe
from orthoframe.training import AUTO, OBJECTIVES, RECIPES, Ramp, Settings, option_groups, type_hints

_N = TypeVar("_N")
_Field = tuple[str, Any, Any]
"""Name, type and default, as `make_dataclass` takes them."""

_PANELS = {
    "images": ("image", "Where images come from, which are kept, and how they are augmented."),
    "encoder": ("encoder", "The network and its head."),
    "objective": ("loss", "What is minimised; some losses have only some of these options."),
    "batches": ("batch", "Which examples meet in a batch."),
    "schedule": ("schedule", "How long training lasts, and how fast it is."),
    "evaluation": ("evaluation", "What is measured, and how classes are predicted."),
    "machine": ("machine", "What computes, and how exactly."),
}
"""Titles and descriptions of the groups of settings."""
_RAMPS = {"temperature": "TAU[:TAU]", "margin": "M[:M]"}
_LOSS_HELP = (
    "What is minimised: the supervised contrastive loss (supcon), or the frame term (frame), which starts faster; "
    "cross-entropy and balanced-softmax train an ordinary linear classifier on ordinary features, and predict with it."
)
_FIRST = ("data", "recipe", "goal", "loss", "model", "epochs", "minutes", "seed", "out", "resume")
"""Options that people need first."""
_CHOOSING = ("recipe", "goal", "data", "loss")
"""Options that choose the defaults of others."""


def _option(name: str, kind: Any, text: str, usual: Any = None, metavar: str | None = None) -> _Field:
    """An option: None unless it is on the command line, so that `resolve` decides; a flag has its usual value."""
    needs_hint = "(default" not in text and usual is not AUTO and usual is not None and usual is not False
    hint = f"(default: {_shown(usual)})" if needs_hint else ""
    about = tyro.conf.arg(help=text, help_behavior_hint=hint, metavar=metavar)
    if isinstance(usual, bool):
        return name, Annotated[kind, about], usual
    parser = _parser(name, kind)
    # Not `kind | None`, for which tyro loads typeguard: a third of the time of the help.
    return name, Annotated[Optional[kind], about] if parser is None else Annotated[object, parser, about], None  # noqa: UP045


def _shown(value: Any) -> str:
    if isinstance(value, Ramp):
        return f"{value.first:g}" if value.constant else f"{value.first:g}:{value.last:g}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parser(name: str, kind: Any) -> Any:
    """How the word of a user becomes a value, where tyro has no way of its own, or names None among the choices.

    Whether the value is allowed is checked with all settings.
    """
    if isinstance(kind, type) and issubclass(kind, Ramp):
        rule = "a number, or a schedule such as 0.1:0.5"
        return _spec(_RAMPS.get(name, "WEIGHT[:WEIGHT]"), lambda word: kind(*_one_or_two(word, ":", float)), rule)
    if name == "data":
        names = (f"{kind}:{entry.path}" if entry.path else kind for kind, entry in DATA_KINDS.items())
        return _spec(f"{{{','.join(name for name in names if name != 'dataset')}}}", str)
    if name == "size":
        rule = "a number of pixels, or height and width such as 48x64"
        return _spec("N|HxW", lambda word: _one_or_two(word.lower(), "x", int), rule)
    if name == "steps":
        return _spec("N", int, "a whole number, such as 2000")
    if name == "adjust":
        return _spec("fit|LAMBDA", lambda word: word if word == "fit" else float(word), "fit, or a number such as 0.25")
    if kind is bool:  # a flag whose value the data decides
        return _spec("[yes|no]", {"": True, "yes": True, "no": False}.__getitem__, "yes or no", nargs=(0, 1))
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Literal:
            return _spec(f"{{{','.join(get_args(each))}}}", str, choices=get_args(each))
    return None


def _spec(
    metavar: str,
    parse: Callable[[str], Any],
    rule: str = "",
    choices: tuple[str, ...] | None = None,
    nargs: int | tuple[int, ...] = 1,
) -> Any:
    def parsed(words: list[str]) -> Any:
        with suppress(ValueError, KeyError):
            return parse("".join(words))
        raise ValueError(f"must be {rule}, not {''.join(words)!r}")

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=nargs,
        metavar=metavar,
        instance_from_str=parsed,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
        choices=choices,
    )


def _one_or_two(word: str, between: str, number: Callable[[str], _N]) -> tuple[_N, _N]:
    """Two numbers, such as `48x64`, or twice the same one."""
    values = [number(part) for part in word.split(between)]
    if len(values) > 2:
        raise ValueError("there are more than two")
    return values[0], values[-1]


_RUN_OPTIONS = {
    "recipe": _option(
        "recipe",
        Recipe,
        f"Which defaults to use: {', '.join(f'{name} ({values.purpose})' for name, values in RECIPES.items())} "
        "(default: accurate for your own images, else quick).",
    ),
    "goal": _option(
        "goal",
        Goal,
        "Goal of the recipe accurate: accuracy, or frame, which settles onto the frame at the end and reports what "
        "that costs.",
    ),
    "out": _option("out", Path, "The run folder (default: a new one in runs/).", metavar="FOLDER"),
    "resume": _option("resume", Path, "Continue the run in this folder, with its own settings.", metavar="FOLDER"),
    "code": _option(
        "code",
        Flag,
        "Allow the Python function that a run (of --resume or --init) names as its backbone to be imported and called.",
        False,
    ),
    "tensorboard": _option("tensorboard", Flag, "Also write the curves for TensorBoard, to the run folder.", False),
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
        return Settings.of(**{name: value for name, value in _typed_options(self).items() if name not in _NO_SETTINGS})

    def run(self) -> int:
        """Train or resume; the exit status."""
        from orthoframe.cli._training import run_training

        options = _typed_options(self)
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
    options, panels = _settings_options(_chosen(arguments).usual_options())
    options |= _RUN_OPTIONS
    first = [options[name] for name in _FIRST]
    panels["machine"] += ["code", "tensorboard"]
    rest = [_panel(name, [options[each] for each in names if each not in _FIRST]) for name, names in panels.items()]
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


def _settings_options(usual: Mapping[str, Any]) -> tuple[dict[str, _Field], dict[str, list[str]]]:
    """All options of `Settings.of` that describe a run, by name, and the names in each panel; `usual` has defaults."""
    losses = Literal[tuple(OBJECTIVES)]  # type: ignore[valid-type]
    options = {"loss": _option("loss", losses, _LOSS_HELP, usual["loss"])}
    panels: dict[str, list[str]] = {}
    for name, classes in option_groups().items():
        panels[name] = []
        for group in classes:
            texts, kinds = help_texts(group), type_hints(group)
            for each in fields(group):
                if each.name not in options:
                    options[each.name] = _option(each.name, kinds[each.name], texts[each.name], usual[each.name])
                    panels[name].append(each.name)
    return options, panels


def _panel(name: str, options: Sequence[_Field]) -> _Field:
    """Options in a box of their own; they keep their flat names."""
    title, about = _PANELS[name]
    kind = make_dataclass(title, options, frozen=True)
    kind.__doc__ = about
    flat: Any = tyro.conf.OmitArgPrefixes
    return name, Annotated[flat[kind], tyro.conf.arg(name=title)], field(default_factory=kind)


def _typed_options(command: Any) -> dict[str, Any]:
    """Options of the command line by name: those that differ from what they are without it."""
    options: dict[str, Any] = {}
    for each in fields(command):
        value = getattr(command, each.name)
        if is_dataclass(value) and not isinstance(value, Ramp):
            options |= _typed_options(value)
        elif value != each.default:
            options[each.name] = value
    return options
