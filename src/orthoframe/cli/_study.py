"""A study on the terminal: which there are, how one goes, what it found."""

import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from orthoframe.studies._claims import Interval
from orthoframe.studies._jobs import key
from orthoframe.studies._outcome import Outcome
from orthoframe.studies._runner import Watcher
from orthoframe.studies._store import Done
from orthoframe.studies._study import SEEDS, Comparison, Finding, Study

_WIDE = 200  # characters of a line that goes to a file
_GRAVITY = ("not supported", "inconclusive", "supported")


def list_studies(studies: Mapping[str, Study], seeds: int | None) -> None:
    """Print names, questions, and how many runs there are at each scale."""
    table = Table("study", "question", *SEEDS, box=None, padding=(0, 2, 0, 0))
    for name, study in studies.items():
        runs = [len({key(job) for job in study.jobs(scale, seeds).values()}) for scale in SEEDS]  # type: ignore[arg-type]
        table.add_row(name, escape(study.question), *map(str, runs))
    _console().print(table)


@contextmanager
def watching(name: str) -> Iterator[Watcher]:
    """A bar on a terminal; a line for each run elsewhere."""
    terminal = sys.stderr.isatty()
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        console=console,
        transient=True,
        disable=not terminal,
    ) as bar:
        task = bar.add_task(name, total=None, words="")
        began, ended, failed, total, left = time.monotonic(), 0, 0, 0, 0
        running: dict[str, None] = {}

        def on_plan(runs: int, reused: int) -> None:
            nonlocal total, left
            total, left = runs, runs - reused
            if not terminal:
                print(f"{name}: {runs} runs, {reused} of them in the store", file=sys.stderr, flush=True)
            show()

        def on_start(run: str) -> None:
            running[run] = None
            show()

        def on_done(run: str, done: Done) -> None:
            nonlocal ended, failed, left
            running.pop(run, None)
            ended, failed, left = ended + 1, failed + (done.failure is not None), left - 1
            line = f"{run}: {f'{done.seconds:.1f} s' if done.failure is None else f'failed: {done.failure}'}"
            if not terminal:
                print(f"{name} {total - left}/{total}: {line}{rest()}", file=sys.stderr, flush=True)
            elif done.failure is not None:
                console.print(line, markup=False, highlight=False)
            show()

        def rest() -> str:
            """The time left, if the rest goes as what has ended."""
            return f"; {_duration((time.monotonic() - began) / ended * left)} left" if ended and left else ""

        def show() -> None:
            words = f"{failed} failed" if failed else ""
            if running:
                others = f" and {len(running) - 1} more" if len(running) > 1 else ""
                words += f"{'; ' if words else ''}running: {next(iter(running))}{others}"
            bar.update(task, completed=total - left, total=total, words=(words + rest()).removeprefix("; "))

        yield Watcher(on_plan, on_start, on_done)


def print_outcome(outcome: Outcome, file: Path) -> None:
    """Print the cells and the verdicts."""
    names = list(dict.fromkeys(name for cell in outcome.cells for name in cell.where))
    table = Table(*names, *outcome.study.columns, "seeds", box=None, padding=(0, 2, 0, 0), title_justify="left")
    for cell in outcome.cells:
        where = [escape(str(cell.where.get(name, ""))) for name in names]
        found = [_words(cell.interval(name)) for name in outcome.study.columns]
        table.add_row(*where, *found, str(len(cell.results)))
    print(f"{outcome.study.question} ({outcome.scale}; means over seeds with 95 % intervals)")
    _console().print(table)
    for finding in outcome.findings:
        print(f"{finding.decision}: {finding.claim.text} ({finding.claim.source})")
        print(f"  rule: {finding.claim.rule}; {_worst_words(finding)}")
    print(file)


def worst(finding: Finding) -> Comparison | None:
    """The cell that speaks most against a claim; None if no cell has a part in it."""
    claim = finding.claim

    def gravity(part: Comparison) -> tuple[int, float]:
        edge = part.interval.low if claim.at_least is not None else -part.interval.high
        return _GRAVITY.index(part.decision), -math.inf if math.isnan(edge) else edge

    return min(finding.comparisons, key=gravity, default=None)


def _worst_words(finding: Finding) -> str:
    part = worst(finding)
    if part is None:
        return "no cell has a part in it"
    where = ", ".join(f"{name} {value}" for name, value in part.where.items())
    few = "" if len(part.interval.values) > 1 else " (an interval needs two seeds)"
    return f"worst: {where}: {_words(part.interval)}{few}"


def _words(interval: Interval) -> str:
    if interval.mean == math.inf:
        return "not reached"
    if math.isnan(interval.mean):
        some = [value for value in interval.values if math.isfinite(value)]
        return f"{len(some)} of {len(interval.values)} reached" if some else "-"
    if math.isnan(interval.low):
        return f"{interval.mean:.3g}"
    return f"{interval.mean:.3g} ({interval.low:.3g} to {interval.high:.3g})"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDE)
