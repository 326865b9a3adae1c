"""What all pictures of the report share: colours, type, numbers, and how a picture becomes HTML."""

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from orthoframe.reporting._format import GREY, INK, LINE, MUTED, RUN_COLOURS, short

_DASHES = ("solid", "dash", "dot", "dashdot")
DIVERGING = [[0, "#2166ac"], [0.25, "#92c5de"], [0.5, "#f7f7f7"], [0.75, "#f4a582"], [1, "#b2182b"]]
SEQUENTIAL = [[0, "#e8eef5"], [0.5, "#7fa8d1"], [1, "#1d4e89"]]
# More classes than these are drawn without their names: they would overlap.
NAMED = 30


@dataclass(frozen=True)
class Picture:
    """A plotly figure in plain lists and dictionaries, and the element it is drawn into."""

    name: str  # of the element; the same for the same report
    label: str  # what is to be seen, for readers who cannot
    height: int
    data: list[dict[str, Any]]
    layout: dict[str, Any]

    def to_html(self) -> str:
        """The element, and its data as a script that is read and not run."""
        content = json.dumps({"data": self.data, "layout": self.layout}, separators=(",", ":"), allow_nan=False)
        # Within a script only `<` can end it, and JSON has another way to write it.
        content = content.replace("<", "\\u003c")
        return (
            f'<div class="plot" id="{self.name}" role="img" aria-label="{html.escape(self.label)}" '
            f'style="height:{self.height}px"></div>\n'
            f'<script type="application/json" data-plot="{self.name}">{content}</script>'
        )


def layout(**more: Any) -> dict[str, Any]:
    """A layout in the report's type and colours."""
    base: dict[str, Any] = {
        "autosize": True,
        "font": {
            "family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
            "size": 12,
            "color": INK,
        },
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 50, "r": 16, "t": 34, "b": 44},
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": GREY, "font": {"color": INK}, "namelength": 40},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
    }
    return {**base, **more}


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """An axis with quiet lines."""
    base: dict[str, Any] = {"gridcolor": LINE, "linecolor": GREY, "zeroline": False, "ticks": "", "automargin": True}
    if title:
        base["title"] = {"text": title, "standoff": 8, "font": {"size": 12, "color": MUTED}}
    return {**base, **more}


def log_axis(values: Iterable[float | None], title: str = "") -> dict[str, Any]:
    """A logarithmic axis whose ticks suit the values: powers of ten for many decades, 1, 2 and 5 for few."""
    logs = [math.log10(value) for value in values if value is not None and value > 0] or [0.0]
    low, high = min(logs), max(logs)
    if high - low > 1.5:
        # Plotly draws powers of ten a quarter larger than it is told.
        decades = {"dtick": math.ceil((high - low) / 8), "tickfont": {"size": 10}}
        return axis(title, type="log", exponentformat="power", **decades)
    # At least a decade, or rounding would look like a mountain range.
    low, high = (low + high) / 2 - 0.8, (low + high) / 2 + 0.8
    powers = range(math.floor(low), math.ceil(high) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return axis(title, type="log", range=[low, high], tickvals=ticks, ticktext=[short(tick) for tick in ticks])


def run_line(number: int) -> dict[str, Any]:
    """Colour and dash of a run among several."""
    return {
        "color": RUN_COLOURS[number % len(RUN_COLOURS)],
        "dash": _DASHES[number // len(RUN_COLOURS) % len(_DASHES)],
        "width": 2,
    }


def label(name: int | str, longest: int = 18) -> str:
    """A name as plotly can show it: without tags, and not too long for an axis."""
    text = str(name) or "(no name)"
    return html.escape(text if len(text) <= longest else text[: longest - 1] + "…")


def categories(names: Iterable[int | str]) -> list[str]:
    """Whole names: by them plotly tells classes apart, and shows them at the pointer."""
    return [html.escape(str(name) or "(no name)") for name in names]


def class_axis(
    names: Sequence[int | str], labels: list[str] | None = None, *, turned: bool = False, **more: Any
) -> dict[str, Any]:
    """An axis of classes: short names or none; turned by a right angle unless they have few letters."""
    whole = categories(names)
    ticks: dict[str, Any] = {"showticklabels": False}
    if len(names) <= NAMED:
        shown = labels or [label(name) for name in names]
        ticks = {"tickvals": whole, "ticktext": shown, "tickfont": {"size": 11}}
        if turned and max(map(len, shown)) > 4:
            ticks["tickangle"] = -90
    return axis(type="category", categoryorder="array", categoryarray=whole, showgrid=False, **{**ticks, **more})
