"""`orthoframe train`: from images to an orthogonal frame."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

import tyro

from orthoframe.errors import InputError
from orthoframe.options import Recipe
from orthoframe.training._settings import RECIPES, Settings


@dataclass(frozen=True)
class Train(Settings):
    """Train an encoder with the supervised contrastive loss, and say whether its classes form an orthogonal frame.

    Without options: the embedded digits, imbalanced ten to one, a small network, less than a minute. Killed or
    interrupted, a run goes on with --resume and ends with the same bytes. Exit status: 0 trained, 1 stopped on the way,
    2 bad input. For example:

    orthoframe train

    orthoframe train --data fashion-mnist --model resnet18 --width 16 --epochs 30 --out runs/fashion

    orthoframe train --recipe paper --ratio 100

    orthoframe train --resume runs/fashion
    """

    recipe: Recipe = "quick"
    """Where defaults come from: quick, paper (its setting; needs a GPU), or fast (the fewest epochs to the frame)."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """The run folder (default: a new one in runs/)."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None
    """Go on with the run in this folder, with the settings that it has."""

    tensorboard: tyro.conf.FlagCreatePairsOff[bool] = False
    """Write the curves for TensorBoard too, into the run folder."""

    @classmethod
    def defaults(cls, recipe: Recipe = "quick") -> "Train":
        """The defaults of all options, as the recipe gives them."""
        return cls(recipe=recipe, **RECIPES[recipe])

    def run(self) -> int:
        """Do it; the exit status."""
        from orthoframe.cli._training import run_training

        settings = Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})
        if self.resume is not None:
            self._check_alone(settings)
            return run_training(None, self.resume, self.tensorboard)
        try:
            settings.check()
        except ValueError as error:
            raise InputError(str(error)) from None
        return run_training(settings, self.out or _free_folder(settings), self.tensorboard)

    def _check_alone(self, settings: Settings) -> None:
        if self.out is not None:
            raise InputError("--resume names the folder already; leave --out out")
        if self.recipe != "quick" or replace(settings, epochs=Settings.epochs) != Settings():
            raise InputError("--resume takes the settings from its folder; leave the others out")
        if settings.epochs != Settings.epochs:
            raise InputError(
                "--resume goes on with the epochs that the run has: the learning rate depends on their number, so with "
                f"others it is another run; start anew with --epochs {settings.epochs} --out FOLDER"
            )


def _free_folder(settings: Settings) -> Path:
    """A name that says what the run is, with a number if it is taken."""
    data = settings.data.partition(":")[0]
    imbalance = "balanced" if settings.imbalance == "none" else f"{settings.imbalance}{settings.ratio:g}"
    stem = f"{data}-{imbalance}-{settings.model}-{settings.activation}-seed{settings.seed}"
    number = 1
    while True:
        path = Path("runs") / (stem if number == 1 else f"{stem}-{number}")
        if not path.exists():
            return path
        number += 1
