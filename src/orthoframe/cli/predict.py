"""`orthoframe predict`: which class is each image of?"""

import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from orthoframe.errors import DataError, InputError, TrainingError

if TYPE_CHECKING:
    from torch import Tensor

    from orthoframe.training import TrainedEncoder

_TOGETHER = 256  # images that are read and encoded at a time
_BLOCKS = 3  # that explain a prediction in a row of CSV


@dataclass(frozen=True)
class Predict:
    """Classify images by the nearest class centre of a trained encoder.

    Prints CSV: the image, its class, and the cosine of its features to each class mean. Exit status: 0 classified, 2
    bad input. For example:

    orthoframe predict runs/digits-step10-mlp-relu-seed0 scan1.png scan2.png

    orthoframe predict runs/digits-step10-mlp-relu-seed0 scan1.png --explain
    """

    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The folder of a run, or its encoder.safetensors."""
    images: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="IMAGES")]
    """Image files, of the size that the encoder was trained on."""
    explain: tyro.conf.FlagCreatePairsOff[bool] = False
    """Add what speaks for each class: the part of the image's energy in its block of dimensions, the largest first; and
    an out-of-class score, the part outside the block of the winner."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print a JSON object a line instead."""

    def run(self) -> int:
        """Do it; the exit status."""
        import torch

        from orthoframe.data import read_image
        from orthoframe.training import load_encoder

        if not self.images:
            raise InputError("which images? Name at least one file")
        try:
            trained = load_encoder(self.run_folder)
        except TrainingError as error:
            raise InputError(str(error)) from None
        channels, height, width = trained.image_shape
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for start in range(0, len(self.images), _TOGETHER):
            paths = self.images[start : start + _TOGETHER]
            try:
                pixels = torch.stack([read_image(path, channels, (height, width)) for path in paths])
            except DataError as error:
                raise InputError(str(error)) from None
            features = trained.features(pixels)
            cosines, winners = trained.classify(features)
            reasons = _reasons(features, trained) if self.explain else [{}] * len(paths)
            if start == 0 and not self.json:
                writer.writerow(["image", "class", *trained.classes, *(_heads(trained) if self.explain else [])])
            for path, row, winner, reason in zip(paths, cosines, winners, reasons, strict=True):
                name, scores = trained.classes[int(winner)], [_rounded(score) for score in row]
                if self.json:
                    scored = dict(zip(trained.classes, scores, strict=True))
                    print(json.dumps({"image": str(path), "class": name, "scores": scored, **reason}))
                else:
                    writer.writerow([path, name, *scores, *_cells(reason)])
        return 0


def _reasons(features: "Tensor", trained: "TrainedEncoder") -> list[dict[str, Any]]:
    """For each image the out-of-class score, the blocks from the largest share to the smallest, and the rest."""
    from orthoframe.geometry import explain

    found = explain(features, trained.centres)
    order = found.shares.argsort(dim=1, descending=True, stable=True)
    return [
        {
            "outside": _rounded(outside),
            "blocks": {trained.classes[c]: _rounded(shares[c]) for c in places.tolist()},
            "unowned": _rounded(unowned),
        }
        for outside, shares, unowned, places in zip(found.outside, found.shares, found.unowned, order, strict=True)
    ]


def _heads(trained: "TrainedEncoder") -> list[str]:
    shown = range(1, min(_BLOCKS, len(trained.classes)) + 1)
    return ["outside", *(head for place in shown for head in (f"block {place}", f"share {place}")), "unowned"]


def _cells(reason: dict[str, Any]) -> list[Any]:
    if not reason:
        return []
    blocks = list(reason["blocks"].items())[:_BLOCKS]
    return [reason["outside"], *(cell for block in blocks for cell in block), reason["unowned"]]


def _rounded(value: "Tensor") -> float:
    return round(float(value), 6) + 0.0  # no minus before a zero
