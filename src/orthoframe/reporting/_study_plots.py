"""The panels of a study for its HTML page."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from orthoframe.reporting._figure import Picture, axis, layout, log_axis
from orthoframe.reporting._format import MUTED, rounded, short
from orthoframe.reporting._study_chart import Chart, Line, bar
from orthoframe.reporting._study_style import DASHES, MARKS
from orthoframe.reporting._study_words import NOT_REACHED, for_html, interval_words

_HEIGHT = 360
_HIDDEN = {"showlegend": False, "hoverinfo": "skip"}


def panel_picture(name: str, found: Chart) -> Picture:
    """A panel, as the printed picture has it."""
    data: list[dict[str, Any]] = []
    for number, line in enumerate(found.lines):
        data += _curves(line, str(number)) if found.curves else _points(line, found, str(number))
    if found.top is not None:
        mark = {"symbol": "triangle-up-open", "size": 10, "color": MUTED}
        data.append({"type": "scatter", "mode": "markers", "x": [None], "y": [None], "marker": mark})
        data[-1] |= {"name": NOT_REACHED, "showlegend": True}
    shown = bool(found.lines)
    notes, shapes = _level(found) if shown else ([_nothing()], [])
    legend = shown and (bool(found.legend) or found.top is not None)
    return Picture(
        name,
        f"{found.y_title} by {found.x_title}",
        _HEIGHT,
        data,
        layout(
            margin={"l": 60, "r": 44 if found.level is not None else 16, "t": 16, "b": 50},
            xaxis=_horizontal(found) if shown else {"visible": False},
            yaxis=_vertical(found) if shown else {"visible": False},
            showlegend=legend,
            legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}}
            | ({"title": {"text": f"{for_html(found.legend)}:"}} if found.legend else {}),
            annotations=notes,
            shapes=shapes,
        ),
    )


def _nothing() -> dict[str, Any]:
    return {"text": "no values", "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}


def _numbers(values: Sequence[float | None]) -> list[float | None]:
    return [rounded(value) for value in values]


def _curves(line: Line, group: str) -> list[dict[str, Any]]:
    ink, name = line.style.colour, for_html(line.style.label)
    data: list[dict[str, Any]] = []
    if line.band is not None:
        places, low, high = line.band
        edge: dict[str, Any] = {"type": "scatter", "mode": "lines", "x": list(places), "line": {"width": 0}, **_HIDDEN}
        fill = {"fill": "tonexty", "fillcolor": _light(ink)}
        data += [edge | {"y": _numbers(low)}, edge | fill | {"y": _numbers(high)}]
    dash = DASHES[line.style.kind % len(DASHES)][1]
    for number, (places, values) in enumerate(line.paths):
        data.append(
            {
                "type": "scatter",
                "mode": "lines" if len(places) > 1 else "markers",
                "x": _numbers(places),
                "y": _numbers(values),
                "name": name,
                "showlegend": number == 0,
                "line": {"color": ink, "dash": dash, "width": 2 if len(line.paths) == 1 else 1},
                "marker": {"color": ink, "size": 8},
                "hovertemplate": "%{x:.4g}: %{y:.4g}",
            }
        )
    return [trace | {"legendgroup": group} for trace in data]


def _light(ink: str) -> str:
    red, green, blue = (int(ink[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"


def _points(line: Line, found: Chart, group: str) -> list[dict[str, Any]]:
    ink, name = line.style.colour, for_html(line.style.label)
    symbol = MARKS[line.style.kind % len(MARKS)][1]
    dash = DASHES[line.style.kind % len(DASHES)][1]
    base: dict[str, Any] = {"type": "scatter", "mode": "markers", "legendgroup": group, "name": name}
    many = [point for point in line.points if point.found.seeds > 1]
    seeds = base | {
        "x": [rounded(point.left) for point in many for _ in point.found.values],
        "y": [rounded(value) for point in many for value in point.found.values],
        "marker": {"color": ink, "size": 5, "symbol": symbol, "opacity": 0.4},
        "showlegend": False,
        "hovertemplate": "a seed: %{y:.4g}",
    }
    bars = [bar(point.found, found.log_y) for point in line.points]
    means = [point.found.mean for point in line.points]
    mean = base | {
        "showlegend": bool(found.legend),
        "mode": "lines+markers" if found.joined else "markers",
        "x": [rounded(point.x) for point in line.points],
        "y": _numbers(means),
        "line": {"color": ink, "dash": dash, "width": 1.5},
        "marker": {"color": ink, "size": 9, "symbol": symbol, "line": {"color": "#ffffff", "width": 1}},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [reach(ends and ends[1], value) for ends, value in zip(bars, means, strict=True)],
            "arrayminus": [reach(value, ends and ends[0]) for ends, value in zip(bars, means, strict=True)],
            "color": ink,
            "thickness": 1.5,
            "width": 0,
        },
        "text": [
            f"{for_html(point.name)}: {interval_words(point.found.mean, point.found.low, point.found.high)}"
            for point in line.points
        ],
        "hovertemplate": "%{text}",
    }
    missing = [point for point in line.points if point.found.missing]
    never = base | {
        "x": [rounded(point.edge) for point in missing],
        "y": [rounded(found.top)] * len(missing),
        "marker": {"color": ink, "size": 10, "symbol": "triangle-up-open", "line": {"width": 1.5}},
        "showlegend": False,
        "text": [
            f"{for_html(point.name)}: {NOT_REACHED} by {point.found.missing} of {point.found.seeds}"
            for point in missing
        ],
        "hovertemplate": "%{text}",
    }
    return [trace for trace in (seeds, mean, never) if trace["x"]]


def reach(high: float | None, low: float | None) -> float:
    """How far a bar goes; 0 where that is not known."""
    return 0.0 if high is None or low is None else rounded(high - low) or 0.0


def _level(found: Chart) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    if found.level is None or (found.log_y and found.level <= 0):
        return [], []
    line = {"color": MUTED, "width": 1.2, "dash": "dash"}
    shape = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": found.level, "y1": found.level, "line": line}
    # Plotly wants shapes in values and notes in logarithms.
    height = math.log10(found.level) if found.log_y else found.level
    note = {"xref": "paper", "x": 1.005, "xanchor": "left", "y": height, "text": short(found.level), "showarrow": False}
    return [note | {"font": {"color": MUTED, "size": 11}}], [shape]


def span(limits: tuple[float, float], log: bool) -> list[float | None]:
    """Limits as plotly wants them."""
    return [rounded(math.log10(limit) if log else limit) for limit in limits]


def _horizontal(found: Chart) -> dict[str, Any]:
    title = for_html(found.x_title)
    made = log_axis(found.x_limits, title) if found.log_x else axis(title)
    if found.ticks:
        made |= {"tickvals": [rounded(place) for place, _ in found.ticks], "tickfont": {"size": 11}}
        made |= {"ticktext": _names(found), "ticklabeloverflow": "allow"}
        made |= {"tickangle": 0} if found.joined else {"showgrid": False}
    return made | {"range": span(found.x_limits, found.log_x)}


def _names(found: Chart) -> list[str]:
    """Names of places, in lines where there are many."""
    letters = max(8, 60 // len(found.ticks))
    shown = [name if len(name) <= 30 else f"{name[:29]}…" for _, name in found.ticks]
    return ["<br>".join(for_html(line) for line in textwrap.wrap(name, letters)) or "(no name)" for name in shown]


def _vertical(found: Chart) -> dict[str, Any]:
    title = for_html(found.y_title)
    made = log_axis(found.y_limits, title) if found.log_y else axis(title)
    return made | {"range": span(found.y_limits, found.log_y)}
