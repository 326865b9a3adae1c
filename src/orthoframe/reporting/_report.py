"""The report: one HTML file that needs nothing else."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import IO

from orthoframe.errors import InputError
from orthoframe.reporting import _words as words
from orthoframe.reporting._accuracy import accuracy_picture, compared_accuracy_picture
from orthoframe.reporting._curves import below_zero, collapse_picture, frame_picture, gap_picture, loss_picture
from orthoframe.reporting._figure import NAMED
from orthoframe.reporting._heatmap import cosine_picture, ownership_picture, small_cosine_picture
from orthoframe.reporting._page import SCALE, section, write_page
from orthoframe.reporting._run import Run


def write_report(runs: Sequence[Run], file: IO[bytes] | str | os.PathLike[str]) -> None:
    """Write the report of a run, or of several side by side.

    It is one file that loads nothing else. The same runs give the same bytes.

    Args:
        runs: What `read_run` returned.
        file: Where the HTML goes: a binary file, or a path. The whole page is made before anything is written.

    Raises:
        InputError: If there is no run.
    """
    if not runs:
        raise InputError("there is no run to report; give one or more")
    write_page(_one(runs[0]) if len(runs) == 1 else _several(runs), _title(runs), file)


def _title(runs: Sequence[Run]) -> str:
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"


def _one(run: Run) -> str:
    parts = [words.verdict_section(run), words.cards(run), _curves([run])]
    if run.measured:
        end = run.measured[-1]
        dead = sum(owner < 0 for owner in end.owners)
        beside = "Beside each class is its number of rows."
        if len(end.names) > NAMED:
            beside = "Point at a cell to see its classes."
        moved = " Move the slider to see other epochs." if len(run.measured) > 1 else ""
        parts += [
            section(
                "Cosines of class means",
                f"At an orthogonal frame all but the diagonal is 0. {beside}{moved}",
                cosine_picture(run.measured).to_html(),
            ),
            section(
                "Which class owns each dimension",
                f"At the last measured epoch, {end.epoch}. Means that are orthogonal and non-negative share no "
                "dimension, so at a frame each has one owner (a part of 1). "
                f"{len(end.owners) - dead:,} of {len(end.owners):,} dimensions are live.",
                ownership_picture(end).to_html() + words.ownership_table(end),
            ),
            section(
                "Accuracy of each class, and its size",
                f"Of the nearest class centre at epoch {end.epoch}, the largest class first.",
                accuracy_picture(end).to_html(),
            ),
        ]
    else:
        parts.append(section("Geometry", "It was not measured in this run.", ""))
    parts += [
        section("The certificate of the batches", "", words.certificate_section(run)),
        section("Configuration", "", words.configuration(run)),
    ]
    return "\n".join(parts)


def _several(runs: Sequence[Run]) -> str:
    names = _distinct(runs)
    runs = [replace(run, name=name) for run, name in zip(runs, names, strict=True)]
    maps = "".join(
        f"<figure><figcaption>{words.swatch(number)}{words.escape(run.name)}</figcaption>"
        f"{small_cosine_picture(str(number), run.measured[-1].names, run.measured[-1].cosines).to_html()}</figure>"
        for number, run in enumerate(runs)
        if run.measured
    )
    parts = [
        section("Runs", "The settings in which they differ, and how they ended.", words.table_of_runs(runs, names)),
        section("Verdicts", "", words.verdicts(runs, names)),
        _curves(runs),
    ]
    if maps:
        parts += [
            section(
                "Cosines of class means",
                "At the last measured epoch of each run; at an orthogonal frame all but the diagonal is 0.",
                f'{SCALE}<div class="maps">{maps}</div>',
            ),
            section(
                "Accuracy of each class, and its size",
                "Of the nearest class centre, on the test set where there is one; the largest class first.",
                compared_accuracy_picture(runs).to_html(),
            ),
        ]
    return "\n".join(parts)


def _distinct(runs: Sequence[Run]) -> list[str]:
    """Names of runs, with a number behind those that several have."""
    often, seen, names = Counter(run.name for run in runs), Counter[str](), []
    for run in runs:
        seen[run.name] += 1
        names.append(f"{run.name} ({seen[run.name]})" if often[run.name] > 1 else run.name)
    return names


def _curves(runs: Sequence[Run]) -> str:
    floors = any(run.last("floor") is not None for run in runs)
    loss = "No batch can go below the floor with non-negative features." if floors else "This loss has no floor."
    gap = "What the loss has left above its floor." if floors else loss
    if floors and len(runs) > 1:
        loss += " Dashed: the floor of each run."
    below = sum(below_zero(run) for run in runs)
    if below:
        gap += (
            f" At {below:,} {'epoch' if below == 1 else 'epochs'} the loss is below it, which this axis cannot show: "
        )
        gap += "rounding can do that, and features with negative entries."
    frame = "Distance of the Gram matrix of class means to that of a frame: 0 at the frame."
    collapse = "Spread within classes against spread between them: 0 when classes have collapsed."
    charts = [
        section("Loss", loss, loss_picture(runs).to_html()),
        section("Gap above the floor", gap, gap_picture(runs).to_html()),
        section(f"Distance to a frame, {words.DELTA}", frame, frame_picture(runs).to_html()),
        section(f"Collapse of classes, {words.BETA}", collapse, collapse_picture(runs).to_html()),
    ]
    return f'<div class="charts">{"".join(charts)}</div>'
