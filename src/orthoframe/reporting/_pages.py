"""Pages from templates: HTML files that need nothing else, and Markdown."""

import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from orthoframe.files import write_atomic
from orthoframe.reporting.style import NOTHING, lasted, percent, short

_PACKAGE = "orthoframe.reporting"


def write_page(template: str, file: IO[bytes] | str | os.PathLike[str], package: str = _PACKAGE, **values: Any) -> None:
    """Render a template and write it to a binary file or a path; the page is complete before anything is written."""
    page = render(template, package, **values).encode()
    if isinstance(file, str | os.PathLike):
        write_atomic(Path(file), page)
    else:
        file.write(page)


def render(template: str, package: str = _PACKAGE, **values: Any) -> str:
    """The text of a page. In HTML every value is escaped unless it is `Markup`; in Markdown the filters do it.

    Templates are those of a package, and those of this one.
    """
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(_PACKAGE)]),
        autoescape=lambda name: name is None or not name.endswith(".md"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    numbers = {"short": short, "percent": percent, "lasted": lasted, "count": "{:,}".format}
    environment.filters |= {**numbers, "markdown": markdown, "subscripts": _subscripts}
    environment.globals |= {"plotly_js": _plotly_js, "NOTHING": NOTHING}
    return environment


def _plotly_js() -> Markup:
    """The text of plotly.js, found without importing plotly."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Markup(Path(spec.submodule_search_locations[0], "package_data", "plotly.min.js").read_text(encoding="utf-8"))


def _subscripts(text: Any) -> Markup:
    """Text as HTML, with real subscripts in the symbols of the paper."""
    return Markup(re.sub(r"([Δβ])_([A-Z]+)", r"\1<sub>\2</sub>", str(escape(str(text)))))


def markdown(text: Any, *, paragraph: bool = False) -> str:
    """Text as Markdown that shows it and nothing else; a paragraph never becomes a list or a heading."""
    line = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    # Brackets make a link only with what follows them.
    line = re.sub(r"([\\`*|$~]|\](?=[\[(:]))", r"\\\1", line)
    line = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", line)
    return re.sub(r"^(?:(\d+)([.)])(?=\s)|()([#>+-]))", r"\1\\\2\4", line) if paragraph else line
