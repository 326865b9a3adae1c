"""The frame of every page: one HTML file that needs nothing else."""

import os
from importlib.resources import files
from pathlib import Path
from typing import IO

from orthoframe.reporting._words import escape

SCALE = '<div class="scale"><span>&minus;1</span><i></i><span>1</span></div>'
"""The colours of cosines."""


def write_page(body: str, title: str, file: IO[bytes] | str | os.PathLike[str]) -> None:
    """Write a page; it is made whole before anything is written."""
    page = _page(body, title).encode()
    if isinstance(file, str | os.PathLike):
        Path(file).write_bytes(page)
    else:
        file.write(page)


def section(title: str, note: str, content: str) -> str:
    """A part of the page; the title is markup."""
    said = f'<p class="note">{note}</p>' if note else ""
    return f"<section><h2>{title}</h2>{said}{content}</section>"


def _page(body: str, title: str) -> str:
    from plotly.offline import get_plotlyjs

    here = files("orthoframe.reporting") / "templates"
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    # The policy lets the page load nothing: not even a mistake in it could ask a network for something.
    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)} · orthoframe</title>
<style>
{style}</style>
</head>
<body>
<main>
<header><span class="brand">orthoframe</span><h1>{escape(title)}</h1></header>
<noscript><p>The pictures of this report need JavaScript; everything else is here.</p></noscript>
{body}
</main>
<script>{get_plotlyjs()}</script>
<script>
{script}</script>
</body>
</html>
"""
