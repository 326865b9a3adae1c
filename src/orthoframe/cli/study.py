"""`orthoframe study`: a question, many runs, and what they say about each claim."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from orthoframe.errors import InputError, Option
from orthoframe.options import Engine, Scale, check_count

_Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]
_Count = Annotated[int | None, tyro.conf.arg(metavar="N")]


@dataclass(frozen=True)
class Study:
    """Run a study: a grid of trainings over several seeds, and what they say about each claim.

    Every result is kept in the store: a study that was interrupted or killed goes on where it was, and another seed
    runs only that seed. Exit status: 0 all runs are done, whatever the verdicts are; 1 some runs failed; 2 bad input.
    For example:

    orthoframe study --list

    orthoframe study geometry --scale smoke

    RAY_ADDRESS=head:6379 orthoframe study all --scale paper --engine ray
    """

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME")] = None
    """Which study, or all."""
    listed: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="list")] = False
    """List the studies, and how many runs each has."""
    scale: Scale = "desk"
    """How large: smoke (seconds, decides nothing), desk (minutes on two cores) or paper (its setting; needs GPUs)."""
    seeds: _Count = None
    """Seeds per cell of the grid (default: those of the scale)."""
    engine: Engine = "local"
    """Where jobs run: local (the cores of this machine), or ray (the cluster at RAY_ADDRESS, else a local one)."""
    workers: _Count = None
    """Jobs at the same time (default: one per core)."""
    store: _Folder = None
    """Where results are kept (default: ORTHOFRAME_STORE, or the user's cache)."""
    data_dir: _Folder = None
    """Where data is looked for, and downloaded to (default: ORTHOFRAME_DATA, or the user's cache)."""
    out: _Folder = None
    """Where tables and figures go (default: studies/NAME-SCALE)."""

    def run(self) -> int:
        """Run the study; the exit status."""
        from orthoframe.cli._study import list_studies
        from orthoframe.studies import STUDIES

        for name in ("seeds", "workers"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.listed:
            list_studies(STUDIES, self.seeds)
            return 0
        try:
            return self._run(self._chosen(list(STUDIES)))
        except KeyboardInterrupt:
            print("orthoframe: interrupted; the same command goes on where it was", file=sys.stderr)
            return 130

    def _chosen(self, names: list[str]) -> list[str]:
        there = f"choose one of {', '.join([*names, 'all'])}"
        if not self.name:
            raise InputError(f"which study? {there.capitalize()}")
        name = self.name.replace("_", "-")
        if name not in [*names, "all"]:
            raise InputError(f"there is no study {self.name!r}; {there}")
        return names if name == "all" else [name]

    def _run(self, names: list[str]) -> int:
        from orthoframe.cli._study import listening, print_result
        from orthoframe.reporting import write_claims_page, write_study, write_study_page
        from orthoframe.studies import STUDIES, Store, read_result, run_study, store_folder, write_result

        assert self.name is not None  # it was checked
        out = self.out or Path("studies") / f"{self.name.replace('_', '-')}-{self.scale}"
        with _writing(out):
            out.mkdir(parents=True, exist_ok=True)
        failed = 0
        for name in names:
            with listening(name) as listener:
                result = run_study(
                    STUDIES[name],
                    self.scale,
                    Store(store_folder(self.store)),
                    seeds=self.seeds,
                    engine=self.engine,
                    data_dir=self.data_dir,
                    workers=self.workers,
                    command=self._command(name),
                    listener=listener,
                )
            failed += len(result.failures)
            file = out / f"{result.study}.json"
            with _writing(out):
                write_result(result, file)
                result = read_result(file)  # with the digits that everybody reads
                write_study(result, out)
            print_result(result, file)
        with _writing(out):
            every = [read_result(file) for name in STUDIES if (file := out / f"{name}.json").exists()] or [result]
            write_study_page(every, out / "report.html")
            write_claims_page(every, out / "claims.md")
        print(f"report: {out / 'report.html'}")
        if failed:
            words = "1 run failed" if failed == 1 else f"{failed} runs failed"
            print(f"orthoframe: {words}; the same command tries again", file=sys.stderr)
        return 1 if failed else 0

    def _command(self, name: str) -> str:
        seeds = "" if self.seeds is None else f" --seeds {self.seeds}"
        return f"orthoframe study {name} --scale {self.scale}{seeds}"


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; choose another ", Option("out")) from None
