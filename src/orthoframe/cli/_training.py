"""A run on the terminal: what is known before it, how it goes, how it ended."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from orthoframe._atomic import write_atomic
from orthoframe.batches import Certificate
from orthoframe.errors import InputError, TrainingError
from orthoframe.training import Interrupted, Outcome, Settings, Stopped, Watcher, train
from orthoframe.training._loop import Loop
from orthoframe.training._processes import is_first_process
from orthoframe.training._setup import Task


def run_training(settings: Settings | None, path: Path, tensorboard: bool) -> int:
    """Train with a progress bar and write the report; the exit status."""
    on_epoch = _curves(path) if tensorboard else None
    with training_bar() as bar:
        try:
            outcome = train(settings, path, training_watcher(bar, on_epoch))
            if outcome is not None:
                _write_report(path)
        except (TrainingError, Interrupted) as error:
            return _failed(error, path)
        except OSError as error:
            again = f"once there is room, go on with --resume {path}"
            return _failed(Stopped(f"the report cannot be written: {error.strerror or error}; {again}"), path)
        except KeyboardInterrupt:  # before the first step or after the last, where nothing is lost
            if not (path / "config.json").exists():
                raise
            return _failed(Interrupted(), path)
    if outcome is not None:
        _print(outcome)
    return 0


def _failed(error: TrainingError | Interrupted, path: Path) -> int:
    """Say it, in the first of several processes; the exit status."""
    if not is_first_process():
        return 0  # with another status, the first would be killed before it has said it
    if isinstance(error, Interrupted):
        again = f"orthoframe train --resume {shlex.quote(str(path))}"
        print(f"orthoframe: interrupted; go on with: {again}", file=sys.stderr)
        return 130
    print(f"orthoframe: {error}", file=sys.stderr)
    return 1 if isinstance(error, Stopped) else 2


def training_bar() -> Progress:
    """The bar of a run: epochs, loss, gap and distance, on a terminal only."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def training_watcher(bar: Progress, on_epoch: Callable[[dict[str, Any]], None] | None = None) -> Watcher:
    """What shows a run on a bar, and tells what is known before it."""
    epochs = bar.add_task("epochs", total=None, words="")
    downloads: dict[str, Any] = {}

    def on_data(name: str, done: int, total: int | None) -> None:
        if name not in downloads:
            downloads[name] = bar.add_task(name, total=total, words="")
        bar.update(downloads[name], completed=done, total=total)

    def on_start(task: Task, certificate: Certificate, over: int, floor: float | None) -> None:
        for line in _opening(task, certificate, over, floor):
            print(line, flush=True)

    def on_step(loop: Loop) -> None:
        state = loop.state
        row = state.rows[-1] if state.rows else {}
        delta = next((entry["delta_of"] for entry in reversed(state.rows) if "delta_of" in entry), None)
        words = f"loss {row['loss']:.4f}" if row else ""
        words += f"  gap {row['gap']:.1e}" if "gap" in row else ""
        words += f"  Delta_GM {delta:.4f}" if delta is not None else ""
        bar.update(epochs, completed=state.epoch, total=loop.task.settings.epochs, words=words)

    def on_note(note: str) -> None:
        print(f"orthoframe: {note}", file=sys.stderr)

    return Watcher(on_start=on_start, on_step=on_step, on_epoch=on_epoch, on_note=on_note, on_data=on_data)


def _curves(path: Path) -> Callable[[dict[str, Any]], None]:
    """What writes each number of an epoch for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard needs the package tensorboard: pip install 'orthoframe[tensorboard]'") from None
    writer: Any = None

    def on_epoch(row: dict[str, Any]) -> None:
        nonlocal writer
        if writer is None:  # not before the folder is the run's own
            writer = SummaryWriter(str(path / "tensorboard"))
        for name, value in row.items():
            if isinstance(value, int | float) and name != "epoch":
                writer.add_scalar(name, value, row["epoch"])
        writer.flush()

    return on_epoch


def _opening(task: Task, certificate: Certificate, over: int, floor: float | None) -> list[str]:
    """What is known before the first step."""
    settings, counts = task.settings, task.class_counts
    lines = [
        f"{settings.data}: {len(task.train):,} images of {len(counts)} classes ({max(counts):,} to {min(counts):,}); "
        f"{settings.model}, {task.encoder.out_features} features, activation {settings.activation}, "
        f"precision {settings.precision}"
    ]
    if settings.loss == "supcon":
        lines.append(f"{certificate.sentence()} ({over} epoch{'s' if over > 1 else ''} of batches)")
    if floor is not None:
        nature = "" if task.encoder.nonnegative else ", which features that may be negative can go below"
        lines.append(f"The floor of the loss is {floor:.6f}{nature}.")
    return lines


def _write_report(path: Path) -> None:
    from orthoframe.reporting import read_run, training_figure, write_report

    run = read_run(path)
    write_atomic(path / "report.html", lambda file: write_report([run], file))
    os.makedirs(path / "figures", exist_ok=True)
    figure = training_figure(run)
    write_atomic(path / "figures" / "training.png", lambda file: figure.savefig(file, format="png", dpi=160))


def _print(outcome: Outcome) -> None:
    found, row, verdict = outcome.measured, outcome.row, outcome.verdict
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("distance to the frame (Delta_GM)", f"{found.geometry.delta_of:.4g}")
    table.add_row("beta_NC", f"{found.geometry.beta_nc:.3g}")
    if "gap" in row:
        table.add_row("loss, floor, gap", f"{row['loss']:.6f}, {row['floor']:.6f}, {row['gap']:.2e}")
    else:
        table.add_row("loss", f"{row['loss']:.6f}")
    table.add_row("balanced test accuracy", f"{found.test.balanced:.4f}")
    table.add_row("worst class", f"{found.test.worst:.4f} ({found.test.worst_class})")
    table.add_row("majority and minority half", f"{found.test.majority:.4f}, {found.test.minority:.4f}")
    table.add_row("dead rows, live dimensions", f"{row['dead_rows']}, {row['live_dimensions']} of {found.geometry.dim}")
    print(verdict["verdict"])
    for title, items in (("Why", verdict["causes"]), ("Try", verdict["advice"])):
        for item in items:
            print(f"  {title}: {item}")
    Console(markup=False, emoji=False).print(table)  # the name of a class may look like either
    print(f"report: {outcome.folder / 'report.html'}")
