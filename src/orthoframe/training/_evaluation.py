"""What is found out about an encoder: the geometry of its features, and how well it classifies."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from orthoframe.data import LabelledImages, Normaliser
from orthoframe.geometry import (
    Accuracy,
    Calibration,
    Confusion,
    Geometry,
    LinearClassifier,
    NearestCentre,
    accuracy_of,
    calibration_error,
    fit_adjustment,
    measure_parts,
)
from orthoframe.training._probe import fit_probe

if TYPE_CHECKING:
    from orthoframe.training._task import Task

Rule = NearestCentre | LinearClassifier

_ROWS = 256  # images that are encoded together: more no longer fit into the caches


@dataclass(frozen=True)
class Evaluation:
    """The geometry of the training images, and how well others are classified."""

    geometry: Geometry
    test: Accuracy | None  # None if they were not looked at: that happens once, if there are validation images
    rule: Rule  # which classifies
    centres: Tensor  # [k, dim], prototypes or class means; NaN for a class without either
    validation: Accuracy | None = None  # None if there are no validation images
    calibration: Calibration | None = None  # fitted to the validation images, at the end
    confusion: Confusion | None = None  # of the test images, at the end, as is the next
    calibration_error: float | None = None  # None without a calibration
    classes: tuple[str, ...] = ()  # all of the run; the geometry has those with training images
    raw_delta_of: float | None = None  # of features that are not normalised; for losses of a linear classifier
    adjust: float = 0.0  # what scores were adjusted by, for class sizes

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
            "raw_delta_of": self.raw_delta_of,
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


def evaluate(task: "Task", *, final: bool = False) -> Evaluation:
    """Measure the training images, and classify the validation images.

    The test images are looked at at the end, or where there are no others to look at; and all training images are, of
    which many files may have to be decoded.
    """
    settings, train = task.settings, task.train if final else task.looked_at()
    classes, labels = train.classes, train.labels.cpu()
    frames = not settings.linear_classifier
    represent: nn.Module = task.encoder if frames else task.encoder.backbone
    features = encode(represent, train, task.normaliser)
    geometry = measure_parts(lambda: [(features, labels)], features.shape[1], classes)
    raw = None
    if not frames:
        raw = measure_parts(lambda: [(features, labels)], features.shape[1], classes, normalize=False).delta_of
    counts = torch.tensor(task.class_counts)  # not of the images that are looked at, of which there may be fewer
    centres = _centres(task, geometry, counts)
    rule: Rule = NearestCentre(centres)
    if settings.classifier_predicts or (settings.classifier.largest and not final):  # until it has left
        assert task.classifier is not None
        weight, bias = (each.detach().cpu().double() for each in (task.classifier.weight, task.classifier.bias))
        represent, rule = task.encoder.backbone, LinearClassifier(weight, bias)
    elif settings.probe and final:
        represent = task.encoder.backbone
        parts = [train] if task.validation is None else [train, task.validation]
        encoded = [(encode(represent, part, task.normaliser), part.labels.cpu()) for part in parts]
        rule = fit_probe(len(classes), *encoded)

    # What a linear classifier learns of class sizes is what it has seen; centres are adjusted for how rows scatter.
    # A class without images, which an encoder to start from may know, gets nothing ahead of the others.
    sizes = torch.where(counts > 0, counts, counts.max()).double() if frames else torch.from_numpy(task.shares())
    adjust = 0.0 if settings.adjust in (None, "fit") else float(settings.adjust)
    validation, calibration = None, None
    if task.validation is not None:
        held_out, known = encode(represent, task.validation, task.normaliser), task.validation.labels.cpu()
        if settings.adjust == "fit":
            adjust = fit_adjustment(rule.scores(held_out), known, sizes)
        scores = _adjusted(rule, sizes, adjust).scores(held_out)
        validation = accuracy_of(scores, known, classes, counts)
        calibration = Calibration.fitted(scores, known) if final else None
    rule = _adjusted(rule, sizes, adjust)
    test, confusion, error = None, None, None
    if final or task.validation is None:
        scores, known = rule.scores(encode(represent, task.test, task.normaliser)), task.test.labels.cpu()
        test = accuracy_of(scores, known, classes, counts)
        confusion = Confusion.of(scores, known, classes) if final else None
        if calibration is not None:
            error = calibration_error(calibration.confidences(scores), known)
    return Evaluation(geometry, test, rule, centres, validation, calibration, confusion, error, classes, raw, adjust)


def _adjusted(rule: Rule, sizes: Tensor, adjust: float) -> Rule:
    """The rule, with what is taken off the scores of large classes."""
    if not adjust:
        return rule
    if isinstance(rule, NearestCentre):
        return replace(rule, shares=sizes, adjust=adjust)
    return LinearClassifier(rule.weights, rule.bias - adjust * (sizes / sizes.max()).log())


def _centres(task: "Task", geometry: Geometry, counts: Tensor) -> Tensor:
    """A direction for each class `[k, dim]`: prototypes where there are any, which classify better than means."""
    if task.prototypes is not None:
        return task.prototypes.cpu().double()
    centres = torch.full((len(counts), geometry.dim), torch.nan, dtype=torch.float64)
    if task.directions is not None:  # known classes may have no images here
        centres = task.directions.double()  # a copy
    centres[counts > 0] = geometry.means
    return centres


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
