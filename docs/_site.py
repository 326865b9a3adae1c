"""What the site needs beside the pages: files of the project that pages link to."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add copies of the scripts, which are outside docs/."""
    for script in sorted((ROOT / "examples").rglob("*.*")):
        if "__pycache__" not in script.parts:
            files.append(File.generated(config, script.relative_to(ROOT).as_posix(), abs_src_path=str(script)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to them stay inside the site."""
    return markdown.replace("](../examples/", "](examples/")
