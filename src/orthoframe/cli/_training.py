"""A run on the terminal: what is known before it, how it goes, how it ended."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from orthoframe import training
from orthoframe.batches import RunCertificate
from orthoframe.cli._terminal import complain, flag, outliving_the_terminal, progress, seconds_since_start, wrapped
from orthoframe.errors import Call, Option, OrthoframeError, Part, brief, needs_extra, spelled
from orthoframe.geometry import Accuracy, Confusion
from orthoframe.reporting import write_run_report
from orthoframe.runs import EpochRecord, Question

_ALL, _WORST = 20, 5  # up to this many classes all accuracies are printed; of more, only the worst ones
_CONFUSIONS = 5  # that are printed


def run_training(settings: training.Settings | None, path: Path, *, tensorboard: bool, code: bool) -> int:
    """Train, or resume without settings, with a progress bar; the exit status."""
    on_epoch = _curves(path) if tensorboard else lambda _: None
    try:
        with training_bar() as bar, outliving_the_terminal():
            listener = _listener(bar, on_epoch)
            if settings is None:
                result = training.resume(path, listener, report=write_run_report, code=code)
            else:
                spent = seconds_since_start()
                _print_minutes(settings)
                result = training.train(settings, path, listener, report=write_run_report, code=code, spent=spent)
    except (OrthoframeError, training.Interrupted, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and not (path / "config.json").exists():
            raise  # the run has not begun: there is nothing to resume
        if not training.is_first_process():
            return 0  # with another status, the first would be killed before it has said why
        if isinstance(error, OrthoframeError):
            complain(error)
            return 1 if isinstance(error, training.Stopped) else 2
        print(f"orthoframe: interrupted; resume with: {flag(Call('resume', path))}", file=sys.stderr)
        return 130
    if result is not None:
        _print_result(result)
    return 0


def _print_minutes(settings: training.Settings) -> None:
    """How long the run takes, before it does anything, if that is what was asked for."""
    minutes = settings.usual_options()["minutes"]
    if isinstance(minutes, float) and training.is_first_process():
        others = flag(Option("minutes", "M")), flag(Option("epochs", "N")), flag(Option("steps", "N"))
        print(f"This takes {_minutes(minutes)} in all; {', '.join(others)} choose another length.", flush=True)


def _minutes(number: float) -> str:
    return f"{number:g} minute{'' if number == 1 else 's'}"


def training_bar() -> Progress:
    """The bar of a run: epochs, loss, gap, distance and accuracy, on a terminal only."""
    return progress(MofNCompleteColumn(), TextColumn("{task.fields[words]}", markup=False), TimeRemainingColumn())


def _listener(bar: Progress, on_epoch: Callable[[EpochRecord], None]) -> training.RunListener:
    """Show a run on a bar, or in a line per measurement where there is no terminal, after what is known before it."""
    epochs = bar.add_task("epochs", total=None, words="")
    downloads: dict[str, Any] = {}

    def on_start(task: training.Task, certified: RunCertificate, floor: float | None) -> None:
        bar.update(epochs, total=task.settings.schedule.epochs)
        _print_opening(task, certified, floor)

    def on_step(loop: training.Loop) -> None:
        bar.update(epochs, completed=loop.state.epoch, words=_epoch_words(loop.state.records))

    def after_epoch(record: EpochRecord) -> None:
        if bar.disable and record.delta_of is not None:
            print(f"epoch {record.epoch} of {bar.tasks[epochs].total}: {_epoch_words([record])}", flush=True)
        on_epoch(record)

    def on_note(note: tuple[Part, ...]) -> None:
        print(f"orthoframe: {spelled(note, flag)}", file=sys.stderr)

    def on_data(name: str, done: int, total: int | None) -> None:
        if name not in downloads:
            if bar.disable and ("as pixels" in name or "features" in name):
                print(name, flush=True)  # before a wait that no bar shows
            downloads[name] = bar.add_task(name, total=total, words="")
        bar.update(downloads[name], completed=done, total=total)

    return training.RunListener(
        on_start=on_start, on_step=on_step, on_epoch=after_epoch, on_note=on_note, on_data=on_data
    )


def _epoch_words(records: Sequence[EpochRecord]) -> str:
    """The last epoch in a few words, with the geometry of the last one that measured it."""
    if not records:
        return ""
    last = records[-1]
    words = [f"loss {last.loss:.4f}"]
    if last.gap is not None:
        words.append(f"gap {last.gap:.1e}")
    measured = next((record for record in reversed(records) if record.delta_of is not None), None)
    if measured is not None:
        words.append(f"Delta_GM {measured.delta_of:.4f}")
        kind, accuracy = "validation", measured.validation_balanced_accuracy
        if accuracy is None:
            kind, accuracy = "test", measured.test_balanced_accuracy
        words += [] if accuracy is None else [f"{kind} accuracy {accuracy:.3f}"]
    return "  ".join(words)


def _curves(path: Path) -> Callable[[EpochRecord], None]:
    """Write each number of an epoch for TensorBoard."""
    with needs_extra("--tensorboard", "tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    writer: Any = None

    def on_epoch(record: EpochRecord) -> None:
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
    epochs_of_run = task.settings.schedule.epochs
    settings, counts, epochs = task.settings, task.class_counts, certified.epochs
    channels, height, width = task.preparation.image_shape
    size = len(task.train) * channels * height * width / 2**30
    streamed = "" if task.train.held else f" ({size:.1f} GiB, streamed)"
    kept = f" of {task.images:,}" if len(task.train) < task.images else ""
    print(
        f"{settings.images.data}: {len(task.train):,}{kept} images of {height} x {width} pixels{streamed}, "
        f"{len(counts)} classes "
        f"({max(counts):,} to {min(counts):,}); "
        f"{task.encoder_name}, {task.encoder.out_features} features, activation {settings.encoder.activation}, "
        f"precision {settings.machine.precision}"
    )
    if task.validation is not None:
        print(f"{len(task.validation):,} more images for validation, and {len(task.test):,} for the test at the end.")
    if task.augment.flip and settings.images.is_own:
        why = "a linear classifier knows them as well as the images themselves"
        print(f"Mirror images are trained on, too: {why} ({flag(Option('flip', 'no'))} leaves them out).")
    shares, chances = task.shares(), task.plan.chances()
    if settings.batches.scheme == "weighted" and shares.min() < shares.max():
        print(
            f"Rows are sampled in proportion to class size^{task.plan.power:g}: each class gets "
            f"{100 * shares.min():.3g} to {100 * shares.max():.3g} % of the rows; each image is shown "
            f"{chances.min():.3g} to {chances.max():.3g} times per epoch on average."
        )
    minutes, steps = settings.schedule.minutes, settings.schedule.steps
    if minutes is not None and steps:
        of_width = settings.encoder.width
        network = "" if of_width is None else f" with a network of width {of_width}"
        print(
            f"In {_minutes(minutes)} there is time for about {epochs_of_run * steps[0]:,} steps of "
            f"{settings.batches.batch_size} images{network}."
        )
    if settings.objective.has_certificate:
        print(f"{certified.sentence()} ({epochs} epoch{'s' if epochs > 1 else ''} checked)")
    if floor is not None:
        below = "" if task.encoder.nonnegative else "; features that may be negative can go below it"
        print(f"The floor of the loss is {floor:.6f}{below}.")
    print("Delta_GM is the distance to the frame (0: class means form an orthogonal frame); accuracies are balanced.")
    sys.stdout.flush()


def _print_result(result: training.RunResult) -> None:
    evaluation, last, final = result.evaluation, result.records[-1], result.diagnosis.test
    geometry, test = evaluation.geometry, final.accuracy
    verdict = result.diagnosis.record(flag)
    rows = [("distance to the frame (Delta_GM)", f"{geometry.delta_of:.4g} (0: an orthogonal frame)")]
    if evaluation.raw_delta_of is not None:
        rows.append(("Delta_GM without normalisation", f"{evaluation.raw_delta_of:.4g} (above: with)"))
    rows.append(("beta_NC", f"{geometry.beta_nc:.3g} (0: classes have collapsed)"))
    floor = "" if last.gap is None else f", {last.floor:.6f}, {last.gap:.2e}"
    rows.append(("loss, floor, gap" if floor else "loss", f"{last.loss:.6f}{floor}"))
    rows.append(("dead rows, live dimensions", f"{last.dead_rows}, {last.live_dimensions} of {geometry.dim}"))
    accuracies = []
    if evaluation.adjust:
        fitted = ", fitted on validation images" if result.settings.evaluation.adjust == "fit" else ""
        accuracies.append(("logit adjustment", f"{evaluation.adjust:.4g} (lambda{fitted})"))
    if evaluation.validation is not None:
        validation = f"{evaluation.validation.balanced:.4f}{evaluation.validation.over()}"
        accuracies.append(("balanced validation accuracy", validation))
    accuracies.append(("balanced test accuracy", f"{test.balanced:.4f}{test.over()}"))
    if final.calibration_error is not None:
        accuracies.append(("expected calibration error", f"{final.calibration_error:.4f} (0: perfectly calibrated)"))
    accuracies.append(("worst class", f"{test.worst:.4f} ({brief(test.worst_class, 60)})"))
    accuracies.append(("majority and minority half", f"{test.majority:.4f}, {test.minority:.4f}"))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for row in [*accuracies, *rows] if verdict.question is Question.ACCURACY else [*rows, *accuracies]:
        table.add_row(*row)
    why = (f"  Why: {cause.sentence}" for cause in verdict.causes)
    remedies = (f"  Try: {cause.advice}" for cause in verdict.causes)
    print(*map(wrapped, (verdict.sentence, *why, *remedies)), sep="\n")
    if verdict.geometry:
        print(wrapped(verdict.geometry))
    Console(markup=False, emoji=False).print(table)  # the name of a class may look like either
    _print_classes(test, final.confusion)
    print(f"report: {result.folder / 'report.html'}")


def _print_classes(test: Accuracy, confusion: Confusion) -> None:
    """Test accuracies of all classes, or of the worst ones of many; and the largest confusions."""
    rows = list(zip(confusion.names, test.by_class, confusion.rows, strict=True))
    title = "test accuracy of each class"
    if len(rows) > _ALL:
        tested = [(name, rate, count) for name, rate, count in rows if rate is not None]
        rows = list(sorted(tested, key=lambda row: row[1])[:_WORST])
        title = f"test accuracy of the {len(rows)} worst of {len(test.by_class)} classes"
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    for name, rate, count in rows:
        shown = "-" if rate is None else f"{rate:.3f}"
        table.add_row(brief(name, 40), shown, f"{count:,} images" if count != 1 else "1 image")
    console = Console(markup=False, emoji=False)
    print(f"{title}:")
    console.print(table)
    if confusion.cells:
        print("largest confusions:", *(f"  {brief(pair)}" for pair in confusion.sentences(_CONFUSIONS)), sep="\n")
