"""Fonts for the names in figures: matplotlib's own has no Chinese, and would draw a box for each sign."""

from functools import cache
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

_BASE = "DejaVu Sans"  # comes with matplotlib
_UNKNOWN = "\u25a1"  # a square, for a letter that no font has


def fit_fonts(figure: Figure) -> Figure:
    """Give all words of a figure fonts that have their letters; matplotlib tries them letter by letter."""
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    families, missing = _fonts_for(frozenset("".join(text.get_text() for text in texts)) - {"\n"})

    def readable(text: Text) -> str:
        return "".join(_UNKNOWN if letter in missing else letter for letter in text.get_text())

    for axis in [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)] if missing else ():
        if isinstance(axis.get_major_locator(), FixedLocator):  # each drawing writes the labels of ticks again
            axis.set_ticklabels([readable(label) for label in axis.get_ticklabels()])
    for text in texts:
        if len(families) > 1:
            text.set_fontfamily(list(families))
        if missing & set(text.get_text()):
            text.set_text(readable(text))
    return figure


@cache
def _fonts_for(letters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Families that have these letters, in the order in which they are tried; and letters that none has."""
    missing = letters - _letters_of(findfont(FontProperties(family=_BASE)))
    families = [_BASE]
    readable = [entry for entry in fontManager.ttflist if "lastresort" not in entry.name.replace(" ", "").lower()]
    for entry in sorted(readable, key=lambda entry: (entry.style != "normal", entry.fname)) if missing else ():
        added = missing & _letters_of(entry.fname)
        if added and entry.name not in families:
            families.append(entry.name)
            missing -= added
    return tuple(families), missing


@cache
def _letters_of(file: str | Path) -> frozenset[str]:
    """The letters of a font, without control characters; none if it cannot be read, as those of colour pictures."""
    try:
        return frozenset(filter(str.isprintable, map(chr, get_font(str(file)).get_charmap())))
    except (OSError, RuntimeError, ValueError):
        return frozenset()
