"""Fonts for the names in figures: matplotlib's own has no Chinese, and would draw a box for each sign."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties, findfont, findSystemFonts, fontManager, get_font
from matplotlib.text import Text

from orthoframe.reporting._format import clipped, plain

_BASE = "DejaVu Sans"  # comes with matplotlib
_UNKNOWN = "\u25a1"  # a square, for a sign that no font has
_NOTE = "Classes are numbered where no installed font has all letters of their names."


def class_labels(names: Sequence[int | str], longest: int = 18) -> list[str]:
    """Names for an axis; a class whose name no installed font can write gets its number, from 0.

    Examples:
        >>> class_labels(["cat", "\U00100000"])  # nobody's sign
        ['cat', 'class 1']
    """
    lost = _fonts_for(_letters(map(str, names)))[1]
    return [
        f"class {number}" if lost & set(clipped(name, longest)) else plain(name, longest)
        for number, name in enumerate(names)
    ]


def fit_fonts(figure: Figure, names: Iterable[int | str] = ()) -> Figure:
    """Give all words of a figure fonts that have their letters, and say if names were replaced by numbers."""
    names = list(names)
    if names and class_labels(names) != [plain(name) for name in names]:
        figure.supxlabel(_NOTE, fontsize=7, color="0.4")
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    letters = _letters(text.get_text() for text in texts)
    families, lost = _fonts_for(letters)
    for text in texts:
        if len(families) > 1:
            text.set_fontfamily(list(families))
        if lost & set(text.get_text()):
            text.set_text("".join(_UNKNOWN if letter in lost else letter for letter in text.get_text()))
    return figure


def _letters(words: Iterable[str]) -> frozenset[str]:
    return frozenset("".join(words)) - {"\n"}


@cache
def _fonts_for(letters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Families that have these letters, in the order in which they are tried; and letters that none has."""
    left = letters - _signs(findfont(FontProperties(family=_BASE)))
    families = [_BASE]
    if left:
        _find_new_fonts()
    for entry in sorted(filter(_writes, fontManager.ttflist), key=_preference) if left else ():
        found = left & _signs(entry.fname)
        if found and entry.name not in families:
            families.append(entry.name)
            left -= found
        if not left:
            break
    return tuple(families), left


@cache
def _find_new_fonts() -> None:
    """Fonts that were installed after matplotlib had made its list, which it keeps in a file for good."""
    known = {entry.fname for entry in fontManager.ttflist}
    for file in sorted(set(findSystemFonts()) - known):
        with suppress(OSError, RuntimeError, ValueError):  # as in `_signs`
            fontManager.addfont(file)


def _writes(entry: FontEntry) -> bool:
    """Whether it is a font to read: that of last resort has a box for every sign."""
    return "lastresort" not in entry.name.replace(" ", "").lower()


def _preference(entry: FontEntry) -> tuple[bool, bool, bool, str]:
    """Upright, of normal weight and without serifs first; the same on every start."""
    return entry.style != "normal", entry.weight not in (400, "normal", "regular"), "Serif" in entry.name, entry.fname


@cache
def _signs(file: str | Path) -> frozenset[str]:
    """The letters of a font; none if it cannot be read, as those of colour pictures."""
    try:
        return frozenset(map(chr, get_font(str(file)).get_charmap()))
    except (OSError, RuntimeError, ValueError):
        return frozenset()
