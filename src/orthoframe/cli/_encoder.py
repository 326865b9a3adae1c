"""The encoder of a run, for the verbs that need one."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from orthoframe.errors import InputError, TrainingError

if TYPE_CHECKING:
    from orthoframe.runs import TrainedEncoder


def encoder_of(run: Path, code: bool = False) -> "TrainedEncoder":
    """Read the encoder of a run, from its folder or from the file itself.

    Raises:
        TrainingError: If there is none, or it is broken.
        InputError: If the run has not finished, with how far it is and how to resume it.
    """
    from orthoframe.runs import load_encoder

    try:
        return load_encoder(run, code=code)
    except TrainingError:
        if os.path.isfile(run / "config.json") and not os.path.lexists(run / "encoder.safetensors"):
            raise InputError(_unfinished(run)) from None
        raise


def _unfinished(run: Path) -> str:
    """How far a run is that has no encoder yet; one whose loss was not finite would only end so again."""
    from orthoframe.runs import Ending, read_run

    again = f"; resume it with: orthoframe train --resume {shlex.quote(str(run))}"
    try:
        verdict = read_run(run).verdict
    except InputError:  # it was killed before it had written all files
        return f"{run}: the run has not finished its first epoch{again}"
    if verdict.ending is Ending.NON_FINITE:
        again = "; start a new one"
    return f"{run}: {verdict.sentence.rstrip('.')}{again}"
