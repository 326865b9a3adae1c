"""A run from its settings to its report."""

import functools
import os
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from orthoframe._files import write_atomic, write_json
from orthoframe._version import __version__
from orthoframe.batches import RunCertificate
from orthoframe.data import Data, Progress
from orthoframe.errors import Option, OrthoframeError, Part
from orthoframe.geometry import LinearClassifier, NearestCentre
from orthoframe.training._checkpoint import Checkpoint
from orthoframe.training._diagnosis import Diagnosis, diagnose
from orthoframe.training._encoder_file import Architecture, TrainedEncoder, save_encoder
from orthoframe.training._evaluation import Evaluation
from orthoframe.training._folder import CHECKPOINT, PREVIOUS, RunFolder
from orthoframe.training._loop import Loop, NonFiniteLoss
from orthoframe.training._processes import check_precision, find_processes, precision_is_emulated, start
from orthoframe.training._records import NON_FINITE_FILE, EpochRecord, RunEnvironment
from orthoframe.training._settings import Settings
from orthoframe.training._stopping import refusals_named, signals_heard, stopped
from orthoframe.training._task import Task, make_task
from orthoframe.training._throughput import epochs_in
from orthoframe.training._unused import check_used

_SAVE_SECONDS = 15.0  # between two checkpoints


class Interrupted(Exception):
    """Ctrl-C, or a signal to end: the state is saved."""


def _nothing(*_: object) -> None: ...


@dataclass(frozen=True)
class RunListener:
    """Functions that are called as a run proceeds, in its first process; each is optional.

    Attributes:
        on_start: Before the first step, with the task, what its batches guarantee, and the floor of the loss in the
            first epoch (None for a loss without one).
        on_step: After each step, with the loop.
        on_epoch: After each epoch, with its record.
        on_note: With the parts of a sentence that the user should read.
        on_data: While data is downloaded or read; see `orthoframe.data.Progress`.
    """

    on_start: Callable[[Task, RunCertificate, float | None], None] = _nothing
    on_step: Callable[[Loop], None] = _nothing
    on_epoch: Callable[[EpochRecord], None] = _nothing
    on_note: Callable[[tuple[Part, ...]], None] = _nothing
    on_data: Progress = _nothing


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    folder: Path
    settings: Settings
    environment: RunEnvironment
    certificate: RunCertificate
    records: tuple[EpochRecord, ...]  # rows of metrics.csv
    evaluation: Evaluation
    diagnosis: Diagnosis


def train(
    settings: Settings,
    out: Path,
    listener: RunListener | None = None,
    *,
    data: Data | None = None,
    report: bool = True,
    code: bool = False,
    spent: float = 0.0,
) -> RunResult | None:
    """Train, and keep everything in a folder.

    Killed at any moment, a run can be resumed, and ends with the same bytes.

    Args:
        settings: What to do.
        out: The folder; it must not have a run in it.
        listener: Receives progress.
        data: Images from Python instead of those that `settings.data` names; `as_data` makes them of a `Dataset` of
            torch.
        report: Whether to write `report.html` and `figures/training.png` at the end.
        code: Whether a Python function may be called that the encoder of `settings.init` names as its backbone.
        spent: Seconds of `settings.minutes` that are gone already.

    Returns:
        How it ended; None in processes other than the first.

    Raises:
        OrthoframeError: With a sentence, if it cannot start: `OptionError` for settings that are not allowed,
            `DataError` for data that cannot be read, `TrainingError` otherwise; `Stopped` if it had started.
        Interrupted: After Ctrl-C, SIGTERM or SIGHUP, when the state has been saved.
    """
    settings.check()
    check_used(settings, data)
    # Absolute paths, because it may be resumed from elsewhere.
    if data is not None:
        settings = replace(settings, data=data.name)
    return _run(settings.absolute(), RunFolder(Path(out)), False, listener or RunListener(), report, data, code, spent)


def resume(
    out: Path,
    listener: RunListener | None = None,
    *,
    data: Data | None = None,
    report: bool = True,
    code: bool = False,
) -> RunResult | None:
    """Resume the run in a folder, with the settings that it has; see `train`.

    A run that has ended writes again what is missing. The folder and the data may have been moved, and another number
    of processes may share the run; a `TrainingError` names settings, pixels, labels or an order that have changed.

    With `code`, a Python function that the settings name as their backbone is imported and called; a folder from
    somebody else may name any.
    """
    folder = RunFolder(Path(out))
    return _run(folder.settings(), folder, True, listener or RunListener(), report, data, code)


def _run(
    settings: Settings,
    folder: RunFolder,
    resumed: bool,
    listener: RunListener,
    report: bool,
    data: Data | None,
    code: bool,
    spent: float = 0.0,
) -> RunResult | None:
    """From the settings to the report, in each of the processes that share the run."""
    begun = time.monotonic() - spent
    before = folder.environment() if resumed else None
    processes = find_processes(settings.devices if before is None else before.processes, resumed)
    with refusals_named(folder.path), ExitStack() as held:
        # What a process can do alone comes before others are started, so that a refusal needs none of them.
        task, checkpoint, refusal = None, None, None
        complaints: list[str] = []
        try:
            if not resumed:
                folder.check_free()
            check_precision(settings.precision)
            if resumed:  # before data is loaded and an encoder made, which may be others than they were
                folder.load_checkpoint(lambda found: found.check_settings(settings))
            task = make_task(settings, processes.count, listener.on_data, data, code=code, resumed=resumed)
            if processes.first:
                held.enter_context(folder.opened(resumed))
            if resumed:
                checkpoint, complaints = folder.load_checkpoint(functools.partial(Checkpoint.check, task=task))
        except OrthoframeError as error:
            refusal = error
        fabric = start(processes, settings.precision, refusal)
        assert task is not None  # otherwise there is a refusal
        listener = listener if fabric.global_rank == 0 else RunListener()

        if settings.minutes is not None:
            left = 60 * settings.minutes - (time.monotonic() - begun)
            planned = fabric.broadcast(epochs_in(left, task, fabric, report=report))
            task = task.lasting(planned.epochs)
            if not planned.fits:
                minutes = max(0.1, (time.monotonic() - begun + planned.seconds) / 60)
                need = f" is too short: one epoch takes about {minutes:.1f} minutes with the start and the report, "
                listener.on_note((Option("minutes", settings.minutes), need, "and is trained anyway"))
        settings, certified = task.settings, task.certificate()
        loop = Loop(task, fabric)
        if checkpoint is not None:
            loop.restore(checkpoint)
        for complaint in complaints:
            listener.on_note((f"{complaint}; resuming from the previous one",))
        if complaints and fabric.global_rank == 0:  # the next save would lose the one that is whole
            os.replace(folder.path / PREVIOUS, folder.path / CHECKPOINT)
        versions = {"orthoframe": __version__, "python": platform.python_version(), "torch": torch.__version__}
        environment = RunEnvironment(processes.count, fabric.device.type, settings.precision, versions)
        for note in _notes(loop, before, environment):
            listener.on_note(note)
        if fabric.global_rank == 0:
            if not resumed:  # not earlier: a start that failed leaves no run behind
                write_json(folder.path / "config.json", settings.to_dict())
            write_json(folder.path / "run.json", asdict(environment))
            if not settings.linear_classifier:  # which compares no rows with each other
                about = {"epochs": certified.epochs, "conclusive": certified.conclusive}
                write_json(folder.path / "certificate.json", {**certified.certificate.to_dict(), **about})
        listener.on_start(task, certified, loop.epoch_floor() if loop.objective.has_floor else None)

        _train(loop, folder, listener)
        if fabric.global_rank != 0:
            return None

        evaluation = loop.evaluate()
        diagnosis = diagnose(task, certified, loop.state.records, evaluation)
        save_encoder(folder.path, _handed_out(task, evaluation))
        write_json(folder.path / "verdict.json", asdict(diagnosis.record()))
        if report:
            _write_report(folder.path)
        records = tuple(loop.state.records)
        return RunResult(folder.path, settings, environment, certified, records, evaluation, diagnosis)


def _handed_out(task: Task, found: Evaluation) -> TrainedEncoder:
    """The encoder, and what others need to use it."""
    settings, rule = task.settings, found.rule
    assert settings.head is not None  # it is decided with the task
    made = Architecture(
        settings.model,
        settings.width,
        settings.head,
        settings.features,
        settings.activation,
        getattr(task.encoder.backbone, "config", None),
        settings.head_norm,
    )
    shares, adjust = None, 0.0
    if isinstance(rule, NearestCentre) and rule.shares is not None:
        shares, adjust = tuple(torch.as_tensor(rule.shares).tolist()), rule.adjust
    return TrainedEncoder(
        task.encoder,
        found.centres,
        task.train.classes,
        task.preparation,
        task.normaliser,
        made,
        found.calibration,
        shares,
        adjust,
        rule if isinstance(rule, LinearClassifier) else None,
    )


def _notes(loop: Loop, before: RunEnvironment | None, now: RunEnvironment) -> list[tuple[Part, ...]]:
    """What the user should know before the first step."""
    notes = loop.task.notes()
    if before is not None and before.processes != now.processes:
        notes.append((f"the run was shared by {before.processes} processes before, and by {now.processes} now",))
    if loop.local_statistics:
        note = "BatchNorm statistics are per process, each of which has a part of every batch"
        notes.append((f"{note} ({now.processes} processes); SyncBatchNorm needs GPUs",))
    precision = loop.task.settings.precision
    if precision_is_emulated(precision, now.device):
        slow = " is emulated, because this processor has no bfloat16 instructions; "
        notes.append((Option("precision", precision), slow, Option("precision", "32"), " is many times faster"))
    return notes


def _train(loop: Loop, folder: RunFolder, listener: RunListener) -> None:
    """Epoch after epoch, with a checkpoint from time to time and at the end."""
    saved, first = time.monotonic(), loop.fabric.global_rank == 0
    epochs, told = loop.task.settings.num_epochs, loop.state.epoch

    def save() -> None:
        nonlocal saved
        if first and loop.finite():  # otherwise the next loss is not, and stops the run
            # In this order: a resumed run that finds the last checkpoint need not write the table again.
            folder.write_metrics(loop.state.records, loop.state.measurements)
            folder.save_checkpoint(loop.checkpoint())
        saved = time.monotonic()

    def on_step() -> None:
        listener.on_step(loop)
        if loop.cold:
            listener.on_note(loop.cold)
            loop.cold = ()
        due = time.monotonic() - saved > _SAVE_SECONDS
        if not loop.may_save(due or stop.is_set()):
            return
        if loop.any_process(stop.is_set()):
            save()
            raise Interrupted
        if due:
            save()

    if loop.state.epoch == epochs:
        if first:  # they may be missing or broken
            folder.write_metrics(loop.state.records, loop.state.measurements)
        return
    with signals_heard() as stop:
        if loop.state.epoch == 0 and loop.state.steps == 0:
            save()  # whatever happens, there is something to resume from
        while loop.state.epoch < epochs:
            try:
                record = loop.run_epoch(on_step)
                if record.epoch > told:
                    listener.on_epoch(record)
                    told = record.epoch
            except NonFiniteLoss as error:
                if not loop.careful:
                    # Weights have been spoiled since. Once more from the last checkpoint, up to that step.
                    loop.careful = True
                    last = loop.fabric.broadcast(folder.load_checkpoint()[0] if first else None)
                    assert last is not None  # a run starts with one
                    loop.restore(last)
                    continue
                if not first:
                    raise
                folder.write_metrics(loop.state.records, loop.state.measurements)  # for the report
                file = folder.path / NON_FINITE_FILE
                write_json(file, asdict(error.batch))
                raise NonFiniteLoss(error.batch, file) from None
        save()


def _write_report(path: Path) -> None:
    try:
        from orthoframe.reporting import read_run, training_figure, write_report

        run = read_run(path)
        write_atomic(path / "report.html", lambda file: write_report([run], file))
        os.makedirs(path / "figures", exist_ok=True)
        figure = training_figure(run)
        write_atomic(path / "figures" / "training.png", lambda file: figure.savefig(file, format="png", dpi=160))
    except Exception as error:  # of any kind: an import without memory does not always end with a MemoryError
        raise stopped(path, "the report cannot be written", error, f"everything else is in {path}") from error
