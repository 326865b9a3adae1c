"""A progress bar for long input."""

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


def progress() -> Progress:
    """A bar on standard error, shown only on a terminal and gone when it is done."""
    return Progress(
        TextColumn("{task.description}", markup=False),  # names of files may have square brackets
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
