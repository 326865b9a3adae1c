"""Files of a run, looked into field by field: what is wrong is said with its file and place."""

import json
import math
from pathlib import Path
from typing import Any

from orthoframe.errors import InputError


def read_text(path: Path, hint: str) -> str:
    """The text of a file; `hint` says what the file is for where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: No such file; {hint}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text in UTF-8 ({error.reason} at byte {error.start})") from None


def parse_object(text: str, where: str) -> dict[str, Any]:
    """A JSON object; what is no finite number in it becomes None."""
    try:
        found = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from None
    return as_object(found, where)


def as_object(value: Any, where: str) -> dict[str, Any]:
    """A value that must be an object."""
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be an object, not {_kind(value)}")
    return value


def field(data: dict[str, Any], key: str, where: str) -> Any:
    """A field that must be there."""
    if key not in data:
        raise InputError(f"{where}: {key!r} is missing")
    return data[key]


def as_list(value: Any, where: str, length: int | None = None) -> list[Any]:
    """A value that must be a list, of a known length where one is given."""
    if not isinstance(value, list):
        raise InputError(f"{where}: must be a list, not {_kind(value)}")
    if length is not None and len(value) != length:
        raise InputError(f"{where}: has {len(value)} entries, and there must be {length}")
    return value


def as_number(value: Any, where: str) -> float | None:
    """A number; None for null, and for what a picture cannot show."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: must be a number or null, not {_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_whole(value: Any, where: str, least: int = 0) -> int:
    """A whole number, not below the least."""
    if type(value) is not int or value < least:
        raise InputError(f"{where}: must be a whole number, {least} or more, not {_kind(value)}")
    return value


def as_truth(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InputError(f"{where}: must be true or false, not {_kind(value)}")
    return value


def as_words(value: Any, where: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InputError(f"{where}: must be a text, not {_kind(value)}")
    return value


def as_name(value: Any, where: str) -> int | str:
    """The name of a class."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"{where}: the name of a class must be a whole number or a text, not {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    """A value as an error shows it: whole if it is short."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
