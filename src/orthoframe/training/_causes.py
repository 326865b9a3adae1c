"""A likely cause that a run has not reached the frame, with what to try."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from orthoframe.errors import Option, Part
from orthoframe.runs import Cause

Spell = Callable[[Option], str]


@dataclass(frozen=True)
class LikelyCause:
    """A cause, the values in its sentence, and what to try."""

    cause: Cause
    advice: tuple[Part, ...]
    values: dict[str, Any] = field(default_factory=dict)

    def sentence(self, spell: Spell = str) -> str:
        """The sentence of the cause, with options as the reader writes them."""
        values = {name: spell(value) if isinstance(value, Option) else value for name, value in self.values.items()}
        return self.cause.sentence.format(**values)


def either(*ways: tuple[Part, ...]) -> tuple[Part, ...]:
    """Join alternatives: `a, b, or c`."""
    parts: list[Part] = list(ways[0])
    for way in ways[1:]:
        parts += [", or " if way is ways[-1] else ", ", *way]
    return tuple(parts)
