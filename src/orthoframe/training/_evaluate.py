"""Features of whole data sets, their geometry, and the accuracy of the nearest class centre."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoframe.data import LabelledImages, Normaliser
from orthoframe.geometry import Accuracy, Geometry, NearestCentre, accuracy_of, measure

_ROWS = 256  # images that are encoded together: more no longer fit into the caches


@dataclass(frozen=True)
class Measured:
    """What an encoder does with all training and test images."""

    geometry: Geometry
    test: Accuracy
    centres: Tensor  # [k, dim], the class means; NaN for a class without training images

    def to_dict(self, classes: Sequence[str]) -> dict[str, Any]:
        """What a line of `geometry.jsonl` says, with the names of classes in the place of their numbers."""
        train = self.geometry.to_dict()
        for entry in train["classes"]:
            entry["name"] = classes[entry["name"]]
        if "accuracy" in train:
            train["accuracy"]["worst_class"] = classes[train["accuracy"]["worst_class"]]
        return {"train": train, "test": asdict(self.test)}

    def row(self) -> dict[str, Any]:
        """The columns of `metrics.csv` that this fills."""
        found = self.geometry
        accuracy = found.accuracy
        return {
            "delta_of": found.delta_of,
            "delta_etf": found.delta_etf,
            "beta_nc": found.beta_nc,
            "balanced_accuracy": accuracy.balanced if accuracy else "",
            "worst_accuracy": accuracy.worst if accuracy else "",
            "test_balanced_accuracy": self.test.balanced,
            "test_worst_accuracy": self.test.worst,
            "dead_rows": found.dead_rows,
            "live_dimensions": found.dim - found.ownership.dead,
        }


@torch.no_grad()
def encode(encoder: nn.Module, pixels: Tensor, normaliser: Normaliser) -> Tensor:
    """Features `[n, dim]` of uint8 images, in evaluation mode, on the CPU."""
    training, device = encoder.training, next(encoder.parameters()).device
    encoder.eval()
    parts = [encoder(normaliser(part.to(device))).float().cpu() for part in torch.split(pixels, _ROWS)]
    encoder.train(training)
    return torch.cat(parts)


def evaluate(encoder: nn.Module, train: LabelledImages, test: LabelledImages, normaliser: Normaliser) -> Measured:
    """Measure the training images, and classify the test images by the nearest training mean."""
    classes = train.classes
    features = encode(encoder, train.pixels, normaliser)
    labels = train.labels.cpu()
    geometry = measure(features, labels, num_classes=len(classes))
    centres = torch.full((len(classes), geometry.dim), torch.nan, dtype=torch.float64)
    centres[list(geometry.names)] = geometry.means
    scores = NearestCentre(centres).scores(encode(encoder, test.pixels, normaliser))
    counts = torch.bincount(labels, minlength=len(classes))
    return Measured(geometry, accuracy_of(scores, test.labels, classes, counts), centres)
