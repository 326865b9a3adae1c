"""A run from its settings to its verdict."""

import functools
import platform
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from orthoframe import __version__
from orthoframe.batches import BatchPlan, RunCertificate
from orthoframe.data import Data, Progress
from orthoframe.errors import Option, OptionError, OrthoframeError, Part
from orthoframe.runs import EpochRecord, RunEnvironment, RunFolder, read_epochs, save_encoder
from orthoframe.training._diagnosis import Diagnosis, diagnose
from orthoframe.training._evaluation import Evaluation
from orthoframe.training._fields import AUTO, names_of
from orthoframe.training._images import ImageSettings, image_kind
from orthoframe.training._loop import Loop, check_checkpoint, check_settings
from orthoframe.training._objectives import Objective
from orthoframe.training._pace import Pace
from orthoframe.training._processes import (
    Interrupted,
    NonFiniteLoss,
    check_precision,
    find_processes,
    one_thread,
    precision_is_emulated,
    refusals_named,
    signals_heard,
    start_processes,
    stopped,
)
from orthoframe.training._recipes import data_of
from orthoframe.training._settings import Settings
from orthoframe.training._start import make_task
from orthoframe.training._task import Task

SAVE_SECONDS = 15.0
"""Between two checkpoints."""


def _nothing(*_: object) -> None: ...


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
    plan: BatchPlan | None = None,
    report: Callable[[Path], None] | None = None,
    code: bool = False,
    spent: float = 0.0,
    save_seconds: float = SAVE_SECONDS,
) -> RunResult | None:
    """Train, and keep everything in a folder.

    Killed at any moment, a run can be resumed, and ends with the same bytes.

    Args:
        settings: What to do.
        out: The folder; it must not have a run in it.
        listener: Receives progress.
        data: Images from Python, in place of those that the settings name; `as_data` makes them of a `Dataset` of
            torch.
        plan: Batches of the training images, which decide `settings.batches`; each has to have one view, or as many
            as the last epoch has.
        report: Called with the folder at the end, such as `orthoframe.reporting.write_run_report`.
        code: Whether a Python function may be called that the encoder to start from names as its backbone.
        spent: Seconds of `minutes` that are gone already.
        save_seconds: Between two checkpoints.

    Returns:
        How it ended; None in processes other than the first.

    Raises:
        OrthoframeError: With a sentence, if it cannot start: `OptionError` for settings that are not allowed,
            `DataError` for data that cannot be read, `TrainingError` otherwise; `Stopped` if it had started.
        Interrupted: After Ctrl-C, SIGTERM or SIGHUP, when the state has been saved.
    """
    settings.check()
    if data is not None:
        settings = _with_data(settings, data)
    if plan is not None:
        for name in settings.batches.asked():
            raise OptionError(Option(name), " has no effect, because the plan decides it; leave it out")
    settings = settings.absolute()  # it may be resumed from elsewhere
    make = functools.partial(make_task, settings, data=data, plan=plan, code=code)
    return _run(settings, RunFolder(Path(out)), make, listener, report, save_seconds, spent=spent)


def resume(
    out: Path,
    listener: RunListener | None = None,
    *,
    data: Data | None = None,
    plan: BatchPlan | None = None,
    objective: Objective | None = None,
    report: Callable[[Path], None] | None = None,
    code: bool = False,
    save_seconds: float = SAVE_SECONDS,
) -> RunResult | None:
    """Resume the run in a folder, with the settings that it has; see `train`.

    A run that has ended writes again what is missing. The folder and the data may have been moved, and another number
    of processes may share the run; a `TrainingError` names settings, pixels, labels or an order that have changed.
    The encoder that it started from, and the files of a backbone, are not read again.
    What came from Python (`data`, `plan`, an `objective` of your own) has to be given again.

    With `code`, a Python function that the settings name as their backbone is imported and called; a folder from
    somebody else may name any.
    """
    folder = RunFolder(Path(out))
    settings = folder.read_config(functools.partial(Settings.from_dict, objective=objective))
    make = functools.partial(make_task, settings, data=data, plan=plan, code=code, resumed=True)
    return _run(settings, folder, make, listener, report, save_seconds, resumed=True)


def _with_data(settings: Settings, data: Data) -> Settings:
    """Settings for images from Python, which are read already."""
    images = settings.images
    if images.data not in (data_of(settings.recipe), data.name):
        raise OptionError(Option("data", images.data), " and images from Python; leave one of them out")
    of_kind = {*names_of(images)} - {*names_of(ImageSettings)}
    for name in sorted(of_kind | {"validation"}):  # which decide how images are read
        if getattr(images, name) is not AUTO:
            where = ", because the images from Python are ready; give it to load_data or as_data"
            raise OptionError(Option(name), " has no effect", where)
    options = {name: value for name, value in images.asked().items() if name != "data"}
    return replace(settings, images=image_kind(data.name)(data=data.name, **options))


def _run(
    settings: Settings,
    folder: RunFolder,
    make: Callable[..., Task],
    listener: RunListener | None,
    report: Callable[[Path], None] | None,
    save_seconds: float,
    *,
    resumed: bool = False,
    spent: float = 0.0,
) -> RunResult | None:
    """From the settings to the verdict, in each of the processes that share the run; `make` makes its task."""
    begun, listener = time.monotonic() - spent, listener or RunListener()
    before = folder.environment() if resumed else None
    machine = settings.machine.with_usual()
    processes = find_processes(machine.devices if before is None else before.processes, resumed)
    with refusals_named(folder.path), ExitStack() as stack:
        # What a process can do alone comes before others are started, so that a refusal needs none of them.
        task, checkpoint, refusal = None, None, None
        complaints: list[str] = []
        try:
            if not resumed:
                folder.check_free()
            check_precision(machine.precision)
            if resumed:  # before data is loaded and an encoder made, which may be others than they were
                checkpoint, _ = folder.load_checkpoint(lambda each: check_settings(each, settings))
            task = make(processes=processes.count, progress=listener.on_data, checkpoint=checkpoint)
            if processes.first:
                stack.enter_context(folder.opened(resumed))
            if resumed:
                checkpoint, complaints = folder.load_checkpoint(functools.partial(check_checkpoint, task=task))
        except OrthoframeError as error:
            refusal = error
        fabric = start_processes(processes, machine.precision, refusal)
        assert task is not None  # otherwise there is a refusal
        listener = listener if fabric.global_rank == 0 else RunListener()
        notes = task.notes()  # of its images
        task = task.with_features(fabric.device, listener.on_data)

        stack.enter_context(one_thread(task.is_small))
        loop, pace = Loop(task, fabric), None
        if checkpoint is not None:
            loop.restore(checkpoint, read_epochs(folder.path))
        for complaint in complaints:
            listener.on_note((f"{complaint}; resuming from the previous one",))
        if complaints and fabric.global_rank == 0:  # the next save would lose the one that is whole
            folder.restore_previous()
        if task.settings.schedule.is_open:
            thins = settings.usual_options()["measure_every"] is AUTO
            pace = Pace(task, fabric, begun - loop.seconds, has_report=report is not None, thins=thins)
            if not task.settings.schedule.steps:
                if note := pace.complaint(task):
                    listener.on_note(note)
                task = loop.task = pace.decided(task)
        certified = task.certificate()
        versions = {"orthoframe": __version__, "python": platform.python_version(), "torch": torch.__version__}
        environment = RunEnvironment(processes.count, fabric.device.type, machine.precision, versions)
        for note in [*notes, *_notes(loop, before, environment)]:
            listener.on_note(note)
        if fabric.global_rank == 0:  # not earlier: a start that failed leaves no run behind
            config = None if resumed else task.settings.to_dict()
            folder.write_start(config, environment, certified if task.settings.objective.has_certificate else None)
        listener.on_start(task, certified, loop.epoch_floor() if loop.criterion.has_floor else None)

        _train(loop, folder, listener, pace, save_seconds)
        task = loop.task
        if fabric.global_rank != 0:
            return None

        evaluation = loop.evaluate()
        diagnosis = diagnose(task, certified, loop.state.records, evaluation)
        save_encoder(folder.path, evaluation.trained_encoder(task))
        folder.write_verdict(diagnosis.record())
        if report is not None:
            try:
                report(folder.path)
            except Exception as error:  # of any kind: an import without memory does not always end with a MemoryError
                kept = f"everything else is in {folder.path}"
                raise stopped(folder.path, "the report cannot be written", error, kept) from error
        return RunResult(
            folder=folder.path,
            settings=task.settings,
            environment=environment,
            certificate=certified,
            records=tuple(loop.state.records),
            evaluation=evaluation,
            diagnosis=diagnosis,
        )


def _notes(loop: Loop, before: RunEnvironment | None, now: RunEnvironment) -> list[tuple[Part, ...]]:
    """What the user should know of the processes and of what computes."""
    notes: list[tuple[Part, ...]] = []
    if before is not None and before.processes != now.processes:
        notes.append((f"the run used {before.processes} processes before, and uses {now.processes} now",))
    if loop.local_statistics:
        note = "BatchNorm statistics are computed in each process, from its part of a batch"
        notes.append((f"{note} ({now.processes} processes); SyncBatchNorm needs GPUs",))
    precision = loop.task.settings.machine.precision
    if precision_is_emulated(precision, now.device):
        slow = " is emulated, because this processor has no bfloat16 instructions; "
        notes.append((Option("precision", precision), slow, Option("precision", "32"), " is many times faster"))
    return notes


def _train(loop: Loop, folder: RunFolder, listener: RunListener, pace: Pace | None, save_seconds: float) -> None:
    """Epoch after epoch, with a checkpoint from time to time and at the end."""
    saved, first = time.monotonic(), loop.fabric.global_rank == 0
    epochs, announced = loop.task.settings.schedule.epochs, loop.state.epoch

    def save() -> None:
        nonlocal saved
        if first and loop.finite():  # otherwise the next loss is not, and stops the run
            # In this order: the checkpoint counts what the tables have.
            folder.write_tables(loop.state)
            folder.save_checkpoint(loop.checkpoint())
        saved = time.monotonic()

    def decide() -> None:
        """Decide the steps of the next epoch, unless they are."""
        if pace is None or len(loop.task.settings.schedule.steps or ()) > loop.state.epoch:
            return
        loop.task = pace.decided(loop.task)
        if first:
            folder.write_config(loop.task.settings.to_dict())

    def on_step() -> None:
        listener.on_step(loop)
        if pace is not None:
            pace.on_step()
        if loop.cold:
            listener.on_note(loop.cold)
            loop.cold = ()
        due = time.monotonic() - saved > save_seconds
        if not loop.may_save(due or stop.is_set()):
            return
        if loop.any_process(stop.is_set()):
            save()
            raise Interrupted
        if due:
            save()

    if loop.state.epoch == epochs:
        if first:  # they may have lines of a run that was killed later
            folder.write_tables(loop.state)
        return
    with signals_heard() as stop:
        if loop.state.epoch == 0 and loop.state.steps == 0:
            save()  # whatever happens, there is something to resume from
        while loop.state.epoch < epochs:
            try:
                decide()
                record = loop.run_epoch(on_step)
                if record.epoch > announced:
                    listener.on_epoch(record)
                    announced = record.epoch
            except NonFiniteLoss as error:
                if not loop.checks_every_loss:
                    # Weights have been spoiled since. Once more from the last checkpoint, up to that step.
                    loop.checks_every_loss = True
                    last = loop.fabric.broadcast(folder.load_checkpoint()[0] if first else None)
                    assert last is not None  # a run starts with one
                    loop.restore(last, loop.state.records)
                    continue
                if not first:
                    raise
                folder.write_tables(loop.state)  # for the report
                raise NonFiniteLoss(error.batch, folder.write_non_finite(error.batch)) from None
        save()
