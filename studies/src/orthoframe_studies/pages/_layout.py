"""Which lines a panel of a study's figure has, how they look, and the limits of its axes; `_figure` draws them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib import colormaps
from matplotlib.colors import to_hex

from orthoframe_studies import CellResult, Panel, StudyResult, agrees
from orthoframe_studies.pages._words import coordinate_words, for_matplotlib, is_number, value_words, where_words

Key = tuple[Any, ...]  # the values of the coordinates that tell lines apart
Limits = tuple[float, float]
Look = tuple[str, str, str]  # a colour, and a mark and dashes as matplotlib names them

ALONG = ("epoch", "time")  # where x is one of these, lines are curves
# Okabe and Ito's, without the yellow that white paper swallows.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#4d4d4d", "#8c510a")
_LIGHTEST = 0.82  # of the colours of numbers, which grow darker
_KINDS = (("o", "-"), ("s", "--"), ("D", ":"), ("v", "-."), ("P", "-"), ("X", "--"))


@dataclass(frozen=True)
class Line:
    """A line of a panel: its name in the legend, its look and its cells, one if it is a curve."""

    label: str
    look: Look
    cells: tuple[CellResult, ...]


def lines_of(study: StudyResult, panel: Panel) -> tuple[list[Line], str]:
    """The lines of a panel, and what their labels are; nothing if there is nothing to tell apart."""
    cells = [cell for cell in study.cells if agrees(cell.where, panel.where) and _is_shown(cell, panel)]
    names = _separating(cells, panel.lines, () if panel.x in ALONG else (panel.x,))
    # Categories have the colours that they have as lines of another panel, and need no legend.
    ticked = not names and any(panel.x in other.lines for other in study.panels)
    if ticked and not is_numeric([cell.where.get(panel.x) for cell in cells]):
        names = (panel.x,)
    groups: dict[Key, list[CellResult]] = {}
    for cell in cells:
        groups.setdefault(tuple(cell.where.get(name) for name in names), []).append(cell)
    looks = looks_of(study.cells, list(groups), names)
    names = () if names == (panel.x,) else names
    lines = [Line(_label(names, key), looks[key], tuple(group)) for key, group in groups.items()]
    return lines, ", ".join(map(coordinate_words, names))


def looks_of(cells: Sequence[CellResult], keys: Sequence[Key], names: Sequence[str]) -> dict[Key, Look]:
    """A look for each key, its values of the coordinates `names`.

    The coordinate with most values has the colours, the same in all panels of a study, which has these cells. The
    others have marks and dashes, and so do values beyond the colours that there are.
    """
    if not names:
        return dict.fromkeys(keys, (_COLOURS[0], *_KINDS[0]))
    first = max(range(len(names)), key=lambda place: len({repr(key[place]) for key in keys}))
    values = coordinate_values(cells, names[first])
    colours, places = _palette(values), {repr(value): place for place, value in enumerate(values)}
    kinds: dict[str, int] = {}
    looks = {}
    for key in keys:
        place = places.get(repr(key[first]), len(values))  # a cell without the coordinate comes after the others
        rest = repr((place // len(colours), *key[:first], *key[first + 1 :]))
        kind = kinds.setdefault(rest, len(kinds)) % len(_KINDS)
        looks[key] = (colours[place % len(colours)], *_KINDS[kind])
    return looks


def _palette(values: Sequence[Any]) -> Sequence[str]:
    """From light to dark for more than two numbers."""
    if len(values) <= 2 or not is_numeric(values):
        return _COLOURS
    steps = [1 - place / (len(values) - 1) for place in range(len(values))]
    return [to_hex(colormaps["plasma"](_LIGHTEST * step)) for step in steps]


def _label(names: Sequence[str], key: Key) -> str:
    """The values of these coordinates, for matplotlib; nothing if there are none."""
    label = value_words(key[0]) if len(names) == 1 else where_words(dict(zip(names, key, strict=False)))
    return for_matplotlib(label, 40) if names else ""


def coordinate_values(cells: Iterable[CellResult], name: str) -> list[Any]:
    """The values of a coordinate: numbers by size, others in the order of the grid."""
    values = list(dict.fromkeys(cell.where[name] for cell in cells if name in cell.where))
    return sorted(values) if is_numeric(values) else values


def is_numeric(values: Iterable[Any]) -> bool:
    """Whether these are several numbers, for an axis of numbers."""
    return len(several := set(values)) > 1 and all(map(is_number, several))


def _separating(cells: Sequence[CellResult], lines: Sequence[str], x: Sequence[str]) -> tuple[str, ...]:
    """The coordinates that have lines: those asked for, and others where cells would fall on one another."""
    seen: dict[str, Mapping[str, Any]] = {}
    for cell in cells:
        other = seen.setdefault(repr([cell.where.get(name) for name in (*lines, *x)]), cell.where)
        differing = [name for name in {**other, **cell.where} if other.get(name) != cell.where.get(name)]
        if differing:
            return _separating(cells, [*lines, differing[0]], x)
    return tuple(name for name in lines if len({repr(cell.where.get(name)) for cell in cells}) > 1)


def _is_shown(cell: CellResult, panel: Panel) -> bool:
    """Whether a cell has anything that the axes can show."""
    if panel.x in ALONG:
        return any(cell.curves(panel.x, panel.quantity, panel.log))
    return panel.x in cell.where and bool(cell.over_seeds(panel.quantity).values)


def limits_of(values: Iterable[float], log: bool, room: float, above: float | None = None) -> Limits:
    """From the smallest to the largest value that an axis can show, and a part of the axis below, and above them."""
    shown = [value for value in values if value > 0 or not log]
    if not shown:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(shown), max(shown)
    above = room if above is None else above
    if log:
        # At least half a decade, or rounding would look like a mountain range.
        decades = math.log10(high / low)
        least = (0.5 - decades) / 2
        return low / 10 ** max(decades * room, least), high * 10 ** max(decades * above, least)
    if low == high:
        low, high = low - (abs(low) * 0.2 or 1.0), high + (abs(high) * 0.2 or 1.0)
    return low - (high - low) * room, high + (high - low) * above
