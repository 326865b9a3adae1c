"""`orthoframe predict`: which class is each image of?"""

import csv
import json
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from orthoframe.cli._terminal import Flag
from orthoframe.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.training import TrainedEncoder

_TOGETHER = 256  # images that are read and encoded at a time
_BLOCKS = 3  # that explain a prediction in one row of CSV


@dataclass(frozen=True)
class PredictCommand:
    """Classify images by the nearest class centre of a trained encoder.

    Prints CSV: the image, its class, and the cosine of its features to each class mean. With --explain, evidence is the
    share of the features' energy in the block of dimensions that a class owns, and the out-of-class score is the share
    outside the block of the predicted class. Exit status: 0 classified, 2 bad input. For example:

    orthoframe predict runs/digits-step10-mlp-relu-seed0 scan1.png scan2.png

    orthoframe predict runs/digits-step10-mlp-relu-seed0 scan1.png --explain
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run, or its encoder.safetensors."""
    images: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGE...")]
    """Image files of the size that the encoder was trained on."""
    explain: Flag = False
    """Also print the evidence for each class, largest first, and an out-of-class score."""
    json: Flag = False
    """Print one JSON object per image instead."""

    def run(self) -> int:
        """Print the class of each image."""
        import torch

        from orthoframe.data import read_image
        from orthoframe.training import load_encoder

        if not self.images:
            raise InputError("which images? Name at least one file")
        trained = load_encoder(self.run_folder)
        channels, height, width = trained.image_shape
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for start in range(0, len(self.images), _TOGETHER):
            paths = self.images[start : start + _TOGETHER]
            pixels = torch.stack([read_image(path, channels, (height, width)) for path in paths])
            features = trained.features(pixels)
            cosines, winners = trained.classify(features)
            reasons = _reasons(features, trained) if self.explain else [{}] * len(paths)
            if start == 0 and not self.json:
                writer.writerow(["image", "class", *trained.classes, *_columns(reasons[0])])
            for path, row, winner, reason in zip(paths, cosines, winners, reasons, strict=True):
                name, scores = trained.classes[int(winner)], _rounded(row)
                if self.json:
                    scored = dict(zip(trained.classes, scores, strict=True))
                    print(json.dumps({"image": str(path), "class": name, "scores": scored, **reason}))
                else:
                    writer.writerow([path, name, *scores, *_columns(reason).values()])
        return 0


def _reasons(features: "Tensor", trained: "TrainedEncoder") -> list[dict[str, Any]]:
    """The out-of-class score of each image, its shares per class from the largest to the smallest, and the rest."""
    from orthoframe.geometry import explain

    found, reasons = explain(features, trained.centres), []
    for outside, row, unowned in zip(_rounded(found.outside), found.shares, _rounded(found.unowned), strict=True):
        shares, order = row.sort(descending=True, stable=True)
        blocks = dict(zip((trained.classes[c] for c in order.tolist()), _rounded(shares), strict=True))
        reasons.append({"outside": outside, "blocks": blocks, "unowned": unowned})
    return reasons


def _columns(reason: dict[str, Any]) -> dict[str, Any]:
    """A reason as columns of CSV, with the largest blocks only."""
    if not reason:
        return {}
    columns = {"outside": reason["outside"]}
    for place, (name, share) in enumerate(islice(reason["blocks"].items(), _BLOCKS), start=1):
        columns |= {f"block {place}": name, f"share {place}": share}
    return columns | {"unowned": reason["unowned"]}


def _rounded(values: "Tensor") -> list[float]:
    return [round(value, 6) + 0.0 for value in values.tolist()]  # -0.0 becomes 0.0
