"""Studies in Markdown: a page for each, and one page of all claims."""

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from orthoframe._atomic import write_atomic
from orthoframe.errors import InputError
from orthoframe.reporting._format import NOTHING, lasted
from orthoframe.reporting._study_cells import coordinates, summary, summary_words
from orthoframe.reporting._study_figure import study_figure
from orthoframe.reporting._study_words import (
    checked,
    coordinate_words,
    deciding,
    interval_words,
    quantity_words,
    rule_words,
    value_words,
    varying,
    where_words,
)

MEANS = "Means over seeds (of distances and times geometric ones), with their 95 % intervals."
AGREEMENT = {"supported": "yes", "not supported": "**no**"}
_KEY = (
    "Large marks are means over seeds, small ones are seeds; bars are 95 % intervals of the mean, and an arrow says "
    "that one goes on to zero. Bands go from the smallest to the largest seed."
)


def write_study(study: Mapping[str, Any], folder: str | os.PathLike[str]) -> None:
    """Write the page of a study, `NAME.md`, and its picture, `NAME.png`.

    Each is whole or not written at all, and the same study gives the same bytes.

    Args:
        study: The result of a study, as its JSON has it.
        folder: Where they go; it is made if it is missing.

    Raises:
        InputError: If that is not the result of a study, or its name is no name of a file.
    """
    name = str(checked(study)["study"])
    if not name or Path(name).name != name or name.startswith("."):
        raise InputError(f"a study's name must be one of a file, and {name!r} is not")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    text = study_text(study).encode()
    picture = io.BytesIO()
    study_figure(study).savefig(picture, format="png", dpi=160, metadata={"Software": None})
    write_atomic(place / f"{name}.png", lambda file: file.write(picture.getvalue()))
    write_atomic(place / f"{name}.md", lambda file: file.write(text))


def write_claims_page(studies: Sequence[Mapping[str, Any]], file: IO[bytes] | str | os.PathLike[str]) -> None:
    """Write every claim beside what was found, in Markdown.

    Args:
        studies: Results of studies.
        file: Where the page goes: a binary file, or a path. Links lead to `NAME.md` beside it.

    Raises:
        InputError: If one is not the result of a study.
    """
    parts = ["# Claims and what was found", _tally(studies)]
    for study in map(checked, studies):
        rows = [
            [
                markdown(claim["text"]),
                markdown(claim["source"]),
                markdown(found_words(claim)),
                AGREEMENT.get(claim["decision"], "undecided"),
            ]
            for claim in study["claims"]
        ]
        name = str(study["study"])
        parts += [
            f"## [{markdown(name)}]({quote(name, safe='')}.md)",
            markdown(study["question"], paragraph=True),
            table(["claim", "source", "found", "agreement"], rows) if rows else "It has no claims.",
        ]
        if study.get("remark"):
            parts.append(markdown(study["remark"], paragraph=True))
    page = ("\n\n".join(parts) + "\n").encode()
    if isinstance(file, str | os.PathLike):
        write_atomic(Path(file), lambda out: out.write(page))
    else:
        file.write(page)


def _tally(studies: Sequence[Mapping[str, Any]]) -> str:
    decisions = [claim["decision"] for study in map(checked, studies) for claim in study["claims"]]
    yes, no = decisions.count("supported"), decisions.count("not supported")
    return (
        f"Claims: {len(decisions)}. In agreement with what was found: {yes}. Not in agreement: {no}. "
        f"Undecided: {len(decisions) - yes - no}. The threshold of each was fixed before the runs that decide it, and "
        "is on the page of its study, with what was changed in its design."
    )


def study_text(study: Mapping[str, Any]) -> str:
    """The page of a study."""
    name = str(study["study"])
    parts = [f"# {markdown(name)}", markdown(study["question"], paragraph=True)]
    if study["claims"]:
        rows = [
            [
                markdown(claim["text"]),
                markdown(claim["source"]),
                markdown(rule_words(claim)),
                markdown(found_words(claim)),
                f"**{markdown(claim['decision'])}**",
            ]
            for claim in study["claims"]
        ]
        parts += ["## Verdicts", table(["claim", "source", "rule", "found", "decision"], rows)]
    if study["panels"]:
        parts += [f"![{markdown(study['question'])}]({quote(name, safe='')}.png)", _KEY]
    if study.get("remark"):
        parts += ["## What to know", markdown(study["remark"], paragraph=True)]
    if study.get("history"):
        parts += ["## What was changed", markdown(study["history"], paragraph=True)]
    if study["cells"]:
        parts += ["## All cells", MEANS, table(*cell_table(study, markdown))]
    if study.get("failures"):
        parts += [
            "## Runs that failed",
            "\n".join(f"- {markdown(failure_words(entry))}" for entry in study["failures"]),
        ]
    lines = [f"- {title}: {markdown(value)}" for title, value in made(study).items() if title != "command"]
    command = " ".join(str(study.get("command", "")).split())
    parts += ["## How it was made", f"```sh\n{command}\n```", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def found_words(claim: Mapping[str, Any]) -> str:
    """The numbers of the cell that decides."""
    worst = deciding(claim)
    if worst is None:
        return "no cell decides it"
    said = interval_words(worst["mean"], worst["low"], worst["high"]).replace(NOTHING, "not known")
    cells = claim["comparisons"]
    names = varying([part["where"] for part in cells])
    if len(cells) == 1:
        return f"{said} ({where_words(worst['where'], names)})"
    return f"{said} (the worst of {len(cells)}: {where_words(worst['where'], names)})"


def cell_table(study: Mapping[str, Any], say: Any) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table of cells; `say` makes text what the page can hold."""
    names = coordinates(study["cells"])
    heads = [
        *(say(coordinate_words(name)) for name in names),
        "seeds",
        *(say(quantity_words(c)) for c in study["columns"]),
    ]
    rows = [
        [
            *(say(value_words(cell["where"][name])) if name in cell["where"] else NOTHING for name in names),
            str(len(cell["results"])),
            *(summary_words(summary(cell, column), column) for column in study["columns"]),
        ]
        for cell in study["cells"]
    ]
    return heads, rows


def failure_words(failure: Mapping[str, Any]) -> str:
    """A run that failed, and why."""
    return f"{where_words(failure['where'])}, seed {failure['seed']}: {failure['sentence']}"


def made(study: Mapping[str, Any]) -> dict[str, str]:
    """How a study was made."""
    seconds = study.get("seconds")
    facts = {
        "command": study.get("command"),
        "scale": study.get("scale"),
        "seeds": _seeds(study.get("seeds")),
        "version": study.get("version"),
        "commit": study.get("commit"),
        "commits of the runs": ", ".join(map(str, study.get("run_commits") or [])) or None,
        "time of all runs, one after the other": None if seconds is None else lasted(seconds),
    }
    return {title: NOTHING if value is None else str(value) for title, value in facts.items()}


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; its fields are Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(fields)} |" for fields in lines)


def markdown(text: Any, *, paragraph: bool = False) -> str:
    """Text as Markdown that shows it and nothing else; a paragraph is no list and no heading either.

    Examples:
        >>> print(markdown("delta_of <b> a & b"))
        delta_of &lt;b> a &amp; b
    """
    said = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    # Brackets make a link only with what follows them.
    said = re.sub(r"([\\`*|$~]|\](?=[\[(:]))", r"\\\1", said)
    said = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", said)
    return re.sub(r"^(?:(\d+)([.)])(?=\s)|()([#>+-]))", r"\1\\\2\4", said) if paragraph else said


def _seeds(count: Any) -> str | None:
    """Which they are: they are counted from 0."""
    return None if count is None else ", ".join(map(str, range(int(count))))
