"""A run on the terminal: what is known before it, how it goes, how it ended."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from orthoframe import training
from orthoframe.batches import RunCertificate
from orthoframe.cli._terminal import complain, flag, outliving_the_terminal, progress
from orthoframe.errors import InputError, OrthoframeError, Part, spelled


def run_training(settings: training.Settings | None, path: Path, tensorboard: bool, code: bool = False) -> int:
    """Train, or resume without settings, with a progress bar; the exit status."""
    on_epoch = _curves(path) if tensorboard else lambda _: None
    try:
        with training_bar() as bar, outliving_the_terminal():
            listener = _listener(bar, on_epoch)
            if settings is None:
                result = training.resume(path, listener, code=code)
            else:
                result = training.train(settings, path, listener)
    except (OrthoframeError, training.Interrupted, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and not (path / "config.json").exists():
            raise  # the run has not begun: there is nothing to resume
        if not training.is_first_process():
            return 0  # with another status, the first would be killed before it has said why
        if isinstance(error, OrthoframeError):
            complain(error)
            return 1 if isinstance(error, training.Stopped) else 2
        again = f"orthoframe train --resume {shlex.quote(str(path))}"
        print(f"orthoframe: interrupted; resume with: {again}", file=sys.stderr)
        return 130
    if result is not None:
        _print_result(result)
    return 0


def training_bar() -> Progress:
    """The bar of a run: epochs, loss, gap and distance, on a terminal only."""
    return progress(MofNCompleteColumn(), TextColumn("{task.fields[words]}", markup=False), TimeRemainingColumn())


def _listener(bar: Progress, on_epoch: Callable[[training.EpochRecord], None]) -> training.RunListener:
    """Show a run on a bar, and print what is known before it."""
    epochs = bar.add_task("epochs", total=None, words="")
    downloads: dict[str, Any] = {}

    def on_step(loop: training.Loop) -> None:
        records, words = loop.state.records, ""
        if records:
            delta = next((record.delta_of for record in reversed(records) if record.delta_of is not None), None)
            words = f"loss {records[-1].loss:.4f}"
            words += "" if records[-1].gap is None else f"  gap {records[-1].gap:.1e}"
            words += "" if delta is None else f"  Delta_GM {delta:.4f}"
        bar.update(epochs, completed=loop.state.epoch, total=loop.task.settings.epochs, words=words)

    def on_note(note: tuple[Part, ...]) -> None:
        print(f"orthoframe: {spelled(note, flag)}", file=sys.stderr)

    def on_data(name: str, done: int, total: int | None) -> None:
        if name not in downloads:
            downloads[name] = bar.add_task(name, total=total, words="")
        bar.update(downloads[name], completed=done, total=total)

    return training.RunListener(_print_opening, on_step, on_epoch, on_note, on_data)


def _curves(path: Path) -> Callable[[training.EpochRecord], None]:
    """Write each number of an epoch for TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard needs the package tensorboard: pip install 'orthoframe[tensorboard]'") from None
    writer: Any = None

    def on_epoch(record: training.EpochRecord) -> None:
        nonlocal writer
        if writer is None:  # not before the folder is the run's own
            writer = SummaryWriter(str(path / "tensorboard"))
        for name, value in asdict(record).items():
            if value is not None and name != "epoch":
                writer.add_scalar(name, value, record.epoch)
        writer.flush()

    return on_epoch


def _print_opening(task: training.Task, certified: RunCertificate, floor: float | None) -> None:
    """What is known before the first step."""
    settings, counts, epochs = task.settings, task.class_counts, certified.epochs
    channels, height, width = task.train.image_shape
    size = len(task.train) * channels * height * width / 2**30
    streamed = "" if task.train.held else f" ({size:.1f} GiB, read when they are needed)"
    kept = f" of {task.images:,}" if len(task.train) < task.images else ""
    print(
        f"{settings.data}: {len(task.train):,}{kept} images of {height} x {width} pixels{streamed}, "
        f"{len(counts)} classes "
        f"({max(counts):,} to {min(counts):,}); "
        f"{task.encoder_name}, {task.encoder.out_features} features, activation {settings.activation}, "
        f"precision {settings.precision}"
    )
    if settings.loss == "supcon":
        print(f"{certified.certificate.sentence()} ({epochs} epoch{'s' if epochs > 1 else ''} of batches)")
    if floor is not None:
        below = "" if task.encoder.nonnegative else "; features that may be negative can go below it"
        print(f"The floor of the loss is {floor:.6f}{below}.")
    sys.stdout.flush()


def _print_result(result: training.RunResult) -> None:
    geometry, test, last = result.evaluation.geometry, result.evaluation.tested, result.records[-1]
    verdict = result.diagnosis.record(flag)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("distance to the frame (Delta_GM)", f"{geometry.delta_of:.4g}")
    table.add_row("beta_NC", f"{geometry.beta_nc:.3g}")
    floor = "" if last.gap is None else f", {last.floor:.6f}, {last.gap:.2e}"
    table.add_row("loss, floor, gap" if floor else "loss", f"{last.loss:.6f}{floor}")
    table.add_row("balanced test accuracy", f"{test.balanced:.4f}")
    table.add_row("worst class", f"{test.worst:.4f} ({test.worst_class})")
    table.add_row("majority and minority half", f"{test.majority:.4f}, {test.minority:.4f}")
    table.add_row("dead rows, live dimensions", f"{last.dead_rows}, {last.live_dimensions} of {geometry.dim}")
    why = (f"  Why: {cause.sentence}" for cause in verdict.causes)
    print(verdict.sentence, *why, *(f"  Try: {cause.advice}" for cause in verdict.causes), sep="\n")
    Console(markup=False, emoji=False).print(table)  # the name of a class may look like either
    print(f"report: {result.folder / 'report.html'}")
