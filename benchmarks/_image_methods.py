"""The methods that `benchmarks/images.py` compares, all on one loop, encoder and augmentation.

Those that the library has are settings. LDAM-DRW (Cao et al., 2019) and BCL (Zhu et al., 2022) have a head and a loss
of their own here, written from their equations. BCL sees one view of each image, as all methods do: with two, it would
see half of the images in as many rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe.training import Criterion, Loop, NetworkOutputs, Problem, Task

LR = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4)
"""Learning rates that are tried for each method."""


class _HeadCriterion(Criterion):
    """A loss of the benchmark's own, from the outputs of its head."""

    def __init__(self, task: Task) -> None:
        epochs = task.settings.schedule.epochs
        problem = Problem(
            num_classes=len(task.train.classes),
            dim=task.encoder.out_features,
            shares=task.shares(),
            prototypes=None,
            epochs=epochs,
            device=torch.device("cpu"),
            processes=1,
        )
        super().__init__(nn.Identity(), problem)
        head: Any = task.classifier
        self.epoch, self.epochs, self.head = 0, epochs, head
        self.counts = torch.tensor(task.class_counts, dtype=torch.float32)

    def set_epoch(self, epoch: int) -> float | None:
        """Remember it: weights may be deferred."""
        self.epoch = epoch
        return super().set_epoch(epoch)


class CosineClassifier(nn.Module):
    """Cosines to the weights of each class; times a scale they are scores."""

    def __init__(self, dim: int, classes: int, scale: float = 30.0) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.empty(classes, dim).uniform_(-1, 1)), scale

    def forward(self, features: Tensor) -> Tensor:
        """Cosines."""
        return F.normalize(features, dim=1) @ F.normalize(self.weight, dim=1).T

    def scores(self, features: Tensor) -> Tensor:
        """What predicts."""
        scores: Tensor = self.scale * self(features)
        return scores


class LdamDrw(_HeadCriterion):
    """Label-distribution-aware margins, with weights of effective numbers in the last fifth of the steps."""

    LARGEST, BETA, DEFERRED = 0.5, 0.9999, 0.8

    def loss(self, outputs: NetworkOutputs, labels: Tensor, rows: int) -> Tensor:
        """The loss of a batch."""
        assert outputs.scores is not None
        margins = self.counts**-0.25
        margins = margins * (self.LARGEST / margins.max())
        scores = self.head.scale * outputs.scores.scatter_add(1, labels[:, None], -margins[labels][:, None])
        if self.epoch < self.DEFERRED * self.epochs:
            return F.cross_entropy(scores, labels)
        weights = (1 - self.BETA) / (1 - self.BETA**self.counts)
        return F.cross_entropy(scores, labels, weight=weights / weights.sum() * len(weights))


class ContrastiveClassifier(nn.Module):
    """A linear classifier beside a projection to the sphere, whose outputs are side by side; and one of its weights."""

    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, classes)
        self.projection, self.centres = _projection(dim), _projection(dim)

    def scores(self, features: Tensor) -> Tensor:
        """What predicts."""
        scores: Tensor = self.linear(features)
        return scores

    def forward(self, features: Tensor) -> Tensor:
        """Scores, and unit rows."""
        return torch.cat([self.linear(features), F.normalize(self.projection(features), dim=1)], 1)


def _projection(dim: int, hidden: int = 512, projected: int = 128) -> nn.Module:
    return nn.Sequential(nn.Linear(dim, hidden), nn.BatchNorm1d(hidden), nn.ReLU(True), nn.Linear(hidden, projected))


class Bcl(_HeadCriterion):
    """Balanced contrastive learning: logit-adjusted cross-entropy, and class-averaged contrast with class centres."""

    TEMPERATURE, CLASSIFY, CONTRAST = 0.1, 2.0, 0.6

    def loss(self, outputs: NetworkOutputs, labels: Tensor, rows: int) -> Tensor:
        """The loss of a batch."""
        assert outputs.scores is not None
        k = len(self.counts)
        scores, unit = outputs.scores[:, :k], outputs.scores[:, k:]
        classified = F.cross_entropy(scores + (self.counts / self.counts.sum()).log(), labels)
        centres = F.normalize(self.head.centres(self.head.linear.weight), dim=1)
        every, classes = torch.cat([unit, centres]), torch.cat([labels, torch.arange(k)])
        logits = unit @ every.T / self.TEMPERATURE
        itself = torch.eye(len(unit), len(every), dtype=torch.bool)
        same = (labels[:, None] == classes) & ~itself
        # Each class counts once in the denominator, however many rows it has.
        sizes = torch.bincount(classes, minlength=k)[classes].expand(len(unit), -1) - (labels[:, None] == classes).int()
        averaged = (logits - sizes.clamp(min=1).log()).masked_fill(itself, -torch.inf)
        terms = averaged.logsumexp(1, keepdim=True) - logits
        contrast = (terms * same).sum(1) / same.sum(1)
        return self.CLASSIFY * classified + self.CONTRAST * contrast.mean()


@dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes:
        settings: That differ from those of all methods.
        head: Makes the classifier, from the dimension of features and the number of classes; None for the library's.
        criterion: Its loss.
    """

    settings: dict[str, Any]
    head: Callable[[int, int], nn.Module] | None = None
    criterion: type[_HeadCriterion] | None = None

    def equip(self, task: Task) -> Task:
        """Give the task the head of the method."""
        if self.head is None:
            return task
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(task.settings.machine.seed)
            head: Any = self.head(task.encoder.backbone.out_features, len(task.train.classes))
        return replace(task, classifier=head)

    def install(self, loop: Loop) -> None:
        """Give the loop the loss of the method."""
        if self.criterion is not None:
            loop.criterion = self.criterion(loop.task)
            loop.meter = loop.criterion.meter


_CLASSIFIER: dict[str, Any] = {"loss": "cross-entropy", "binding": "none"}
METHODS: dict[str, Method] = {
    "cross-entropy": Method(_CLASSIFIER),
    "balanced softmax": Method({**_CLASSIFIER, "loss": "balanced-softmax"}),
    "class-balanced draws": Method({**_CLASSIFIER, "scheme": "balanced"}),
    "balanced softmax, redrawn": Method({**_CLASSIFIER, "loss": "balanced-softmax", "binding": "redrawn"}),
    "LDAM-DRW": Method(_CLASSIFIER, CosineClassifier, LdamDrw),
    "BCL": Method(_CLASSIFIER, ContrastiveClassifier, Bcl),
    "accurate": Method({"recipe": "accurate", "loss": "frame"}),
}
"""Every method by name; the last is ours."""
