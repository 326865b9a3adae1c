"""Pages of studies: one in Markdown for each, one of all claims, and one HTML file of all."""

import base64
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from orthoframe._atomic import write_atomic
from orthoframe.errors import InputError
from orthoframe.reporting._html import write_page
from orthoframe.reporting._study_figure import claim_figure, cosines_figure, study_figure
from orthoframe.reporting._study_words import (
    KEY,
    MEANS,
    RULE,
    cell_table,
    failure_words,
    for_html,
    found_words,
    made,
    rule_words,
)
from orthoframe.studies import Decision, Finding, StudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 160


def write_study(study: StudyResult, folder: str | os.PathLike[str]) -> None:
    """Write the page of a study, `NAME.md`, and its figure, `NAME.png`.

    Each is written whole or not at all, and the same study gives the same bytes. If there are notes on the results,
    `notes/NAME.md` in the folder, they become a part of the page.

    Args:
        study: The result of a study.
        folder: Where the files go; it is created if it is missing.

    Raises:
        InputError: If the name of the study cannot be that of a file.
    """
    name = study.study
    if not name or Path(name).name != name or name.startswith("."):
        raise InputError(f"a study's name must be one of a file, and {name!r} is not")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    notes = place / "notes" / f"{name}.md"
    page = study_text(study, notes.read_text(encoding="utf-8") if notes.exists() else "")
    write_atomic(place / f"{name}.png", _png(study_figure(study)))
    write_atomic(place / f"{name}.md", page)


def write_claims_page(studies: Sequence[StudyResult], file: IO[bytes] | str | os.PathLike[str]) -> None:
    """Write every claim beside what was found, in Markdown.

    Args:
        studies: Results of studies.
        file: Where the page goes: a binary file, or a path. Links lead to `NAME.md` beside it.
    """
    decisions = [finding.decision for study in studies for finding in study.findings]
    counts = {decision: decisions.count(decision) for decision in Decision}
    parts = [
        "# Claims and what was found",
        f"Claims: {len(decisions)}. In agreement with what was found: {counts[Decision.SUPPORTED]}. Not in agreement: "
        f"{counts[Decision.NOT_SUPPORTED]}. Undecided: {counts[Decision.INCONCLUSIVE]}. The threshold of each was "
        "fixed before the runs that decide it, and is on the page of its study, with what was changed in its design.",
    ]
    for study in studies:
        rows = [[*_said(finding), _agreement(finding.decision)] for finding in study.findings]
        parts += [
            f"## [{markdown(study.study)}]({quote(study.study, safe='')}.md)",
            markdown(study.question, paragraph=True),
            _table(["claim", "source", "found", "agreement"], rows) if rows else "It has no claims.",
        ]
        if study.remark:
            parts.append(markdown(study.remark, paragraph=True))
    page = "\n\n".join(parts) + "\n"
    if isinstance(file, str | os.PathLike):
        write_atomic(Path(file), page)
    else:
        file.write(page.encode())


def study_text(study: StudyResult, notes: str = "") -> str:
    """The page of a study in Markdown.

    Args:
        study: The result of a study.
        notes: What was noted about these results, in Markdown.
    """
    parts = [f"# {markdown(study.study)}", markdown(study.question, paragraph=True)]
    if study.findings:
        rows = []
        for finding in study.findings:
            text, source, found = _said(finding)
            rows.append([text, source, markdown(rule_words(finding.claim)), found, f"**{finding.decision}**"])
        parts += ["## Verdicts", _table(["claim", "source", "rule", "found", "decision"], rows)]
    if study.panels:
        parts += [f"![{markdown(study.question)}]({quote(study.study, safe='')}.png)", KEY]
    if study.remark:
        parts += ["## What to know", markdown(study.remark, paragraph=True)]
    if notes:
        parts += ["## Notes on these results", notes.strip()]
    if study.cells:
        head, rows = cell_table(study)
        parts += ["## All cells", MEANS, _table(map(markdown, head), [list(map(markdown, row)) for row in rows])]
    if study.failures:
        failures = "\n".join(f"- {markdown(failure_words(failure))}" for failure in study.failures)
        parts += ["## Runs that failed", failures]
    facts = "\n".join(f"- {title}: {markdown(value)}" for title, value in made(study).items())
    parts += ["## How it was made", f"```sh\n{' '.join(study.command.split())}\n```", facts]
    return "\n\n".join(parts) + "\n"


def write_study_page(studies: Sequence[StudyResult], file: IO[bytes] | str | os.PathLike[str]) -> None:
    """Write the report of studies: their verdicts, and a part for each.

    It is one file that loads nothing else. The same studies give the same bytes.

    Args:
        studies: Results of studies.
        file: Where the HTML goes: a binary file, or a path. The whole page is made before anything is written.

    Raises:
        InputError: If there is no study.
    """
    if not studies:
        raise InputError("there is no study to report; give one or more")
    title = studies[0].study if len(studies) == 1 else f"{len(studies)} studies"
    words = {"said": _subscripts, "rule_words": rule_words, "found_words": found_words, "failure_words": failure_words}
    write_page(
        "studies.html",
        file,
        title=title,
        studies=[{"result": study, "made": made(study), **_pictures(study)} for study in studies],
        rule=RULE,
        key=KEY,
        means=MEANS,
        cell_table=cell_table,
        **words,
    )


def _subscripts(text: Any) -> Markup:
    return Markup(for_html(text))


def _pictures(study: StudyResult) -> dict[str, Any]:
    """The figures of a study as data URIs; None where there is nothing to draw."""
    cosines = cosines_figure(study.cells)
    return {
        "figure": _data(study_figure(study)) if study.panels else None,
        "claims": [_data(claim_figure(finding)) if finding.comparisons else None for finding in study.findings],
        "cosines": None if cosines is None else _data(cosines),
    }


def _data(figure: "Figure") -> str:
    return f"data:image/png;base64,{base64.b64encode(_png(figure)).decode()}"


def _png(figure: "Figure") -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    return file.getvalue()


def _said(finding: Finding) -> list[str]:
    claim = finding.claim
    return [markdown(text) for text in (claim.text, claim.source, found_words(finding))]


def _agreement(decision: Decision) -> str:
    return f"**{decision.agreement}**" if decision is Decision.NOT_SUPPORTED else decision.agreement


def _table(head: Any, rows: Sequence[Sequence[str]]) -> str:
    """A table whose fields are Markdown."""
    head = list(head)
    return "\n".join(f"| {' | '.join(fields)} |" for fields in (head, ["---"] * len(head), *rows))


def markdown(text: Any, *, paragraph: bool = False) -> str:
    """Text as Markdown that shows it and nothing else; a paragraph never becomes a list or a heading.

    Examples:
        >>> print(markdown("delta_of <b> a & b"))
        delta_of &lt;b> a &amp; b
    """
    said = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    # Brackets make a link only with what follows them.
    said = re.sub(r"([\\`*|$~]|\](?=[\[(:]))", r"\\\1", said)
    said = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", said)
    return re.sub(r"^(?:(\d+)([.)])(?=\s)|()([#>+-]))", r"\1\\\2\4", said) if paragraph else said
