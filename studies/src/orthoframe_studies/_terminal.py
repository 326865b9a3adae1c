"""Studies on the terminal: which there are, how one goes, what it found."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, TextColumn
from rich.table import Table

from orthoframe.cli import progress
from orthoframe_studies import SCALES, Cost, JobOutcome, Study, StudyListener, StudyResult, estimate, read_result
from orthoframe_studies.pages import abbreviations, cell_words, finding_words, rule_words


def list_studies(studies: Mapping[str, Study], results: Path) -> None:
    """Print names, questions, and how many runs and core-minutes there are at each scale, by earlier results."""
    table = Table("study", "question", *SCALES, box=None, padding=(0, 2, 0, 0))
    for name, study in studies.items():
        file = results / f"{study.name}.json"
        earlier = read_result(file) if file.exists() else None
        table.add_row(name, escape(study.question), *(_cost(estimate(study, scale, earlier)) for scale in SCALES))
    _console().print(table)
    print("Runs, and core-minutes on one thread, estimated from earlier runs; ?: no estimate.")


def _cost(cost: Cost) -> str:
    minutes = f"{max(1.0, cost.minutes):.0f}" if cost.minutes else "?"
    more = " + ?" if cost.minutes and cost.unmeasured else ""
    return f"{cost.runs} ({minutes}{more} min)"


@contextmanager
def listening(name: str) -> Iterator[StudyListener]:
    """A bar on a terminal; elsewhere one line per run."""
    terminal = sys.stderr.isatty()
    with progress(MofNCompleteColumn(), TextColumn("{task.fields[words]}", markup=False)) as bar:
        task = bar.add_task(name, total=None, words="")
        total = left = failed = 0
        seconds: list[float] = []  # of the runs that have ended
        running: dict[str, None] = {}

        def on_plan(runs: int, reused: int) -> None:
            nonlocal total, left
            total, left = runs, runs - reused
            show(f"{name}: {runs} runs, {reused} of them in the store")

        def on_start(run: str) -> None:
            running[run] = None
            show()

        def on_done(run: str, done: JobOutcome) -> None:
            nonlocal failed, left
            running.pop(run, None)
            seconds.append(done.seconds)
            left, failed = left - 1, failed + (done.failure is not None)
            line = f"{run}: {f'{done.seconds:.1f} s' if done.failure is None else f'failed: {done.failure}'}"
            line += f" ({done.note})" if done.note else ""
            if terminal and (done.failure or done.note):
                bar.console.print(line, markup=False, highlight=False)
            show(f"{name} {total - left}/{total}: {line}{rest()}")

        def rest() -> str:
            """The time left, if the rest takes as long as what has ended."""
            has_pace = seconds and left
            return f"; {_duration(mean(seconds) * left / max(1, len(running)))} left" if has_pace else ""

        def show(line: str = "") -> None:
            """Bring the bar up to date; elsewhere print the line."""
            if line and not terminal:
                print(line, file=sys.stderr, flush=True)
            words = f"; {failed} failed" if failed else ""
            if running:
                more = f" and {len(running) - 1} more" if len(running) > 1 else ""
                words += f"; running: {next(iter(running))}{more}"
            bar.update(task, completed=total - left, total=total, words=(words + rest()).removeprefix("; "))

        yield StudyListener(on_plan, on_start, on_done)


def print_result(result: StudyResult, file: Path) -> None:
    """Print the cells and the verdicts of a study."""
    names = list(dict.fromkeys(name for cell in result.cells for name in cell.where))
    table = Table(*names, *result.columns, "seeds", box=None, padding=(0, 2, 0, 0))
    for cell in result.cells:
        where = [escape(str(cell.where.get(name, ""))) for name in names]
        fields = [escape(cell_words(cell.over_seeds(name), name)) for name in result.columns]
        table.add_row(*where, *fields, str(len(cell.results)))
    print(f"{result.question} ({result.scale}; medians of distances, times and counts, else means)")
    _console().print(table)
    if defined := abbreviations([result]):
        print(defined)
    for finding in result.findings:
        print(f"{finding.decision}: {finding.claim.text} ({finding.claim.source})")
        print(f"  rule: {rule_words(finding.claim, str)}; found: {finding_words(finding)}")
    print(file)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 200)  # a line of a file may be longer
