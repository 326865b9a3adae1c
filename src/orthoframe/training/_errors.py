"""What goes wrong with a run, in a sentence for the person who started it."""

import math
from pathlib import Path

from orthoframe.errors import TrainingError

_SHOWN = 16  # samples of a batch that are named


class Stopped(TrainingError):
    """A run stopped on the way; what was saved last is whole."""


class NoNumber(Stopped):
    """The loss is no number.

    Args:
        loss: What it is.
        step: The number of the step, from 1.
        epoch: The number of the epoch, from 1.
        samples: The batch, as indices of the data as it was read.
        largest: The largest feature before the norm.

    Attributes:
        facts: All of it, in types that JSON knows.
    """

    def __init__(self, loss: float, step: int, epoch: int, samples: list[int], largest: float) -> None:
        self.facts = {
            "loss": str(loss),
            "step": step,
            "epoch": epoch,
            "indices": samples,
            "largest_feature": largest if math.isfinite(largest) else str(largest),
        }
        super().__init__(self.sentence())

    def sentence(self, file: Path | None = None) -> str:
        """What happened, and which file has all samples."""
        facts = self.facts
        samples: list[int] = facts["indices"]  # type: ignore[assignment]
        shown = ", ".join(map(str, samples[:_SHOWN])) + (", ..." if len(samples) > _SHOWN else "")
        all_of_them = "" if file is None else f", all in {file}"
        largest = facts["largest_feature"]
        return (
            f"the loss is {facts['loss']} in step {facts['step']} of epoch {facts['epoch']} (samples {shown}"
            f"{all_of_them}); the largest feature before the norm is "
            f"{largest if isinstance(largest, str) else f'{largest:.4g}'}; try a smaller --lr or --precision 32"
        )
