"""Fields of settings, with a usual value and a range, open until a user or `resolve` decides them; and their groups."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args, get_origin, get_type_hints

from orthoframe.errors import Option, OptionError, brief
from orthoframe.options import check_choice, check_count, check_number, check_size


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

    def absolute(self) -> Self:
        """The same with absolute paths."""
        paths = {name: value for name, value in self.asked().items() if isinstance(value, Path)}
        return replace(self, **{name: Path(absolute_path(path)) for name, path in paths.items()})

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
