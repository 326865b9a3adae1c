"""Pages of studies: one in Markdown for each, one of all claims, and one HTML file of all."""

import base64
import io
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from matplotlib.figure import Figure

from orthoframe.errors import InputError
from orthoframe.files import write_atomic
from orthoframe.options import FRAME_COSINE, FRAME_DISTANCE
from orthoframe.reporting import render, write_page
from orthoframe_studies import ALPHA, FIRST_SEED, FRESH_SEED, PROVEN_BOUND, Decision, StudyResult
from orthoframe_studies.pages import _words as words
from orthoframe_studies.pages._figure import claim_figure, cosines_figure, study_figure

_TEMPLATES = "orthoframe_studies.pages"
_DPI = 160


def write_study(study: StudyResult, folder: str | os.PathLike[str]) -> None:
    """Write the page of a study, `NAME.md`, and its figure, `NAME.png`.

    Each is written whole or not at all, and the same study gives the same bytes. A study without runs has no figure.
    Notes on the results, `notes/NAME.md` in the folder, become a part of the page.

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
    if study.missing < study.runs:
        write_atomic(place / f"{name}.png", _png(study_figure(study)))
    write_atomic(place / f"{name}.md", page)


def study_text(study: StudyResult, notes: str = "") -> str:
    """The page of a study in Markdown; `notes` on its results are Markdown too."""
    return render("study.md", _TEMPLATES, study=study, notes=notes.strip(), words=words)


def write_claims_page(
    studies: Sequence[StudyResult], file: IO[bytes] | str | os.PathLike[str], summary: str = ""
) -> None:
    """Write every claim beside its verdict and numbers, in Markdown, below a summary: those of the paper first.

    Links lead to `NAME.md` and `decisions.md` beside it.
    """
    findings = [(study, finding) for study in studies for finding in study.findings]
    counts = Counter(finding.decision for _, finding in findings)
    write_page(
        "claims.md",
        file,
        _TEMPLATES,
        studies=studies,
        findings=findings,
        summary=summary.strip(),
        words=words,
        counts={decision: counts[decision] for decision in reversed(Decision) if counts[decision]},
        runs=sum(study.runs for study in studies),
        missing=sum(study.missing for study in studies),
    )


def write_decisions_page(file: IO[bytes] | str | os.PathLike[str]) -> None:
    """Write how studies decide, in Markdown: the page that every verdict leads to."""
    seeds = {"first_seed": FIRST_SEED, "fresh_seed": FRESH_SEED}
    write_page(
        "decisions.md",
        file,
        _TEMPLATES,
        alpha=ALPHA,
        of=FRAME_DISTANCE,
        cosine=FRAME_COSINE,
        proven=PROVEN_BOUND,
        **seeds,
    )


def write_study_page(studies: Sequence[StudyResult], file: IO[bytes] | str | os.PathLike[str]) -> None:
    """Write the report of studies: their verdicts, and a part for each.

    It is one file that loads nothing else, and is complete before anything is written. The same studies give the same
    bytes.

    Raises:
        InputError: If there is no study.
    """
    if not studies:
        raise InputError("there is no study to report; give one or more")
    title = studies[0].study if len(studies) == 1 else f"{len(studies)} studies"
    parts = [{"result": study, **_pictures(study)} for study in studies]
    of = words.abbreviations(studies)
    write_page("studies.html", file, _TEMPLATES, title=title, plots={}, studies=parts, words=words, of=of)


def _pictures(study: StudyResult) -> dict[str, Any]:
    """The figures of a study as data URIs; None where there is nothing to draw."""
    cosines = cosines_figure(study.cells)
    return {
        "figure": _data(study_figure(study)) if study.panels else None,
        "claims": [_data(claim_figure(finding)) if finding.comparisons else None for finding in study.findings],
        "cosines": None if cosines is None else _data(cosines),
    }


def _data(figure: Figure) -> str:
    return f"data:image/png;base64,{base64.b64encode(_png(figure)).decode()}"


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    return file.getvalue()
