"""`orthoframe predict`: which class is each image of?"""

import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from orthoframe.cli._errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor

_TOGETHER = 256  # images that are read and encoded at a time


@dataclass(frozen=True)
class Predict:
    """Classify images by the nearest class centre of a trained encoder.

    Prints CSV: the image, its class, and the cosine of its features to each class mean. Exit status: 0 classified, 2
    bad input. For example:

    orthoframe predict runs/digits-step10-mlp-relu-seed0 scan1.png scan2.png
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run, or its encoder.safetensors."""
    images: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGES")]
    """Image files, of the size that the encoder was trained on."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print a JSON object a line instead."""

    def run(self) -> int:
        """Do it; the exit status."""
        import torch

        from orthoframe.training import TrainingError, load_encoder

        if not self.images:
            raise BadInput("which images? Name at least one file")
        try:
            trained = load_encoder(self.run_folder)
        except TrainingError as error:
            raise BadInput(str(error)) from None
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for start in range(0, len(self.images), _TOGETHER):
            paths = self.images[start : start + _TOGETHER]
            pixels = torch.stack([_pixels(path, trained.image_shape) for path in paths])
            if start == 0 and not self.json:
                writer.writerow(["image", "class", *trained.classes])
            for path, cosines, winner in zip(paths, *trained.cosines_and_winners(pixels), strict=True):
                name, scores = trained.classes[int(winner)], [round(float(score), 6) for score in cosines]
                if self.json:
                    scored = dict(zip(trained.classes, scores, strict=True))
                    print(json.dumps({"image": str(path), "class": name, "scores": scored}))
                else:
                    writer.writerow([path, name, *scores])
        return 0


def _pixels(path: Path, shape: tuple[int, ...]) -> "Tensor":
    """One image as uint8 [channels, height, width]."""
    import numpy as np
    import torch
    from PIL import Image, UnidentifiedImageError

    channels, height, width = shape
    try:
        with Image.open(path) as image:
            if image.mode[0] in "IF":
                raise BadInput(f"{path}: it has more than 8 bits a channel (mode {image.mode}); save it with 8 bits")
            if (image.height, image.width) != (height, width):
                raise BadInput(
                    f"{path}: {image.width} x {image.height} pixels, and the encoder was trained on {width} x {height}"
                    "; resize it"
                )
            array = np.array(image.convert("L" if channels == 1 else "RGB"))
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else "not an image that can be read"
        raise BadInput(f"{path}: {what}") from None
    return torch.from_numpy(array.reshape(height, width, -1)).permute(2, 0, 1)
