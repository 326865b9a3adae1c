"""What is found out about an encoder: the geometry of its features, and how well it classifies."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from orthoframe.data import LabelledImages
from orthoframe.encoders import FrameEncoder
from orthoframe.geometry import (
    Accuracy,
    Calibration,
    Confusion,
    Familiarity,
    Geometry,
    LinearClassifier,
    NearestCentre,
    accuracy_of,
    calibration_error,
    fit_adjustment,
    measure_parts,
)
from orthoframe.runs import TestRecord, TrainedEncoder

if TYPE_CHECKING:
    from orthoframe.training._task import Task

Rule = NearestCentre | LinearClassifier
Rows = tuple[Tensor, Tensor]
"""Features `[rows, dim]` and labels `[rows]`."""

_ROWS = 256  # images that are encoded together: more no longer fit into the caches
_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)  # inverse penalties that are tried, until one is worse
_STRENGTH = 0.1  # where there is nothing to try them on
_ITERATIONS = 1000


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The geometry of the training images, and how well others are classified."""

    geometry: Geometry
    test: Accuracy | None  # None if they were not looked at: that happens once, if there are validation images
    rule: Rule  # which classifies
    centres: Tensor  # [k, dim], prototypes or class means; NaN for a class without either
    validation: Accuracy | None = None  # None if there are no validation images
    calibration: Calibration | None = None  # fitted to the validation images, at the end
    familiarity: Familiarity | None = None  # of the validation images, at the end
    final_test: TestRecord | None = None  # at the end
    classes: tuple[str, ...] = ()  # all of the run; the geometry has those with training images
    raw_delta_of: float | None = None  # of features that are not normalised; for losses of a linear classifier
    adjust: float = 0.0  # what scores were adjusted by, for class sizes

    @property
    def others(self) -> dict[str, Accuracy]:
        """Accuracies of images that were not trained on, by what they are."""
        accuracies = {"validation": self.validation, "test": self.test}
        return {part: accuracy for part, accuracy in accuracies.items() if accuracy is not None}

    def measurement(self, epoch: int) -> dict[str, Any]:
        """A line of `geometry.jsonl`."""
        line: dict[str, Any] = {"epoch": epoch, "train": self.geometry.to_dict()}
        measured = {str(each) for each in self.geometry.names}  # classes with training images
        for part, accuracy in self.others.items():
            rates = zip(self.classes, accuracy.by_class, strict=True)
            kept = tuple(rate for name, rate in rates if name in measured)
            line[part] = asdict(replace(accuracy, by_class=kept))
        return line

    def columns(self) -> dict[str, Any]:
        """The columns of `metrics.csv` that this fills."""
        geometry, accuracy = self.geometry, self.geometry.accuracy
        assert accuracy is not None  # every row was seen
        return {
            "delta_of": geometry.delta_of,
            "raw_delta_of": self.raw_delta_of,
            "delta_etf": geometry.delta_etf,
            "beta_nc": geometry.beta_nc,
            "balanced_accuracy": accuracy.balanced,
            "worst_accuracy": accuracy.worst,
            **{f"{part}_balanced_accuracy": accuracy.balanced for part, accuracy in self.others.items()},
            **{f"{part}_worst_accuracy": accuracy.worst for part, accuracy in self.others.items()},
            "dead_rows": geometry.dead_rows,
            "live_dimensions": geometry.dim - geometry.ownership.dead,
        }

    def trained_encoder(self, task: "Task") -> TrainedEncoder:
        """The encoder, and how it classifies."""
        rule, shares, adjust = self.rule, None, 0.0
        if isinstance(rule, NearestCentre) and rule.shares is not None:
            shares, adjust = tuple(torch.as_tensor(rule.shares).tolist()), rule.adjust
        return replace(
            task.trained_encoder(),
            centres=self.centres,
            calibration=self.calibration,
            familiarity=self.familiarity,
            shares=shares,
            adjust=adjust,
            classifier=rule if isinstance(rule, LinearClassifier) else None,
        )


def evaluate(task: "Task", *, final: bool = False) -> Evaluation:
    """Measure the training images, and classify the validation images.

    The test images are looked at once, at the end, or where there are no others to look at. At the end all training
    images are measured; before it, of many files, a part.
    """
    objective, settings = task.settings.objective, task.settings.evaluation
    train = task.train if final else task.measured_subset()
    classes, labels = train.classes, train.labels.cpu()
    learns = objective.classifies or (objective.has_classifier and not final)  # until it has left
    probes = final and settings.probe and not learns

    before_head = learns or probes or not objective.has_head

    def encoded(images: LabelledImages) -> tuple[Tensor, Tensor]:
        """Features before the head, and behind it, if there is one."""
        rows = encode(task.encoder.backbone, images, task.scaled)
        return rows, _headed(task.encoder, rows) if objective.has_head else rows

    rows, features = encoded(train)
    geometry = measure_parts(lambda: [(features, labels)], features.shape[1], classes)
    raw = None
    if not objective.has_head:
        raw = measure_parts(lambda: [(features, labels)], features.shape[1], classes, normalize=False).delta_of
    counts = torch.tensor(task.class_counts)  # not of the subset, of which there may be fewer
    centres = _centres(task, geometry, counts)
    held_out = None
    if task.validation is not None:
        validation_rows, validation_features = encoded(task.validation)
        held_out = (validation_rows if before_head else validation_features), task.validation.labels.cpu()
    rule: Rule = NearestCentre(centres)
    if learns:
        assert task.classifier is not None
        weight, bias = (each.detach().cpu().double() for each in (task.classifier.weight, task.classifier.bias))
        rule = LinearClassifier(weight, bias)
    elif probes:
        rule = fit_probe(len(classes), (rows, labels), held_out)

    sizes = _sizes(task, counts)
    adjust = 0.0 if settings.adjust == "fit" else float(settings.adjust)
    validation, calibration, familiarity = None, None, None
    if held_out is not None:
        if settings.adjust == "fit":
            adjust = fit_adjustment(rule.scores(held_out[0]), held_out[1], sizes)
        scores = _adjusted(rule, sizes, adjust).scores(held_out[0])
        validation = accuracy_of(scores, held_out[1], classes, counts)
        calibration = Calibration.fitted(scores, held_out[1]) if final else None
        familiarity = Familiarity.fitted(rows, labels, len(classes), validation_rows) if final else None
    rule = _adjusted(rule, sizes, adjust)
    test, final_test = None, None
    if final or task.validation is None:
        test_rows, test_features = encoded(task.test)
        scores, truth = rule.scores(test_rows if before_head else test_features), task.test.labels.cpu()
        test = accuracy_of(scores, truth, classes, counts)
        if final:
            error = None if calibration is None else calibration_error(calibration.confidences(scores), truth)
            final_test = TestRecord(
                accuracy=test,
                confusion=Confusion.of(scores, truth, classes),
                calibration_error=error,
                classifier="linear classifier" if isinstance(rule, LinearClassifier) else "nearest centre",
                train_balanced=accuracy_of(rule.scores(rows), labels, classes).balanced if learns else None,
                frame_balanced=_by_frame(centres, test_features, truth) if learns and objective.has_head else None,
            )
    return Evaluation(
        geometry=geometry,
        test=test,
        rule=rule,
        centres=centres,
        validation=validation,
        calibration=calibration,
        familiarity=familiarity,
        final_test=final_test,
        classes=classes,
        raw_delta_of=raw,
        adjust=adjust,
    )


def _headed(encoder: FrameEncoder, rows: Tensor) -> Tensor:
    """What the head makes of features of the backbone, in evaluation mode, on the CPU."""
    head = encoder.head
    training, device = head.training, next(encoder.parameters()).device
    head.eval()
    with torch.no_grad():
        parts = [head(part.to(device)).float().cpu() for part in torch.split(rows, _ROWS)]
    head.train(training)
    return torch.cat(parts)


def _by_frame(centres: Tensor, rows: Tensor, labels: Tensor) -> float:
    """The balanced accuracy of the nearest centre."""
    return accuracy_of(NearestCentre(centres).scores(rows), labels, range(len(centres))).balanced


def _sizes(task: "Task", counts: Tensor) -> Tensor:
    """Sizes of classes for which scores are adjusted.

    What a linear classifier learns of class sizes is what it has seen; centres are adjusted for how rows scatter. A
    class without images, which an encoder to start from may know, gets nothing ahead of the others.
    """
    if not task.settings.objective.has_head:
        return torch.from_numpy(task.shares())
    return torch.where(counts > 0, counts, counts.max()).double()


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
def encode(encoder: nn.Module, images: LabelledImages, scale: Callable[[Tensor], Tensor]) -> Tensor:
    """Features `[n, dim]` of images, in evaluation mode, on the CPU."""
    training, device = encoder.training, next(encoder.parameters()).device
    encoder.eval()
    order = np.arange(len(images))
    batches = [order[start : start + _ROWS] for start in range(0, len(order), _ROWS)]
    parts = [encoder(scale(pixels)).float().cpu() for pixels in images.batches(batches, device)]
    encoder.train(training)
    return torch.cat(parts)


def fit_probe(num_classes: int, train: Rows, validation: Rows | None = None) -> LinearClassifier:
    """Fit a logistic regression to features before the head, in which all classes count the same.

    Settling onto a frame can cost classes of a few images at the head, and not before it: there this classifier still
    tells them apart. The strength of its penalty is chosen on validation images. A class without training rows is never
    predicted.
    """
    from sklearn.linear_model import LogisticRegression  # a second to load

    rows, labels = train
    mean, scale = rows.double().mean(0), rows.double().std(0).clamp(min=1e-6)
    standard = ((rows.double() - mean) / scale).numpy()

    def fitted(strength: float) -> LinearClassifier:
        model = LogisticRegression(C=strength, class_weight="balanced", max_iter=_ITERATIONS)
        model.fit(standard, labels.numpy())
        weights, bias = np.zeros((num_classes, rows.shape[1])), np.full(num_classes, -np.inf)
        slopes, intercept = model.coef_, model.intercept_
        if len(model.classes_) == 2:  # which have one row of weights together
            slopes, intercept = np.concatenate([-slopes, slopes]) / 2, np.concatenate([-intercept, intercept]) / 2
        weights[model.classes_], bias[model.classes_] = slopes, intercept
        scaled = torch.from_numpy(weights) / scale
        return LinearClassifier(scaled, torch.from_numpy(bias) - scaled @ mean)

    if validation is None:
        return fitted(_STRENGTH)
    best, highest = None, -1.0
    for strength in _STRENGTHS:  # weaker penalties take longer
        rule = fitted(strength)
        balanced = accuracy_of(rule.scores(validation[0]), validation[1], range(num_classes)).balanced
        if balanced < highest:
            break
        if balanced > highest:
            best, highest = rule, balanced
    assert best is not None
    return best
