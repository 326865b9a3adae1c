"""`orthoframe study`: a question, many runs, and what they say about each claim."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated

import tyro

from orthoframe.cli import Flag, Folder, progress
from orthoframe.errors import InputError
from orthoframe.options import check_count
from orthoframe_studies._jobs import Engine
from orthoframe_studies._study import Scale

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from orthoframe_studies import Cost, JobOutcome, Study, StudyListener, StudyResult

RESULTS = Path(__file__).parents[2] / "results"
"""The results of the project, in a checkout."""
_Count = Annotated[int | None, tyro.conf.arg(metavar="N")]


@dataclass(frozen=True)
class StudyCommand:
    """Run a study: a grid of trainings over several seeds, and what they say about each claim.

    Every result is kept in the store: a study that was interrupted or killed continues where it was. Exit status: 0 all
    runs are done, whatever the verdicts are; 1 some runs failed; 2 bad input. For example:

    orthoframe study --list

    orthoframe study geometry --scale smoke

    RAY_ADDRESS=head:6379 orthoframe study all --scale paper --engine ray
    """

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[NAME]")] = None
    """The study to run, or all, those that cost least first."""
    listed: Annotated[Flag, tyro.conf.arg(name="list")] = False
    """List the studies, with their runs and core-minutes at each scale, estimated from the results in `--out`."""
    collect: Flag = False
    """Run nothing: write what the results in the store say, and which runs are missing."""
    scale: Scale = "desk"
    """How large: smoke (seconds; decides nothing), desk (minutes on two cores), or paper (as published; needs GPUs)."""
    seeds: _Count = None
    """Run at most N seeds per cell, to try a study; its claims are decided by as many as the design has."""
    engine: Engine = "local"
    """Where jobs run: local (the cores of this machine), or ray (the cluster at RAY_ADDRESS, else a local one)."""
    workers: _Count = None
    """Jobs that run at the same time (default: one per core)."""
    store: Folder = None
    """Where results are kept (default: ORTHOFRAME_STORE, or the user's cache)."""
    data_dir: Folder = None
    """Where data is looked for, and downloaded to (default: ORTHOFRAME_DATA, or the user's cache)."""
    out: Folder = None
    """Where tables and figures go (default: studies/NAME-SCALE)."""

    def run(self) -> int:
        """Run the study; the exit status."""
        from orthoframe_studies import STUDIES

        for name in ("seeds", "workers"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.listed:
            list_studies(STUDIES, self.out or RESULTS)
            return 0
        name = (self.name or "").replace("_", "-")
        if name not in (*STUDIES, "all"):
            question = f"there is no study {self.name!r}; choose" if name else "which study? Choose"
            raise InputError(f"{question} one of {', '.join(STUDIES)}, all")
        try:
            return self._run(name)
        except KeyboardInterrupt:
            print("orthoframe: interrupted; the same command continues where it was", file=sys.stderr)
            return 130

    def _run(self, chosen: str) -> int:
        from orthoframe.files import writing
        from orthoframe_studies import STUDIES, Store, estimate, read_result, run_study, store_folder, write_result
        from orthoframe_studies.pages import write_claims_page, write_decisions_page, write_study, write_study_page

        out = self.out or Path("studies") / f"{chosen}-{self.scale}"
        with writing(out, "out"):
            out.mkdir(parents=True, exist_ok=True)
        seeds, failed = "" if self.seeds is None else f" --seeds {self.seeds}", 0
        files = {name: out / f"{study.name}.json" for name, study in STUDIES.items() if chosen in (name, "all")}
        earlier = {name: read_result(file) if file.exists() else None for name, file in files.items()}
        costs = {name: estimate(STUDIES[name], self.scale, earlier[name]) for name in files}
        for name in sorted(costs, key=lambda name: (costs[name].unmeasured > 0, costs[name].minutes)):
            file = files[name]
            with listening(name) as listener:
                result = run_study(
                    STUDIES[name],
                    self.scale,
                    Store(store_folder(self.store)),
                    seeds=self.seeds,
                    engine=self.engine,
                    data_dir=self.data_dir,
                    workers=self.workers,
                    collect=self.collect,
                    earlier=earlier[name],
                    command=f"orthoframe study {name} --scale {self.scale}{seeds}",
                    listener=listener,
                )
            failed += len(result.failures)
            with writing(out, "out"):
                write_result(result, file)
                result = read_result(file)  # with the digits that everybody reads
                write_study(result, out)
            print_result(result, file)
        with writing(out, "out"):
            every = [read_result(file) for name in STUDIES if (file := out / f"{name}.json").exists()] or [result]
            write_study_page(every, out / "report.html")
            notes = out / "notes" / "claims.md"
            write_claims_page(every, out / "claims.md", notes.read_text(encoding="utf-8") if notes.exists() else "")
            write_decisions_page(out / "decisions.md")
        print(f"report: {out / 'report.html'}")
        if failed:
            runs = "run" if failed == 1 else "runs"
            print(f"orthoframe: {failed} {runs} failed; the same command tries again", file=sys.stderr)
        return 1 if failed else 0


def list_studies(studies: "Mapping[str, Study]", results: Path) -> None:
    """Print names, questions, and how many runs and core-minutes there are at each scale, by earlier results."""
    from rich.markup import escape

    from orthoframe_studies import SCALES, estimate, read_result

    table = _table("study", "question", *SCALES)
    for name, study in studies.items():
        file = results / f"{study.name}.json"
        earlier = read_result(file) if file.exists() else None
        table.add_row(name, escape(study.question), *(_cost(estimate(study, scale, earlier)) for scale in SCALES))
    _console().print(table)
    print("Runs, and core-minutes on one thread, estimated from earlier runs; ?: no estimate.")


def _cost(cost: "Cost") -> str:
    minutes = f"{max(1.0, cost.minutes):.0f}" if cost.minutes else "?"
    more = " + ?" if cost.minutes and cost.unmeasured else ""
    return f"{cost.runs} ({minutes}{more} min)"


@contextmanager
def listening(name: str) -> "Iterator[StudyListener]":
    """A bar on a terminal; elsewhere one line per run."""
    from rich.progress import MofNCompleteColumn, TextColumn

    from orthoframe_studies import StudyListener

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

        def on_done(run: str, done: "JobOutcome") -> None:
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


def print_result(result: "StudyResult", file: Path) -> None:
    """Print the cells and the verdicts of a study."""
    from rich.markup import escape

    from orthoframe_studies.pages import abbreviations, cell_words, finding_words, rule_words

    names = list(dict.fromkeys(name for cell in result.cells for name in cell.where))
    table = _table(*names, *result.columns, "seeds")
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


def _table(*columns: str) -> "Table":
    from rich.table import Table

    return Table(*columns, box=None, padding=(0, 2, 0, 0))


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200)  # a line of a file may be longer
