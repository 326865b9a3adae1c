"""The report of runs: the values that its templates show."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from orthoframe.errors import InputError
from orthoframe.files import remove_leftovers, write_atomic
from orthoframe.reporting import _pictures as pictures
from orthoframe.reporting._pages import write_page
from orthoframe.reporting._plotly import Plot, plot
from orthoframe.reporting.style import NOTHING
from orthoframe.runs import Question, Run, VerdictRecord, read_run

_LISTED = 12  # classes in a table


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
    if len(runs) == 1:
        write_page("run.html", file, title=runs[0].name, **_one(runs[0]))
    else:
        write_page("runs.html", file, title=f"{len(runs)} runs", **_several(runs))


def write_run_report(folder: Path) -> None:
    """Write `report.html` and `figures/training.png` into the folder of a run."""
    from orthoframe.reporting._figures import training_figure

    run = read_run(folder)
    write_report([run], folder / "report.html")
    (folder / "figures").mkdir(exist_ok=True)
    remove_leftovers(folder / "figures")
    figure = training_figure(run)
    write_atomic(folder / "figures" / "training.png", lambda file: figure.savefig(file, format="png", dpi=160))


def _one(run: Run) -> dict[str, Any]:
    plots = _charts([run])
    end = run.measurements[-1] if run.measurements else None
    if end is not None:
        names, owned = [entry.name for entry in end.train.classes], end.train.ownership
        if end.train.cosines is not None:
            plots["cosines"] = plot(pictures.cosine_slider(run.measurements))
        plots["ownership"] = plot(pictures.ownership_map(names, owned.owners, owned.purity))
        plots["accuracy"] = plot(pictures.accuracy_bars(run))
    test = run.verdict.test
    if test is not None and 1 < len(test.confusion.names) <= pictures.NAMED:
        plots["confusion"] = plot(pictures.confusion_map(test.confusion))
    return {
        "run": run,
        "test": test,
        "listed": _LISTED,
        "end": end,
        "named": end is not None and len(end.train.classes) <= pictures.NAMED,
        "config": {name: _setting(value, name) for name, value in run.config.items()},
        "environment": _environment(run),
        **_shared([run]),
        "plots": plots,
    }


def _environment(run: Run) -> dict[str, str]:
    used = {} if run.environment is None else asdict(run.environment)
    versions = {f"{name} version": version for name, version in used.pop("versions", {}).items()}
    return {name: _setting(value, name) for name, value in {**used, **versions}.items()}


def _several(runs: Sequence[Run]) -> dict[str, Any]:
    runs = _distinct(runs)
    keys = list(dict.fromkeys(key for run in runs for key in run.config))
    differing = [key for key in keys if len({_setting(run.config.get(key), key) for run in runs}) > 1]
    return {
        "runs": runs,
        "colours": [pictures.run_style(number)[0] for number in range(len(runs))],
        "differing": {key: [_setting(run.config.get(key), key) for run in runs] for key in differing},
        "measured": any(run.measurements for run in runs),
        "maps": {
            number: plot(pictures.last_cosines(f"plot-cosines-{number}", run.measurements[-1]))
            for number, run in enumerate(runs)
            if run.measurements and run.measurements[-1].train.cosines is not None
        },
        **_shared(runs),
        "plots": {**_charts(runs), "accuracy": plot(pictures.compared_accuracy_bars(runs))},
    }


def _shared(runs: Sequence[Run]) -> dict[str, Any]:
    """What the parts of both pages need."""
    return {
        "status": _status,
        "accuracies": [run.accuracy for run in runs],
        "seconds": [sum(value for _, value in run.column("seconds")) for run in runs],
        "floors": any(run.last("floor") is not None for run in runs),
        "below": sum(value < 0 for run in runs for _, value in run.column("gap")),
    }


def _charts(runs: Sequence[Run]) -> dict[str, Plot]:
    return {
        "loss": plot(pictures.loss_curves(runs)),
        "gap": plot(pictures.gap_curves(runs)),
        "frame": plot(pictures.frame_curves(runs)),
        "collapse": plot(pictures.collapse_curves(runs)),
    }


def _status(verdict: VerdictRecord) -> str:
    """The colour of a verdict."""
    if verdict.question is Question.ACCURACY:
        return "wait" if verdict.causes else "good"
    if verdict.reached:
        return "good"
    return "wait" if verdict.ending is not None and verdict.ending.waiting else "bad"


def _distinct(runs: Sequence[Run]) -> list[Run]:
    """The runs, with a number behind names that several have."""
    often, seen, named = Counter(run.name for run in runs), Counter[str](), []
    for run in runs:
        seen[run.name] += 1
        named.append(replace(run, name=f"{run.name} ({seen[run.name]})") if often[run.name] > 1 else run)
    return named


def _setting(value: Any, name: str = "") -> str:
    """A setting as a person writes it: a size as 32 x 48, a schedule as 0.1 to 0.5."""
    if value is None:
        return NOTHING
    if isinstance(value, list) and len(value) == 2:
        return (" x " if name == "size" else " to ").join(map(json.dumps, value))
    return value if isinstance(value, str) else json.dumps(value)
