"""Parts of the page of studies."""

import html
from collections.abc import Mapping
from typing import Any


def escape(value: Any) -> str:
    """Any value as text of a page."""
    return html.escape(str(value))


def tag(colour: str, said: str) -> str:
    """A coloured mark (good, wait or bad) with words: colour alone tells nothing to some."""
    sign = {"good": "✓", "wait": "…", "bad": "✕"}[colour]
    return f'<span class="mark {colour}"><span aria-hidden="true">{sign}</span> {escape(said)}</span>'


def settings(entries: Mapping[str, str]) -> str:
    """Names and values side by side; the values are markup."""
    rows = "".join(f"<div><dt>{escape(key)}</dt><dd>{value}</dd></div>" for key, value in entries.items())
    return f'<dl class="settings">{rows}</dl>'
