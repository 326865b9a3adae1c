"""The options of a run, in panels: they, their types and their help are those of the settings."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, is_dataclass, make_dataclass
from typing import Annotated, Any, Literal, Optional, TypeVar, get_args, get_origin

import tyro

from orthoframe.cli._terminal import help_texts
from orthoframe.options import DATA_KINDS
from orthoframe.training import AUTO, OBJECTIVES, Ramp, option_groups, type_hints

_N = TypeVar("_N")
OptionField = tuple[str, Any, Any]
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


def settings_options(usual: Mapping[str, Any]) -> tuple[dict[str, OptionField], dict[str, list[str]]]:
    """All options of `Settings.of` that describe a run, by name, and the names in each panel; `usual` has defaults."""
    losses = Literal[tuple(OBJECTIVES)]  # type: ignore[valid-type]
    options = {"loss": option("loss", losses, _LOSS_HELP, usual["loss"])}
    panels: dict[str, list[str]] = {}
    for name, classes in option_groups().items():
        panels[name] = []
        for group in classes:
            texts, kinds = help_texts(group), type_hints(group)
            for each in fields(group):
                if each.name not in options:
                    options[each.name] = option(each.name, kinds[each.name], texts[each.name], usual[each.name])
                    panels[name].append(each.name)
    return options, panels


def panel(name: str, options: Sequence[OptionField]) -> OptionField:
    """Options in a box of their own; they keep their flat names."""
    title, about = _PANELS[name]
    kind = make_dataclass(title, options, frozen=True)
    kind.__doc__ = about
    flat: Any = tyro.conf.OmitArgPrefixes
    return name, Annotated[flat[kind], tyro.conf.arg(name=title)], field(default_factory=kind)


def typed_options(command: Any) -> dict[str, Any]:
    """Options of the command line by name: those that differ from what they are without it."""
    options: dict[str, Any] = {}
    for each in fields(command):
        value = getattr(command, each.name)
        if is_dataclass(value) and not isinstance(value, Ramp):
            options |= typed_options(value)
        elif value != each.default:
            options[each.name] = value
    return options


def option(name: str, kind: Any, text: str, usual: Any = None, metavar: str | None = None) -> OptionField:
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
        return _spec("|".join(name for name in names if name != "dataset"), str)
    if name == "size":
        rule = "a number of pixels, or height and width such as 48x64"
        return _spec("N|HxW", lambda word: _one_or_two(word.lower(), "x", int), rule)
    if name == "steps":
        return _spec("N", int, "a whole number, such as 2000")
    if name == "adjust":
        return _spec("fit|LAMBDA", lambda word: word if word == "fit" else float(word), "fit, or a number such as 0.25")
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Literal:
            return _spec(f"{{{','.join(get_args(each))}}}", str, choices=get_args(each))
    return None


def _spec(metavar: str, parse: Callable[[str], Any], rule: str = "", choices: tuple[str, ...] | None = None) -> Any:
    def parsed(words: list[str]) -> Any:
        with suppress(ValueError):
            return parse(words[0])
        raise ValueError(f"must be {rule}, not {words[0]!r}")

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
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
