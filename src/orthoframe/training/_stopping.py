"""What stops a run: a loss that is not finite, a machine that refuses, and signals."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orthoframe.errors import Call, Option, TrainingError, summary, unwritable
from orthoframe.runs import NonFiniteBatch

_SHOWN = 4  # samples of a batch that an error lists


class Interrupted(Exception):
    """Ctrl-C, or a signal to end: the state is saved."""


class Stopped(TrainingError):
    """A run stopped on the way; the last checkpoint is whole."""


class NonFiniteLoss(Stopped):
    """The loss of a batch is not finite; all of its samples are listed in the file, if there is one."""

    def __init__(self, batch: NonFiniteBatch, file: Path | None = None) -> None:
        self.batch = batch
        shown = ", ".join(map(str, batch.indices[:_SHOWN])) + (", ..." if len(batch.indices) > _SHOWN else "")
        shown += "" if file is None else f", all in {file}"
        largest = "not finite either" if batch.largest_feature is None else f"{batch.largest_feature:.4g}"
        super().__init__(
            f"the loss is {batch.loss} in step {batch.step} of epoch {batch.epoch} (samples {shown}); the largest "
            f"feature before normalisation is {largest}; try a smaller ",
            *(Option("lr"), " or ", Option("precision", "32")),
        )


@contextmanager
def refusals_named(path: Path) -> Iterator[None]:
    """Say what the machine refused, and how to resume if there is a run."""
    try:
        yield
    except BrokenPipeError:  # of what is printed
        raise
    except Exception as error:
        if not isinstance(error, OSError) and not _is_about_memory(error):
            raise
        if (path / "config.json").exists():
            raise stopped(path, str(path), error, "what was saved last is whole") from error
        if isinstance(error, OSError):
            raise TrainingError(*unwritable(path, error, "out")) from error
        raise TrainingError(f"{path}: not enough memory to start the run") from error


def stopped(path: Path, what: str, error: Exception, kept: str) -> Stopped:
    reason = summary(error)
    if _is_about_memory(error):
        reason = "not enough memory"
    elif isinstance(error, OSError):
        reason = error.strerror or str(error)
    return Stopped(f"{what}: {reason}; {kept}; once that is solved, resume with ", Call("resume", str(path)))


def _is_about_memory(error: Exception) -> bool:
    """Whether Python, torch or the loader of libraries was refused memory."""
    words = ("failed to map segment", "allocate memory", "bad_alloc", "out of memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and any(each in str(error) for each in words)
    )


@contextmanager
def signals_heard() -> Iterator[threading.Event]:
    """Ctrl-C, a request to end and a terminal that is closed are heard between two steps.

    What started the program may have had the last ignored, as nohup does; then it stays so.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    heard = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # Windows has none
        heard.append(signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
