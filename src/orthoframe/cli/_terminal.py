"""What every verb shares on the terminal: how options are spelled, how errors are printed, and the progress bar."""

import gc
import os
import shlex
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from orthoframe.errors import InputError, Option, OrthoframeError, brief

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

Flag = tyro.conf.FlagCreatePairsOff[bool]
Folder = Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")]
Picture = Annotated[Path | None, tyro.conf.arg(metavar="OUT.png")]
_LONGEST = 300  # characters of an error: more is not read


def flag(option: Option) -> str:
    """An option as it is typed: `--batch-size`, `--head linear`, `--no-augment`, `--temperature 0.1:0.5`."""
    name, value = option.name.replace("_", "-"), option.value
    if value is None or isinstance(value, bool):
        return f"--no-{name}" if value is False else f"--{name}"
    text = ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"--{name} {shlex.quote(text)}"


def complain(error: BaseException) -> None:
    """Print an error as one sentence; with `ORTHOFRAME_DEBUG=1`, its traceback before it."""
    debug = os.environ.get("ORTHOFRAME_DEBUG", "0") not in ("", "0")
    if debug:
        traceback.print_exception(error)
    if isinstance(error, OrthoframeError):
        print(f"orthoframe: {brief(error.spelled(flag), _LONGEST - len('orthoframe: '))}", file=sys.stderr)
    elif isinstance(error, MemoryError):
        print("orthoframe: there is not enough memory", file=sys.stderr)
    else:
        advice = "" if debug else " (ORTHOFRAME_DEBUG=1 shows where)"
        print(f"orthoframe: unexpected {type(error).__name__}: {brief(error, 200)}{advice}", file=sys.stderr)


@contextmanager
def starting() -> Iterator[None]:
    """While torch is loaded no garbage is looked for, and what was loaded is not searched later, not at the end either.

    There is none among it, and the search takes a quarter of the time of a command with a single image.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collecting:
            gc.enable()


@contextmanager
def outliving_the_terminal() -> Iterator[None]:
    """If a terminal was closed when an error leaves this, later words go nowhere instead of failing."""
    try:
        yield
    except BaseException:
        for number in (1, 2):
            try:
                os.write(number, b"")
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        raise


@contextmanager
def bad_input(where: Path | str = "") -> Iterator[None]:
    """Turn values that the library refuses into an error about the input, which it cannot name itself."""
    try:
        yield
    except OrthoframeError:
        raise
    except ValueError as error:
        raise InputError(f"{where}: {error}" if where else str(error)) from error


def progress(*columns: "ProgressColumn") -> "Progress":
    """A bar on standard error, only on a terminal; after it `columns`, or percentage and remaining time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),  # a file name may contain square brackets
        BarColumn(bar_width=20 if columns else 40),
        *(columns or (TaskProgressColumn(), TimeRemainingColumn())),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


def seconds_since_start() -> float:
    """Since this process began, with what it took to import torch; 0 where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[19])  # between the boot of the system and the start, the 22nd field of all
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return 0.0
