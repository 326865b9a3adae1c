"""A study, run: what has a result is taken from the store, the rest is computed, and the claims are decided."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from orthoframe.studies._jobs import OF, Job, Training, crossing, key
from orthoframe.studies._outcome import Failure, Outcome
from orthoframe.studies._store import Done, Store
from orthoframe.studies._study import Measured, Scale, Study, decide

Engine = Literal["local", "ray"]


@dataclass
class Watcher:
    """What wants to know how a study goes; every call is optional.

    Attributes:
        on_plan: Is told how many jobs there are, and how many of them have a result.
        on_start: Is told the name of a job that starts.
        on_done: Is told the name of a job that ended, and how.
    """

    on_plan: Callable[[int, int], None] | None = None
    on_start: Callable[[str], None] | None = None
    on_done: Callable[[str, Done], None] | None = None


def run_study(
    study: Study,
    scale: Scale,
    seeds: int | None,
    engine: Engine,
    store: Store,
    data_dir: Path | None,
    workers: int | None,
    progress: Watcher | None = None,
) -> Outcome:
    """Run what has no result yet, and decide the claims.

    Args:
        study: What to run.
        scale: Which of its grids.
        seeds: Of each cell; None for as many as the scale has.
        engine: `local` for the cores of this machine, `ray` for a cluster.
        store: Where results are kept.
        data_dir: Where data is looked for; None for the usual place.
        workers: Jobs at the same time; None for as many as there are cores.
        progress: Is told how it goes.

    Raises:
        StudyError: If it cannot be run at all; a job that fails is in the outcome.
    """
    progress = progress or Watcher()
    store.check()
    cells, planned = study.grid(scale), study.jobs(scale, seeds)
    keys = {place: key(job) for place, job in planned.items()}
    jobs = {keys[place]: job for place, job in planned.items()}
    names = {keys[place]: job_name(cells[place[0]].where, place[1]) for place in reversed(planned)}
    ended = {name: done for name in jobs if (done := store.get(name)) is not None}
    reused = len(ended)
    if progress.on_plan is not None:
        progress.on_plan(len(jobs), reused)

    def on_start(name: str) -> None:
        if progress.on_start is not None:
            progress.on_start(names[name])

    def on_done(name: str, done: Done) -> None:
        ended[name] = done
        if progress.on_done is not None:
            progress.on_done(names[name], done)

    missing = {name: job for name, job in jobs.items() if name not in ended}
    if missing:
        longest_first = dict(sorted(missing.items(), key=lambda item: -_cost(item[1])))
        _engine(engine)(longest_first, store, data_dir, workers, on_done, on_start)

    results: list[dict[int, Mapping[str, Any]]] = [{} for _ in cells]
    failures = []
    for (number, seed), name in keys.items():
        done = ended[name]
        if done.result is not None:
            results[number][seed] = _timed(done.result)
        else:
            failures.append(Failure(cells[number].where, seed, name, done.failure or "it has no result"))
    measured = tuple(Measured(cell.where, found) for cell, found in zip(cells, results, strict=True))
    return Outcome(
        study=study,
        scale=scale,
        seeds=study.seeds(scale) if seeds is None else seeds,
        cells=measured,
        findings=tuple(decide(claim, measured) for claim in study.claims),
        failures=tuple(failures),
        runs=len(jobs),
        reused=reused,
        seconds=sum(done.seconds for done in ended.values()),
        commits=tuple(sorted({done.commit for done in ended.values() if done.commit})),
    )


def _timed(result: dict[str, Any]) -> dict[str, Any]:
    """A result with the time to the frame as it is defined now, whatever it was when the run was kept."""
    final, curve = result.get("final", {}), result.get("curve", {})
    if "epochs_to_of" not in final or not curve.get("delta_of"):
        return result
    return {**result, "final": {**final, "epochs_to_of": crossing(curve["epoch"], curve["delta_of"], OF)}}


def job_name(where: Mapping[str, Any], seed: int) -> str:
    """What a job is called in front of people.

    Examples:
        >>> job_name({"data": "digits", "ratio": 10}, 0)
        'data digits, ratio 10, seed 0'
    """
    return ", ".join([*(f"{name} {value}" for name, value in where.items()), f"seed {seed}"])


def _engine(name: Engine) -> Callable[..., None]:
    """What runs jobs; loaded only when it is used."""
    if name == "ray":
        from orthoframe.studies._ray import run_jobs

        return run_jobs
    from orthoframe.studies._pool import run_jobs as run_here

    return run_here


def _cost(job: Job) -> float:
    """Roughly: enough to start the long ones first, or one of them would be waited for alone at the end."""
    if not isinstance(job, Training):
        return 0.0
    settings = job.settings
    return settings.epochs * settings.views * (1.0 if settings.model == "mlp" else 100.0)
