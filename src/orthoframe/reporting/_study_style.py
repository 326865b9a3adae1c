"""Colours and marks of a study's lines: the same for the same value in all its pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orthoframe.reporting._study_cells import coordinate_values
from orthoframe.reporting._study_words import coordinate_words, is_number, value_words, where_words

# Okabe and Ito's, without the yellow that white paper swallows.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#4d4d4d", "#8c510a")
# From light to dark, for numbers.
_GROWING = ("#fdb42f", "#ed7953", "#cc4778", "#9c179e", "#5c01a6", "#0d0887")
MARKS = (("o", "circle"), ("s", "square"), ("D", "diamond"), ("v", "triangle-down"), ("P", "cross"), ("X", "x"))
"""Of matplotlib and of plotly."""
DASHES = (("-", "solid"), ("--", "dash"), (":", "dot"), ("-.", "dashdot"))


@dataclass(frozen=True)
class Style:
    """How a line looks."""

    label: str
    colour: str
    kind: int  # number of its mark and dash


def styles(
    cells: Sequence[Mapping[str, Any]], keys: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> tuple[str, dict[tuple[Any, ...], Style]]:
    """How the lines of a picture look.

    Args:
        cells: All cells of the study, which decide the colours.
        keys: The values of the coordinates that tell lines apart.
        names: These coordinates.

    Returns:
        What the labels are, and the style by key. The coordinate with most values in the study has the colours, the
        others have marks and dashes, and so do values beyond the colours that there are.
    """
    telling = [place for place in range(len(names)) if len({repr(key[place]) for key in keys}) > 1]
    title = ", ".join(coordinate_words(names[place]) for place in telling)
    if not telling:
        label = value_words(keys[0][0]) if keys and names else ""
        return "", {key: Style(label, _COLOURS[0], 0) for key in keys}
    first = max(telling, key=lambda place: len(coordinate_values(cells, names[place])))
    colours = _palette(coordinate_values(cells, names[first]))
    kinds: list[str] = []
    found = {}
    for key in keys:
        colour, before = colours.get(repr(key[first]), (_COLOURS[-1], 0))
        rest = repr([before, *(key[place] for place in telling if place != first)])
        if rest not in kinds:
            kinds.append(rest)
        told = {names[place]: key[place] for place in telling}
        label = value_words(key[first]) if len(telling) == 1 else where_words(told)
        found[key] = Style(label, colour, kinds.index(rest))
    return title, found


def _palette(values: Sequence[Any]) -> dict[str, tuple[str, int]]:
    """Numbers from light to dark; others by colours that most eyes tell apart. With how many have the colour before."""
    n = len(values)
    if n > 2 and all(map(is_number, values)):
        last = len(_GROWING) - 1
        colours = [_GROWING[round(place * last / (n - 1))] for place in range(n)]
    else:
        colours = [_COLOURS[place % len(_COLOURS)] for place in range(n)]
    return {repr(value): (colours[place], colours[:place].count(colours[place])) for place, value in enumerate(values)}
