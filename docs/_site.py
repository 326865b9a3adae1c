"""What the site needs beside the pages: files of the project that pages link to, and typeset formulas."""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
STUDIES = ROOT / "studies" / "results"
OUTSIDE = re.compile(r"\]\(\.\./((?:\.\./)*)(examples|studies)/")  # a link that leaves docs/
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
COMMANDS = re.compile(r'<div class="language-sh .*?</pre>', re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
INLINE = re.compile(r"<code>[^<]*\s[^<]*</code>")  # several words in a sentence or a table
SHORT = re.compile(r"<code>(?=[^<\s]{2,20}</code>)")  # one word in a sentence or a table
CELL = re.compile(r"<td.*?</td>", re.DOTALL)
BREAK = re.compile(r"[(\[=](?=\w)|\.(?=[a-z_])")  # in a call: after a bracket, an equals sign or a dot
FUNCTION = re.compile(r"<m([io])>([A-Za-z]{2,})</m\1>")
SITE_LINK = re.compile(r'(class="[^"]*\bsite"[^>]*?) hidden')
SLASH = "<mo>&#x0002F;</mo>"
THIN = '<mspace width="0.167em" />'
PARENTHESIS = '<mo stretchy="false">&#x00028;'


def on_config(config: Any) -> Any:
    """Add the pages of all studies to the menu."""
    pages = [page for page in sorted(STUDIES.glob("*.md")) if page.stem not in ("claims", "decisions")]
    titles = [page.read_text().partition("\n")[0].removeprefix("# ") for page in pages]
    menu = [{title: page.relative_to(ROOT).as_posix()} for title, page in zip(titles, pages, strict=True)]
    (results,) = (section["Results"] for section in config.nav if "Results" in section)
    results.insert(4, {"Studies": menu})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add copies of the scripts and of the studies' results, which are outside docs/."""
    scripts = [script for script in (ROOT / "examples").rglob("*.*") if "__pycache__" not in script.parts]
    for path in sorted([*scripts, *STUDIES.glob("*.md"), *STUDIES.glob("*.png")]):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to them, and from them, stay inside the site."""
    if page.file.src_uri.startswith("studies/"):
        return markdown.replace("](../../docs/", "](../../")
    return OUTSIDE.sub(r"](\1\2/", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Typeset the formulas, which the extension arithmatex has found: MathML needs neither a script nor a network.

    On a phone long commands wrap, and browsers break lines after any hyphen: each option is marked, so that it stays
    whole, in blocks as in sentences and narrow columns; so is a single short word of code. Code in a table may be
    broken after a bracket, a dot or an equals sign, and nowhere inside a name.
    """
    for code in (COMMANDS, INLINE):
        content = code.sub(lambda found: OPTION.sub(r'<span class="option">\g<0></span>', found[0]), content)
    content = CELL.sub(lambda cell: INLINE.sub(lambda code: BREAK.sub(r"\g<0><wbr>", code[0]), cell[0]), content)
    content = SHORT.sub('<code class="option">', content)
    return FORMULA.sub(lambda found: mathml(html.unescape(found[2]).strip(), block=found[1] == "div"), content)


def on_post_build(config: Any) -> None:
    """Show the links of the playground into the site, which is not around it everywhere."""
    page = Path(config["site_dir"]) / "playground" / "index.html"
    page.write_text(SITE_LINK.sub(r"\1", page.read_text()))


def mathml(formula: str, block: bool) -> str:
    """The MathML of a formula, with the spaces of LaTeX: thin ones around names of functions, none around a slash."""

    def spaced(name: re.Match[str]) -> str:
        after = "" if name.string.startswith((PARENTHESIS, "</mrow>"), name.end()) else THIN
        before = THIN if name.string.endswith(("</mi>", "</mn>", "</msub>", "</msup>"), 0, name.start()) else ""
        return f"{before}<mi>{name[2]}</mi>{after}"

    written = convert(formula, display="block" if block else "inline")
    return FUNCTION.sub(spaced, written).replace(SLASH, SLASH.replace("<mo>", '<mo lspace="0" rspace="0">'))
