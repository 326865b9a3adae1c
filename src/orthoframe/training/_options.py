"""Options of the command: their names, their types, and what the library says of them."""

import re
from pathlib import Path
from typing import Any

# Words of the library that are not the names of the options.
_OTHER_NAMES: dict[str, str] = {}
_SETTINGS = "features|head|width|model|activation|batch_size|scheme|binding|bound_examples|seed|views|majority|ratio"
_GIVEN = re.compile(rf"\b({_SETTINGS})=[\"']?([\w.-]+)[\"']?")
_NAMED = re.compile(
    r"\b(batch_size|bound_examples)\b|(?:^|(?<=larger )|(?<=another ))(width|model|majority|features|ratio)\b"
)
_MODEL = re.compile(r"the model '(\w+)'")


def flag(name: str) -> str:
    """The option that gives a setting."""
    return "--" + _OTHER_NAMES.get(name, name).replace("_", "-")


def in_options(sentence: str) -> str:
    """A sentence of the library, which speaks of arguments, for the user of a command, who gave options.

    Examples:
        >>> in_options('use features=10 or more, or head="linear"')
        'use --features 10 or more, or --head linear'
        >>> in_options("width must be a multiple of 4")
        '--width must be a multiple of 4'
    """
    sentence = _GIVEN.sub(lambda found: f"{flag(found[1])} {found[2]}", sentence)
    sentence = _NAMED.sub(lambda found: flag(found[0]), sentence)
    return _MODEL.sub(r"--model \1", sentence)


def check_type(name: str, default: Any, value: Any) -> None:
    """Refuse what the command cannot give, but Python or a file can.

    Raises:
        ValueError: If the value is of another type than the setting has.
    """
    if name == "data_dir":
        kind, fits = "a folder", value is None or isinstance(value, str | Path)
    elif isinstance(default, bool):
        kind, fits = "true or false", isinstance(value, bool)
    elif isinstance(default, str):
        kind, fits = "a text", isinstance(value, str)
    elif isinstance(default, float):
        kind, fits = "a number", isinstance(value, int | float) and not isinstance(value, bool)
    else:
        kind, fits = "a whole number", isinstance(value, int) and not isinstance(value, bool)
        fits = fits or (default is None and value is None)
    if not fits:
        raise ValueError(f"{flag(name)} must be {kind}, not {value!r}")
