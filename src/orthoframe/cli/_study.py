"""A study on the terminal: which there are, how one goes, what it found."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from orthoframe.reporting._study_cells import coordinates, summary, summary_words
from orthoframe.reporting._study_text import found_words
from orthoframe.studies._jobs import key
from orthoframe.studies._runner import Watcher
from orthoframe.studies._store import Done
from orthoframe.studies._study import SEEDS, Study

_WIDE = 200  # characters of a line that goes to a file


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
        ended, failed, total, left, spent = 0, 0, 0, 0, 0.0
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
            nonlocal ended, failed, left, spent
            running.pop(run, None)
            ended, failed, left = ended + 1, failed + (done.failure is not None), left - 1
            spent += done.seconds
            line = f"{run}: {f'{done.seconds:.1f} s' if done.failure is None else f'failed: {done.failure}'}"
            if not terminal:
                print(f"{name} {total - left}/{total}: {line}{rest()}", file=sys.stderr, flush=True)
            elif done.failure is not None:
                console.print(line, markup=False, highlight=False)
            show()

        def rest() -> str:
            """The time left, if the rest goes as what has ended."""
            if not (ended and left):
                return ""
            at_once = max(1, len(running))
            return f"; {_duration(spent / ended * left / at_once)} left"

        def show() -> None:
            words = f"{failed} failed" if failed else ""
            if running:
                others = f" and {len(running) - 1} more" if len(running) > 1 else ""
                words += f"{'; ' if words else ''}running: {next(iter(running))}{others}"
            bar.update(task, completed=total - left, total=total, words=(words + rest()).removeprefix("; "))

        yield Watcher(on_plan, on_start, on_done)


def print_outcome(data: Mapping[str, Any], file: Path) -> None:
    """Print the cells and the verdicts of a study, from its JSON."""
    names = coordinates(data["cells"])
    table = Table(*names, *data["columns"], "seeds", box=None, padding=(0, 2, 0, 0), title_justify="left")
    for cell in data["cells"]:
        where = [escape(str(cell["where"].get(name, ""))) for name in names]
        found = [escape(summary_words(summary(cell, name), name)) for name in data["columns"]]
        table.add_row(*where, *found, str(len(cell["results"])))
    print(f"{data['question']} ({data['scale']}; means over seeds with 95 % intervals)")
    _console().print(table)
    for claim in data["claims"]:
        print(f"{claim['decision']}: {claim['text']} ({claim['source']})")
        print(f"  rule: {claim['rule']}; found: {found_words(claim)}")
    print(file)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDE)
