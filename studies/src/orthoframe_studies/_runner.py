"""A study, run: results are taken from the store, the rest is computed, and the claims are decided."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import cast

from orthoframe import __version__
from orthoframe.options import FRAME_DISTANCE
from orthoframe_studies import _pool, _ray
from orthoframe_studies._decide import decide
from orthoframe_studies._jobs import Engine, JobResult, crossing, key
from orthoframe_studies._results import CellResult, Failure, RunRecord, StudyResult
from orthoframe_studies._store import JobOutcome, Store, source_commit
from orthoframe_studies._study import FIRST_SEED, Panel, Scale, Study


def _ignore(*_: object) -> None:
    pass


@dataclass(frozen=True)
class StudyListener:
    """Callbacks of a study."""

    on_plan: Callable[[int, int], None] = _ignore  # called with the number of jobs, and how many have a result
    on_start: Callable[[str], None] = _ignore  # called with the name of a job that starts
    on_done: Callable[[str, JobOutcome], None] = _ignore  # called with the name of a job that ended, and how it ended


@dataclass(frozen=True)
class Cost:
    """What a study costs at a scale."""

    runs: int
    minutes: float  # core-minutes of the runs of cells that have been run before
    unmeasured: int  # how many runs are of other cells


def estimate(study: Study, scale: Scale, earlier: StudyResult | None) -> Cost:
    """Core-minutes of a study, from the median seconds of earlier runs of each cell."""
    seconds: dict[str, list[float]] = defaultdict(list)
    if earlier is not None and earlier.scale == scale:
        for record in earlier.records.values():
            seconds[_place(earlier.cells[record.cell].where)].append(record.seconds)
    cells = study.cells(scale)
    counts = [study.seeds(scale, cell) for cell in cells]
    measured = [seconds.get(_place(cell.where)) for cell in cells]
    minutes = sum(count * median(times) / 60 for count, times in zip(counts, measured, strict=True) if times)
    unmeasured = sum(count for count, times in zip(counts, measured, strict=True) if not times)
    return Cost(sum(counts), minutes, unmeasured)


def _place(where: Mapping[str, object]) -> str:
    return repr(sorted(where.items()))


def run_study(
    study: Study,
    scale: Scale,
    store: Store,
    *,
    seeds: int | None = None,
    engine: Engine = "local",
    data_dir: Path | None = None,
    workers: int | None = None,
    collect: bool = False,
    earlier: StudyResult | None = None,
    command: str = "",
    listener: StudyListener | None = None,
) -> StudyResult:
    """Run what has no result yet, and decide the claims.

    Args:
        study: What to run.
        scale: Which of its grids.
        store: Where results are kept.
        seeds: Run at most so many seeds per cell; None for all that the design has. Claims are decided by all.
        engine: `local` for the cores of this machine, `ray` for a cluster.
        data_dir: Where data is looked for; None for the usual place.
        workers: Jobs at the same time; None for one per core.
        collect: Run nothing, and take what the earlier result and the store have.
        earlier: An earlier result, whose runs of the same jobs are not run again, also where the store is another.
        command: What computes these numbers again, for the record.
        listener: Receives progress.

    Raises:
        StudyError: If it cannot be run at all; a job that fails is in the result.
    """
    listener = listener or StudyListener()
    store.check()
    cells, planned = study.cells(scale), study.jobs(scale, seeds)
    keys = {place: key(job) for place, job in planned.items()}
    jobs = {keys[place]: job for place, job in planned.items()}
    names = {
        keys[number, seed]: ", ".join(
            f"{name} {value}" for name, value in {**cells[number].where, "seed": seed}.items()
        )
        for number, seed in reversed(planned)
    }
    runs = {} if earlier is None else _runs_of(earlier)
    ended = {name: done for name in jobs if (done := store.get(name) or runs.get(name)) is not None}
    reused = len(ended)
    listener.on_plan(len(jobs), reused)

    def on_done(name: str, done: JobOutcome) -> None:
        ended[name] = done
        listener.on_done(names[name], done)

    # Cell by cell, so that those which there is time for are whole.
    missing = {name: job for name, job in jobs.items() if name not in ended}
    if missing and not collect:
        run_jobs = _ray.run_jobs if engine == "ray" else _pool.run_jobs
        run_jobs(missing, store, data_dir, workers, on_done, lambda name: listener.on_start(names[name]))

    results: list[dict[int, JobResult]] = [{} for _ in cells]
    failures = []
    for (number, seed), name in keys.items():
        done = ended.get(name)
        if done is not None and done.result is not None:
            results[number][seed] = _timed(done.result)
        elif done is not None:
            failures.append(Failure(cells[number].where, seed, name, done.failure or "it has no result"))
    cell_results = [
        CellResult.of(cell.where, _shown(runs, study.panels), study.seeds(scale, cell))
        for cell, runs in zip(cells, results, strict=True)
    ]
    commit, modified = source_commit()
    return StudyResult(
        study=study.name,
        question=study.question,
        remark=study.remark,
        scale=scale,
        seeds=study.seeds(scale),
        first_seed=min((cell.first_seed for cell in cells), default=FIRST_SEED),
        command=command,
        version=__version__,
        commit=commit,
        modified=modified,
        run_commits=tuple(sorted({done.commit for done in ended.values() if done.commit})),
        runs=len(jobs),
        reused=reused,
        missing=len(jobs.keys() - ended.keys()),
        seconds=sum(done.seconds for done in ended.values()),
        columns=study.columns,
        panels=study.panels,
        findings=tuple(decide(claim, cell_results) for claim in study.claims),
        cells=tuple(cell_results),
        failures=tuple(failures),
        records={
            name: RunRecord(*place, ended[name].seconds, ended[name].commit)
            for place, name in reversed(keys.items())
            if name in ended and ended[name].result is not None
        },
    )


def _runs_of(result: StudyResult) -> dict[str, JobOutcome]:
    """The runs of a result by the keys of their jobs, with the curves and cosines that its file has."""
    return {
        name: JobOutcome(result.cells[record.cell].results[record.seed], record.seconds, commit=record.commit)
        for name, record in result.records.items()
        if record.cell < len(result.cells) and record.seed in result.cells[record.cell].results
    }


def _timed(result: JobResult) -> JobResult:
    """A result with the time to the frame as it is defined now, whatever it was when the run was kept."""
    epochs, deltas = (cast(Sequence[float], result.curve.get(name, ())) for name in ("epoch", "delta_of"))
    if "epochs_to_of" not in result.final or not deltas:
        return result
    return replace(result, final={**result.final, "epochs_to_of": crossing(epochs, deltas, FRAME_DISTANCE)})


def _shown(results: Mapping[int, JobResult], panels: Sequence[Panel]) -> dict[int, JobResult]:
    """Results with the curves that are drawn, and the cosines of the first seed: what a small file can hold."""
    drawn = {name for panel in panels for name in (panel.x, panel.quantity)} | {"epoch", "time"}
    first = min(results, default=None)
    return {
        seed: replace(
            result,
            curve={name: values for name, values in result.curve.items() if name in drawn},
            cosines=result.cosines if seed == first else None,
        )
        for seed, result in results.items()
    }
