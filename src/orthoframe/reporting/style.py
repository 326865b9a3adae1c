"""Numbers, names and colours as all pages and pictures show them."""

import math

INK, MUTED, LINE = "#1f2933", "#5f6b7a", "#e3e8ee"
ACCENT, GOOD, GREY = "#2b6cb0", "#1a7f5a", "#9aa5b1"
# One for each run; further runs begin again with another dash.
RUN_COLOURS = (ACCENT, "#d9822b", GOOD, "#b83280", "#6b5ca5", "#8c6d4a", "#2a9fb5", "#c0392b")
NOTHING = "\u2013"


def short(value: float | None, digits: int = 3) -> str:
    """A number to three digits, with an exponent only where it must be."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value and not 1e-4 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks_around(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis of few decades: 1, 2 and 5 times each power of ten; more below a factor of 8."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [
        digit * 10.0**power for power in powers for digit in ((1, 2, 5) if high > 8 * low else (1, 1.5, 2, 3, 5, 7))
    ]


def rounded(value: float | None) -> float | None:
    """Six digits: more than a picture shows, and fewer bytes."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def percent(value: float | None) -> str:
    """A fraction as a percentage."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def lasted(seconds: float) -> str:
    """A time in units that suit it."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def clipped(name: int | str, longest: int = 18) -> str:
    """A name that is not too long for an axis."""
    text = str(name)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def plain(name: int | str, longest: int = 18) -> str:
    """A name that is not too long, without the signs that matplotlib takes for mathematics."""
    return clipped(name, longest).replace("$", r"\$")
