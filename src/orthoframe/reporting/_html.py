"""HTML pages: one file each, which needs nothing else."""

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from orthoframe._atomic import write_atomic
from orthoframe.reporting._format import NOTHING, lasted, percent, short


def write_page(template: str, file: IO[bytes] | str | os.PathLike[str], **values: Any) -> None:
    """Render a template and write it; the page is complete before anything is written.

    Every value is escaped unless it is `Markup`. plotly.js is inlined if the page has a plotly picture.

    Args:
        template: Name of a file in `templates/` that extends `page.html`.
        file: Where the HTML goes: a binary file, or a path.
        values: What the template shows; each page needs at least `title`.
    """
    page = _environment().get_template(template).render(values).encode()
    if isinstance(file, str | os.PathLike):
        write_atomic(Path(file), page)
    else:
        file.write(page)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("orthoframe.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "short": short,
        "percent": percent,
        "lasted": lasted,
        "count": "{:,}".format,
    }
    environment.globals |= {"plotly_js": _plotly_js, "NOTHING": NOTHING}
    return environment


def _plotly_js() -> Markup:
    """The text of plotly.js, found without importing plotly."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Markup(Path(spec.submodule_search_locations[0], "package_data", "plotly.min.js").read_text(encoding="utf-8"))
