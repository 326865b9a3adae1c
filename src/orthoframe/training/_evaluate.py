"""Features of whole data sets, their geometry, and the accuracy of the nearest class centre."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoframe.data import LabelledImages, Normaliser
from orthoframe.geometry import Geometry, NearestCentre, measure

_ROWS = 256  # images that are encoded together: more no longer fit into the caches


@dataclass(frozen=True)
class Measured:
    """What an encoder does with all training and test images."""

    geometry: Geometry
    test: dict[str, Any]  # accuracies
    centres: Tensor  # [k, dim], the class means

    def to_dict(self, classes: Sequence[str]) -> dict[str, Any]:
        """What a line of `geometry.jsonl` says, with the names of classes in the place of their numbers."""
        train = self.geometry.to_dict()
        for entry in train["classes"]:
            entry["name"] = classes[entry["name"]]
        if "accuracy" in train:
            train["accuracy"]["worst_class"] = classes[train["accuracy"]["worst_class"]]
        return {"train": train, "test": self.test}

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
            "test_balanced_accuracy": self.test["balanced"],
            "test_worst_accuracy": self.test["worst"],
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
    rows = features.double()
    counts = torch.bincount(labels, minlength=len(classes)).clamp(min=1)
    sums = torch.zeros(len(classes), rows.shape[1], dtype=torch.float64).index_add_(0, labels, rows)
    centres = sums / counts[:, None]
    scores = NearestCentre(centres).scores(encode(encoder, test.pixels, normaliser).double())
    return Measured(geometry, _test(scores, test.labels.cpu(), counts, classes), centres)


def _test(scores: Tensor, labels: Tensor, counts: Tensor, classes: tuple[str, ...]) -> dict[str, Any]:
    """Accuracies: overall, balanced, worst, and of the larger and smaller half of the classes, by training counts.

    And margins: the squared distance to the nearest other centre less that to the own (2 at a frame), as a mean over
    classes.
    """
    k = len(classes)
    guesses = scores.argmax(1)
    seen = torch.bincount(labels, minlength=k)
    hits = torch.bincount(labels[guesses == labels], minlength=k)
    present = (seen > 0).nonzero()[:, 0]
    rates = hits[present] / seen[present]
    own = scores.gather(1, labels[:, None])[:, 0]
    others = scores.scatter(1, labels[:, None], -torch.inf).amax(1)
    margins = torch.zeros(k, dtype=scores.dtype).index_add_(0, labels, own - others)[present] / seen[present]
    order = torch.argsort(counts[present], descending=True, stable=True)
    half = (len(order) + 1) // 2
    worst = int(rates.argmin())
    by_class: list[float | None] = [None] * k
    for place, c in enumerate(present.tolist()):
        by_class[c] = float(rates[place])
    return {
        "overall": float(hits.sum() / seen.sum()),
        "balanced": float(rates.mean()),
        "worst": float(rates[worst]),
        "worst_class": classes[int(present[worst])],
        "majority": float(rates[order[:half]].mean()),
        "minority": float(rates[order[len(order) - half :]].mean()),
        "by_class": by_class,
        "margin": float(margins.mean()),
        "minority_margin": float(margins[order[len(order) - half :]].mean()),
    }
