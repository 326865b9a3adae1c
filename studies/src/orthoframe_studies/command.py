"""`orthoframe study`: a question, many runs, and what they say about each claim."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from orthoframe.cli import Flag, Folder
from orthoframe.errors import InputError
from orthoframe.options import check_count
from orthoframe_studies._jobs import Engine
from orthoframe_studies._study import Scale

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
        from orthoframe_studies._terminal import list_studies

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
        from orthoframe_studies._terminal import listening, print_result
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
