"""The page of studies: one HTML file that needs nothing else."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np

from orthoframe.errors import InputError
from orthoframe.reporting._heatmap import small_cosine_picture
from orthoframe.reporting._page import SCALE, section, write_page
from orthoframe.reporting._study_chart import chart
from orthoframe.reporting._study_forest import forest_picture
from orthoframe.reporting._study_plots import panel_picture
from orthoframe.reporting._study_text import MEANS, cell_table, failure_words, found_words, made
from orthoframe.reporting._study_words import checked, colour, for_html, rule_words, varying, where_words
from orthoframe.reporting._words import settings, tag

_MAPS = 8


def write_study_page(studies: Sequence[Mapping[str, Any]], file: IO[bytes] | str | os.PathLike[str]) -> None:
    """Write the report of studies: their verdicts, and a part for each.

    It is one file that loads nothing else. The same studies give the same bytes.

    Args:
        studies: Results of studies, as their JSON has them.
        file: Where the HTML goes: a binary file, or a path. The whole page is made before anything is written.

    Raises:
        InputError: If there is none, or one is not the result of a study.
    """
    if not studies:
        raise InputError("there is no study to report; give one or more")
    parts = [_verdicts(studies), *(_study(number, checked(study)) for number, study in enumerate(studies))]
    title = str(studies[0]["study"]) if len(studies) == 1 else f"{len(studies)} studies"
    write_page("\n".join(parts), title, file)


def _verdicts(studies: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for number, study in enumerate(map(checked, studies)):
        link = f'<a href="#study-{number}">{for_html(study["study"])}</a>'
        claims = study["claims"] or [None]
        for place, claim in enumerate(claims):
            name = "" if place else f'<td rowspan="{len(claims)}">{link}</td>'
            said, found, decision = "It has no claims.", "", ""
            if claim is not None:
                said, found = for_html(claim["text"]), for_html(found_words(claim))
                decision = tag(colour(claim["decision"]), claim["decision"])
            rows.append(f"<tr>{name}<td>{said}</td><td>{found}</td><td>{decision}</td></tr>")
    return section(
        "Verdicts",
        "The threshold of each claim was fixed before the runs that decide it; a design that was changed says so. It "
        "is supported if the 95 % interval of every cell keeps to it, and not supported if that of one is beyond it.",
        '<div class="scroll"><table class="claims" id="verdicts"><thead><tr><th>study</th><th>claim</th><th>found</th>'
        f"<th>decision</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>",
    )


def _study(number: int, study: Mapping[str, Any]) -> str:
    overall = str(study.get("verdict") or "inconclusive")
    remark = f"<p>{for_html(study['remark'])}</p>" if study.get("remark") else ""
    if study.get("history"):
        remark += f"<p>Before: {for_html(study['history'])}</p>"
    parts = [
        f'<section class="verdict {colour(overall)}" id="study-{number}"><h2>{for_html(study["study"])}</h2>'
        f'{tag(colour(overall), overall)}<p class="words">{for_html(study["question"])}</p>{remark}</section>'
    ]
    if study["claims"]:
        parts.append(section("Claims", "", "".join(_claim(number, *entry) for entry in enumerate(study["claims"]))))
    panels = [
        section(
            for_html(panel["title"]), "", panel_picture(f"plot-{number}-panel-{place}", chart(study, panel)).to_html()
        )
        for place, panel in enumerate(study["panels"])
    ]
    if panels:
        parts.append(f'<div class="charts">{"".join(panels)}</div>')
    maps = _maps(number, study["cells"])
    if maps:
        note = "At an orthogonal frame all but the diagonal is 0. Of the first seed of each cell."
        parts.append(section("Cosines of class means", note, f'{SCALE}<div class="maps small">{maps}</div>'))
    if study["cells"]:
        parts.append(section("All cells", MEANS, _table(study)))
    if study.get("failures"):
        failed = "".join(f"<li>{for_html(failure_words(entry))}</li>" for entry in study["failures"])
        parts.append(section("Runs that failed", "", f"<ul>{failed}</ul>"))
    facts = made(study)
    command = f'<p class="command"><code>{for_html(facts.pop("command"))}</code></p>'
    shown = settings({title: for_html(value) for title, value in facts.items()})
    parts.append(section("How it was made", "", command + shown))
    return "\n".join(parts)


def _claim(number: int, place: int, claim: Mapping[str, Any]) -> str:
    plot = ""
    if claim["comparisons"]:
        plot = forest_picture(f"plot-{number}-claim-{place}", claim).to_html()
    return (
        f'<article class="claim"><h3>{for_html(claim["text"])}</h3>{tag(colour(claim["decision"]), claim["decision"])}'
        f'<p class="note">Source: {for_html(claim["source"])}. Rule: {for_html(rule_words(claim))}. '
        f"Found: {for_html(found_words(claim))}.</p>{plot}</article>"
    )


def _table(study: Mapping[str, Any]) -> str:
    heads, rows = cell_table(study, for_html)
    head = "".join(f"<th>{text}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="runs"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _maps(number: int, cells: Sequence[Mapping[str, Any]]) -> str:
    """Heat maps of cells that have cosines: all of them, or evenly some."""
    found = []
    for cell in cells:
        seeds = sorted(cell["results"], key=lambda seed: (len(seed), seed))
        matrices = [cell["results"][seed]["cosines"] for seed in seeds if cell["results"][seed].get("cosines")]
        if matrices:
            found.append((cell["where"], matrices[0]))
    if len(found) > _MAPS:
        found = [found[round(place * (len(found) - 1) / (_MAPS - 1))] for place in range(_MAPS)]
    names = varying([where for where, _ in found])
    pictures = []
    for place, (where, matrix) in enumerate(found):
        cosines = np.array([[math.nan if value is None else value for value in row] for row in matrix])
        picture = small_cosine_picture(f"{number}-{place}", range(len(matrix)), cosines)
        drawn = replace(picture, height=250).to_html()
        caption = f"<figcaption>{for_html(where_words(where, names))}</figcaption>"
        pictures.append(f"<figure>{caption}{drawn}</figure>")
    return "".join(pictures)
