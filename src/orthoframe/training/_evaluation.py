"""What is found out about an encoder: the geometry of its features, and how well it classifies."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from orthoframe.data import LabelledImages, Normaliser
from orthoframe.geometry import Accuracy, Calibration, Confusion, Geometry

_ROWS = 256  # images that are encoded together: more no longer fit into the caches


@dataclass(frozen=True)
class Evaluation:
    """The geometry of the training images, and the accuracy of others by the nearest class mean."""

    geometry: Geometry
    test: Accuracy | None  # None if they were not looked at: that happens once, if there are validation images
    centres: Tensor  # [k, dim], the class means; NaN for a class without training images
    validation: Accuracy | None = None  # None if there are no validation images
    calibration: Calibration | None = None  # fitted to the validation images, at the end
    confusion: Confusion | None = None  # of the test images, at the end, as is the next
    calibration_error: float | None = None  # None without a calibration
    classes: tuple[str, ...] = ()  # all of the run; the geometry has those with training images

    @property
    def tested(self) -> Accuracy:
        """The accuracy of the test images, at the end of a run."""
        assert self.test is not None
        return self.test

    def measurement(self, epoch: int) -> dict[str, Any]:
        """A line of `geometry.jsonl`."""
        found = {"epoch": epoch, "train": self.geometry.to_dict()}
        for name, accuracy in (("validation", self.validation), ("test", self.test)):
            if accuracy is not None:
                known = {str(each) for each in self.geometry.names} if self.classes else set()
                kept = [rate for c, rate in zip(self.classes, accuracy.by_class, strict=False) if c in known]
                found[name] = asdict(replace(accuracy, by_class=tuple(kept)) if known else accuracy)
        return found

    def columns(self) -> dict[str, Any]:
        """The columns of `metrics.csv` that this fills."""
        found, accuracy = self.geometry, self.geometry.accuracy
        assert accuracy is not None  # every row was seen
        return {
            "delta_of": found.delta_of,
            "delta_etf": found.delta_etf,
            "beta_nc": found.beta_nc,
            "balanced_accuracy": accuracy.balanced,
            "worst_accuracy": accuracy.worst,
            **_accuracies("validation", self.validation),
            **_accuracies("test", self.test),
            "dead_rows": found.dead_rows,
            "live_dimensions": found.dim - found.ownership.dead,
        }


def _accuracies(part: str, found: Accuracy | None) -> dict[str, float]:
    if found is None:
        return {}
    return {f"{part}_balanced_accuracy": found.balanced, f"{part}_worst_accuracy": found.worst}


@torch.no_grad()
def encode(encoder: nn.Module, images: LabelledImages, normaliser: Normaliser) -> Tensor:
    """Features `[n, dim]` of images, in evaluation mode, on the CPU."""
    training, device = encoder.training, next(encoder.parameters()).device
    encoder.eval()
    order = np.arange(len(images))
    batches = [order[start : start + _ROWS] for start in range(0, len(order), _ROWS)]
    parts = [encoder(normaliser(pixels)).float().cpu() for pixels in images.batches(batches, device)]
    encoder.train(training)
    return torch.cat(parts)
