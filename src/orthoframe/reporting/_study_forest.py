"""The intervals of a claim against its threshold."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orthoframe.reporting._figure import Picture, axis, label, layout, log_axis
from orthoframe.reporting._format import GREY, INK, NOTHING, rounded, short
from orthoframe.reporting._study_plots import reach, span
from orthoframe.reporting._study_words import (
    colour,
    deciding,
    for_html,
    interval_words,
    measured_words,
    varying,
    where_words,
)

# More comparisons than these are not drawn one by one.
_ROWS = 40
_BOUNDS = {"at_least": "at least", "at_most": "at most"}
_INKS = {"good": "#1a7f5a", "wait": "#a8690c", "bad": "#b83227"}
_SYMBOLS = {"good": "circle", "wait": "diamond", "bad": "x"}


def forest_picture(name: str, claim: Mapping[str, Any]) -> Picture:
    """The intervals of a claim against its threshold, a row for each comparison."""
    parts = _worst(claim)
    names = varying([part["where"] for part in parts])
    quantity = claim["quantity"]
    thresholds = {word: claim[name] for name, word in _BOUNDS.items() if claim.get(name) is not None}
    ends = [part[end] for part in parts for end in ("mean", "low", "high") if part[end] is not None]
    ends += thresholds.values()
    log = min(ends) > 0 and max(ends) / min(ends) > 20
    data, notes = [], []
    for kind in ("good", "wait", "bad"):
        rows = [(row, part) for row, part in enumerate(parts) if colour(part["decision"]) == kind]
        known = [(row, part) for row, part in rows if part["mean"] is not None]
        notes += [_unknown(row, part, _INKS[kind]) for row, part in rows if part["mean"] is None]
        if known:
            data.append(_intervals(known, kind, quantity))
    spread = [value for value in ends if value is not None]
    limits = _spread(min(spread), max(spread), log, 0.3 if notes else 0.08)
    line = {"color": INK, "width": 1.4, "dash": "dash"}
    shapes = []
    for word, threshold in thresholds.items():
        ends_of_line = {"y0": 0, "y1": 1, "x0": threshold, "x1": threshold}
        shapes.append({"type": "line", "yref": "paper", **ends_of_line, "line": line})
        at = {"x": math.log10(threshold) if log else threshold, "yref": "paper", "y": 1, "yanchor": "bottom"}
        notes.append({**at, "text": f"{word} {short(threshold)}", "showarrow": False})
    title = for_html(measured_words(claim))
    horizontal = log_axis(limits, title) if log else axis(title)
    said = [label(where_words(part["where"], names), 44) for part in parts]
    return Picture(
        name,
        f"Intervals of {measured_words(claim)} against the threshold",
        90 + 24 * max(1, len(parts)),
        data,
        layout(
            margin={"l": 20, "r": 20, "t": 24, "b": 44},
            showlegend=False,
            xaxis=horizontal | {"range": span(limits, log)},
            yaxis=axis(tickvals=list(range(len(parts))), ticktext=said, range=[max(1, len(parts)) - 0.4, -0.6])
            | {"tickfont": {"size": 11}, "linecolor": GREY},
            annotations=notes,
            shapes=shapes,
        ),
    )


def _worst(claim: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The comparisons in their order; of very many those that are worst for the claim."""
    left = list(claim["comparisons"])
    if len(left) <= _ROWS:
        return left
    shown: list[Mapping[str, Any]] = []
    while len(shown) < _ROWS:
        worst = deciding({**claim, "comparisons": left})
        assert worst is not None
        shown.append(worst)
        left = [part for part in left if part is not worst]
    return shown


def _intervals(rows: Sequence[tuple[int, Mapping[str, Any]]], kind: str, quantity: str) -> dict[str, Any]:
    parts = [part for _, part in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [rounded(part["mean"]) for part in parts],
        "y": [row for row, _ in rows],
        "marker": {"color": _INKS[kind], "size": 9, "symbol": _SYMBOLS[kind]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [reach(part["high"], part["mean"]) for part in parts],
            "arrayminus": [reach(part["mean"], part["low"]) for part in parts],
            "color": _INKS[kind],
            "thickness": 2,
            "width": 4,
        },
        "text": [
            f"{for_html(where_words(part['where']))}<br>"
            f"{interval_words(part['mean'], part['low'], part['high'])}: {for_html(part['decision'])}"
            for part in parts
        ],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _unknown(row: int, part: Mapping[str, Any], ink: str) -> dict[str, Any]:
    text = interval_words(part["mean"], part["low"], part["high"]).replace(NOTHING, "not known")
    place = {"xref": "paper", "x": 1, "xanchor": "right", "y": row, "showarrow": False}
    return {"text": text, "font": {"color": ink, "size": 11}, **place}


def _spread(low: float, high: float, log: bool, right: float) -> tuple[float, float]:
    """Limits with some room; at the right with as much as the words there need."""
    if log:
        return low / (high / low) ** 0.08, high * (high / low) ** right
    width = (high - low) or abs(high) or 1.0
    return low - 0.08 * width, high + right * width
