"""`orthoframe study`: a question, many runs, and what they say about each claim."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import tyro

from orthoframe.errors import InputError

_SCALES = ("smoke", "desk", "paper")
_ENGINES = ("local", "ray")
_Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]
_Count = Annotated[int | None, tyro.conf.arg(metavar="N")]


@dataclass(frozen=True)
class Study:
    """Run a study: a grid of trainings over several seeds, and what they say about each claim.

    Every result is kept in the store, so that a study that was interrupted or killed goes on where it was, and another
    seed runs only that seed. Exit status: 0 all runs are done, whatever the verdicts are; 1 some runs failed; 2 bad
    input. For example:

    orthoframe study --list

    orthoframe study geometry --scale smoke

    RAY_ADDRESS=head:6379 orthoframe study all --scale paper --engine ray
    """

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME")] = None
    """Which study, or all."""
    listed: Annotated[tyro.conf.FlagCreatePairsOff[bool], tyro.conf.arg(name="list")] = False
    """Tell which studies there are, and how many runs each has."""
    scale: Annotated[str, tyro.conf.arg(metavar="NAME")] = "desk"
    """How large: smoke (seconds, says nothing), desk (some minutes on two cores) or paper (its setting; needs GPUs)."""
    seeds: _Count = None
    """Seeds of each cell of the grid (default: those of the scale)."""
    engine: Annotated[str, tyro.conf.arg(metavar="NAME")] = "local"
    """Where jobs run: local (the cores of this machine), or ray (the cluster at RAY_ADDRESS, else a local one)."""
    workers: _Count = None
    """Jobs at the same time (default: one for each core)."""
    store: _Folder = None
    """Where results are kept (default: ORTHOFRAME_STORE, or the user's cache)."""
    data_dir: _Folder = None
    """Where data is looked for, and put if it is downloaded (default: ORTHOFRAME_DATA, or the user's cache)."""
    out: _Folder = None
    """Where tables and figures go (default: studies/NAME-SCALE)."""

    def run(self) -> int:
        """Do it; the exit status."""
        from orthoframe.cli._study import list_studies
        from orthoframe.errors import StudyError
        from orthoframe.studies._catalogue import STUDIES

        self._check(list(STUDIES))
        if self.listed:
            list_studies(STUDIES, self.seeds)
            return 0
        assert self.name is not None  # it was checked
        try:
            return self._run(self.name.replace("_", "-"), list(STUDIES))
        except StudyError as error:
            raise InputError(str(error)) from None
        except KeyboardInterrupt:
            print("orthoframe: interrupted; the same command goes on where it was", file=sys.stderr)
            return 130

    def _check(self, names: list[str]) -> None:
        for flag, value in (("--seeds", self.seeds), ("--workers", self.workers)):
            if value is not None and value < 1:
                raise InputError(f"{flag} must be at least 1, not {value}")
        for flag, chosen, allowed in (("--scale", self.scale, _SCALES), ("--engine", self.engine, _ENGINES)):
            if chosen not in allowed:
                raise InputError(f"{flag} must be one of {', '.join(allowed)}, not {chosen!r}")
        if self.listed:
            return
        there = f"choose one of {', '.join([*names, 'all'])}"
        if not self.name:
            raise InputError(f"which study? {there.capitalize()}")
        if self.name.replace("_", "-") not in [*names, "all"]:
            raise InputError(f"there is no study {self.name!r}; {there}")

    def _run(self, chosen: str, names: list[str]) -> int:
        from orthoframe.cli._study import print_outcome, watching
        from orthoframe.studies._catalogue import STUDIES
        from orthoframe.studies._runner import run_study
        from orthoframe.studies._store import Store, store_folder

        out = self.out or Path("studies") / f"{chosen}-{self.scale}"
        _make(out)
        failed = 0
        for name in names if chosen == "all" else [chosen]:
            with watching(name) as watcher:
                outcome = run_study(
                    STUDIES[name],
                    cast(Any, self.scale),
                    self.seeds,
                    cast(Any, self.engine),
                    Store(store_folder(self.store)),
                    self.data_dir,
                    self.workers,
                    watcher,
                )
            failed += len(outcome.failures)
            data = outcome.to_dict(self._command(name))
            _write(data, names, out)
            print_outcome(data, out / f"{name}.json")
        print(f"report: {out / 'report.html'}")
        if failed:
            words = "1 run failed" if failed == 1 else f"{failed} runs failed"
            print(f"orthoframe: {words}; the same command tries again", file=sys.stderr)
        return 1 if failed else 0

    def _command(self, name: str) -> str:
        seeds = "" if self.seeds is None else f" --seeds {self.seeds}"
        return f"orthoframe study {name} --scale {self.scale}{seeds}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror or error}; choose another --out") from None


def _write(data: dict[str, Any], names: list[str], out: Path) -> None:
    """Write a study, and the pages of all that are in the folder."""
    from orthoframe.cli._files import write_atomic
    from orthoframe.reporting import write_claims_page, write_study, write_study_page
    from orthoframe.studies._outcome import as_json

    content = as_json(data)
    write_atomic(out / f"{data['study']}.json", lambda file: cast(None, file.write(content)))
    write_study(data, out)
    files = [out / f"{name}.json" for name in dict.fromkeys([*names, data["study"]])]
    every = [json.loads(file.read_text()) for file in files if file.exists()]
    write_atomic(out / "report.html", lambda file: write_study_page(every, file))
    write_atomic(out / "claims.md", lambda file: write_claims_page(every, file))
