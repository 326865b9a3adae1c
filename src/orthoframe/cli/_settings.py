"""The options of a run, in panels: they, their types and their help are those of the settings."""

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, make_dataclass
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro

from orthoframe.training import AUTO, OBJECTIVES, Group, Ramp, Settings, option_groups, type_hints

OptionField = tuple[str, Any, Any]
"""Name, type and default, as `make_dataclass` takes them."""

_ABOUT = {
    "images": "Where images come from, which are kept, and how they are augmented.",
    "encoder": "The network and its head.",
    "objective": "What is minimised; some losses lack some of these.",
    "batches": "Which examples meet.",
    "schedule": "How long, and how fast.",
    "evaluation": "What is measured, and how classes are predicted.",
    "machine": "What computes.",
}
_LOSS_HELP = (
    "What is minimised: the supervised contrastive loss (supcon), or the frame term (frame), which starts faster; "
    "cross-entropy and balanced-softmax train an ordinary linear classifier on ordinary features, and predict with it."
)


def settings_options(usual: Mapping[str, Any]) -> tuple[dict[str, OptionField], dict[str, list[str]]]:
    """All options of `Settings.of` that describe a run.

    Args:
        usual: What the help shows as their defaults.

    Returns:
        Options by name, and the names in each panel.
    """
    losses = Literal[tuple(OBJECTIVES)]  # type: ignore[valid-type]
    options = {"loss": option("loss", losses, _LOSS_HELP, usual["loss"])}
    panels: dict[str, list[str]] = {}
    for name, classes in option_groups().items():
        panels[name] = []
        for group in classes:
            texts, kinds = _help_texts(group), type_hints(group)
            for each in fields(group):
                if each.name not in options:
                    options[each.name] = option(each.name, kinds[each.name], texts[each.name], usual[each.name])
                    panels[name].append(each.name)
    return options, panels


def panel(name: str, options: Sequence[OptionField]) -> OptionField:
    """Options in a box of their own; they keep their flat names."""
    kind = make_dataclass(name, options, frozen=True)
    kind.__doc__ = _ABOUT[name]
    flat: Any = tyro.conf.OmitArgPrefixes
    return name, flat[kind], field(default_factory=kind)


def given_options(command: Any) -> dict[str, Any]:
    """Options that were given on the command line, by name: those that differ from what they are without it."""
    options: dict[str, Any] = {}
    for each in fields(command):
        value = getattr(command, each.name)
        if hasattr(value, "__dataclass_fields__") and not isinstance(value, Ramp):
            options |= given_options(value)
        elif value != each.default:
            options[each.name] = value
    return options


def option(name: str, kind: Any, text: str, usual: Any = None) -> OptionField:
    """An option: None unless it is given, so that `resolve` decides; a flag has its usual value.

    Args:
        name: What it is called in Python.
        kind: Its type.
        text: Its help.
        usual: What it is where nothing else is said.
    """
    if isinstance(usual, bool):
        return name, Annotated[kind, tyro.conf.arg(help=text, help_behavior_hint="")], usual
    shown = "" if "(default" in text or usual is AUTO or usual is None else f"(default: {_shown(usual)})"
    about = tyro.conf.arg(help=text, help_behavior_hint=shown)
    constructor = _constructor(name, kind)
    if constructor is not None:
        return name, Annotated[Any, constructor, about], None
    return name, Annotated[kind | None, about], None


def _shown(value: Any) -> str:
    if isinstance(value, Ramp):
        return f"{value.first:g}" if value.constant else f"{value.first:g}:{value.last:g}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _constructor(name: str, kind: Any) -> Any:
    """How the words of a user become a value, where tyro would not do it as it should be."""
    kinds = [each for each in get_args(kind) if each is not type(None)] if get_origin(kind) is not Literal else [kind]
    if isinstance(kind, type) and issubclass(kind, Ramp):
        metavar = "TAU[:TAU]" if name == "temperature" else "M[:M]" if name == "margin" else "WEIGHT[:WEIGHT]"
        return _spec(metavar, partial(_parse_ramp, kind=kind))
    if name == "size":
        return _spec("N|HxW", _parse_size)
    if name == "adjust":
        return _spec("fit|LAMBDA", _parse_adjust)
    if kinds and get_origin(kinds[0]) is Literal:
        choices = tuple(map(str, get_args(kinds[0])))
        return _spec(f"{{{','.join(choices)}}}", lambda words: words[0], choices)
    return None


def _spec(metavar: str, parse: Any, choices: tuple[str, ...] | None = None) -> Any:
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=parse,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [str(value)],
        choices=choices,
    )


def _parse_ramp(words: list[str], kind: type[Ramp]) -> Ramp:
    """A number, or the first and the last of a schedule; whether they are allowed is checked with all settings."""
    with suppress(ValueError):
        values = [float(part) for part in words[0].split(":")]
        if len(values) <= 2:
            return kind(values[0], values[-1])
    raise ValueError(f"must be a number, or a schedule such as 0.1:0.5, not {words[0]!r}")


def _parse_size(words: list[str]) -> tuple[int, int]:
    """`64` for a square, or `48x64` for height and width."""
    with suppress(ValueError):
        sides = [int(part) for part in words[0].lower().split("x")]
        if len(sides) <= 2:
            return sides[0], sides[-1]
    raise ValueError(f"must be a number of pixels, or height and width such as 48x64, not {words[0]!r}")


def _parse_adjust(words: list[str]) -> float | Literal["fit"]:
    """`fit`, or a number; whether that is allowed is checked with all settings."""
    if words[0] == "fit":
        return "fit"
    with suppress(ValueError):
        return float(words[0])
    raise ValueError(f"must be fit, or a number such as 0.25, not {words[0]!r}")


def _help_texts(group: type[Group]) -> dict[str, str]:
    """The text below each field of a group, in its source."""
    texts: dict[str, str] = {}
    for base in reversed(group.__mro__):
        if base is Group or not issubclass(base, Group):
            continue
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        statements = definition.body
        for statement, below in pairwise(statements):
            documented = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and documented:
                texts[statement.target.id] = " ".join(str(below.value.value).split())  # type: ignore[attr-defined]
    return texts


def usual_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each option where nothing else is said, for the help: of the recipe, or the usual one."""
    return Settings.of(**given).usual_options()
