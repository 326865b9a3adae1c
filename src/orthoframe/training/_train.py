"""A run from its settings to its report."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orthoframe.batches import Certificate
from orthoframe.errors import TrainingError
from orthoframe.training._checkpoint import drop_broken, load_checkpoint, save_checkpoint
from orthoframe.training._diagnosis import diagnose
from orthoframe.training._errors import NoNumber, Stopped
from orthoframe.training._evaluate import Measured
from orthoframe.training._export import save_encoder
from orthoframe.training._folder import NAN_FILE, RunFolder
from orthoframe.training._loop import Loop
from orthoframe.training._precision import choose_precision
from orthoframe.training._processes import Processes, agree, find_processes, launch, make_fabric
from orthoframe.training._settings import Settings
from orthoframe.training._setup import Progress, Task, set_up

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_SAVE_SECONDS = 15.0  # between two checkpoints


class Interrupted(Exception):
    """Ctrl-C, or a signal to end: the state is saved."""


@dataclass
class Watcher:
    """What wants to know how a run goes; every call is optional."""

    on_start: Callable[[Task, Certificate, int, float | None], None] | None = None
    on_step: Callable[[Loop], None] | None = None
    on_epoch: Callable[[dict[str, Any]], None] | None = None
    on_note: Callable[[str], None] | None = None
    on_data: Progress | None = None


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    settings: Settings
    measured: Measured
    rows: list[dict[str, Any]]  # of metrics.csv
    certificate: Certificate
    verdict: dict[str, Any]

    @property
    def row(self) -> dict[str, Any]:
        """The last of metrics.csv."""
        return self.rows[-1]


def train(settings: Settings | None, path: Path, watcher: Watcher | None = None) -> Outcome | None:
    """Train, and keep everything in a folder.

    Killed at any moment, a run that is started again goes on where it was and ends with the same bytes.

    Args:
        settings: What to do; None to go on with the run that is in the folder.
        path: The folder.
        watcher: Is told how it goes.

    Returns:
        How it ended; None in processes other than the first.

    Raises:
        TrainingError: With a sentence, if it cannot start or go on; `Stopped` if it had started.
        Interrupted: After Ctrl-C, when the state has been saved.
    """
    watcher = watcher or Watcher()
    folder, resumed = RunFolder(path), settings is None
    # Absolute paths, for it may be resumed from elsewhere.
    settings = folder.settings() if settings is None else settings.absolute()
    processes = find_processes(settings.devices, resumed)
    if settings.devices != processes.count:
        if resumed and processes.first and watcher.on_note is not None:
            watcher.on_note(f"processes that share the run: {settings.devices} before, {processes.count} now")
        settings = replace(settings, devices=processes.count)
    try:
        with ExitStack() as held:
            task, refusal = None, None
            try:
                # Before Fabric starts other processes, so that a refusal needs none of them.
                task = _prepare(settings, processes, folder, resumed, watcher, held)
            except TrainingError as error:
                if processes.first and not processes.launched:
                    raise  # the others are not there yet
                refusal = str(error)
            fabric = make_fabric(processes, task.settings.precision if task is not None else "32")
            launch(fabric)
            agree(fabric, refusal)
            assert task is not None
            return _train(task, fabric, folder, resumed, watcher)
    except OSError as error:
        raise Stopped(
            f"{path}: {error.strerror or error}; what was saved last is whole: once there is room, go on with "
            f"--resume {path}"
        ) from None


def _prepare(
    settings: Settings, processes: Processes, folder: RunFolder, resumed: bool, watcher: Watcher, held: ExitStack
) -> Task:
    """All that a process can do alone: the task, with the precision that was chosen, and the folder for the first."""
    if not resumed:
        folder.check_free()  # no process has written yet: the first waits for all
    task = set_up(settings, watcher.on_data)
    device = make_fabric(Processes(processes.environment, 1), "32").device
    try:
        precision = choose_precision(task, device)
    except ValueError as error:
        raise TrainingError(str(error)) from None
    if processes.first:
        held.enter_context(folder.opened(resumed))
    return replace(task, settings=replace(settings, precision=precision))


def _train(task: Task, fabric: "Fabric", folder: RunFolder, resumed: bool, watcher: Watcher) -> Outcome | None:
    """All that follows once the devices are there and the folder is ours."""
    first, path = fabric.global_rank == 0, folder.path
    note = watcher.on_note if first and watcher.on_note is not None else lambda _: None
    certificate, epochs = task.certificate()
    for sentence in task.notes():
        note(sentence)
    loop = Loop(task, fabric)
    if loop.local_statistics:
        note(
            f"each of the {fabric.world_size} processes takes BatchNorm statistics of its own part of a batch, for "
            "torch shares them between GPUs only; a single process takes them of whole batches"
        )
    if resumed:
        _resume(loop, path, note)
    if first:
        if not resumed:
            folder.write_settings(task.settings)  # not earlier: a start that failed leaves no run behind
        folder.write_json("certificate.json", {**certificate.to_dict(), "epochs": epochs})
        if watcher.on_start is not None:
            watcher.on_start(task, certificate, epochs, _floor(loop))
    with _signals() as stop:
        _run(loop, folder, watcher, stop)
    if not first:
        return None
    measured = loop.measured()
    verdict = diagnose(task, certificate, loop.state.rows, measured)
    save_encoder(path, task, measured.centres)
    folder.write_json("verdict.json", verdict)
    return Outcome(path, task.settings, measured, loop.state.rows, certificate, verdict)


def _resume(loop: Loop, path: Path, note: Callable[[str], None]) -> None:
    state, complaints = load_checkpoint(path)
    for complaint in complaints:
        note(f"{complaint}; going on from the one before")
    if state is not None:
        loop.load_state_dict(state)
    loop.fabric.barrier()  # every process has read
    if complaints and loop.fabric.global_rank == 0:
        drop_broken(path)


def _run(loop: Loop, folder: RunFolder, watcher: Watcher, stop: threading.Event) -> None:
    """Epoch after epoch, with a checkpoint from time to time and at the end."""
    saved = time.monotonic()
    first = loop.fabric.global_rank == 0

    def save() -> None:
        nonlocal saved
        if first:
            # In this order: whoever finds the last checkpoint need not write the table again.
            folder.write_metrics(loop.state.rows, loop.state.geometries)
            save_checkpoint(folder.path, loop.state_dict())
        saved = time.monotonic()

    def on_step() -> None:
        if watcher.on_step is not None and first:
            watcher.on_step(loop)
        if loop.any_process(stop.is_set()):
            save()
            raise Interrupted
        if time.monotonic() - saved > _SAVE_SECONDS:
            save()

    epochs = loop.task.settings.epochs
    if loop.state.epoch == epochs:
        return
    if loop.state.epoch == 0 and loop.state.steps == 0:
        save()  # whatever comes, there is something to go on from
    while loop.state.epoch < epochs:
        try:
            row = loop.run_epoch(on_step)
        except NoNumber as error:
            if first:
                folder.write_metrics(loop.state.rows, loop.state.geometries)  # for the report
                folder.write_json(NAN_FILE, error.facts)
            raise Stopped(error.sentence(folder.path / NAN_FILE)) from None
        if watcher.on_epoch is not None and first:
            watcher.on_epoch(row)
    save()


def _floor(loop: Loop) -> float | None:
    """The lowest loss of the first epoch, a mean over its batches."""
    return loop.epoch_floor() if loop.task.settings.loss == "supcon" else None


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Ctrl-C and a request to end are heard between two steps."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
