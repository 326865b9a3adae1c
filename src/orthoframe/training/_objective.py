"""What is minimised: from what the network makes of a batch to its loss, and what is known of that loss."""

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe.encoders import FrameEncoder
from orthoframe.errors import Option
from orthoframe.losses import FrameLoss, GapMeter, SupConLoss

if TYPE_CHECKING:
    from orthoframe.training._settings import Settings
    from orthoframe.training._task import Task

_COLD = 0.95  # of the way from the floor to the loss of features that are all alike
PARALLEL = 0.9
"""The mean cosine of two rows above which features are nearly all alike."""


class Outputs(NamedTuple):
    """What a network makes of a batch."""

    rows: Tensor  # [batch, dim], unit features
    scores: Tensor | None  # [batch, k], of the linear classifier


class Network(nn.Module):
    """An encoder, and a linear classifier on its backbone where one learns: images to outputs."""

    def __init__(self, encoder: FrameEncoder, classifier: nn.Linear | None) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier

    def forward(self, images: Tensor) -> Outputs:
        """Unit features, and the scores of the classifier."""
        if self.classifier is None:
            return Outputs(self.encoder(images), None)
        features = self.encoder.backbone(images)
        return Outputs(self.encoder.head(features), self.classifier(features))


class TaskObjective:
    """The loss of a task, as its settings ask for it.

    Args:
        task: What is trained.
        device: Where outputs are.
        processes: How many share each batch.

    Attributes:
        meter: The losses of the steps of an epoch, beside their floors.
        has_floor: Whether the loss has a floor, which is reached at the frame.
    """

    def __init__(self, task: "Task", device: torch.device, processes: int) -> None:
        self.settings, self.processes = task.settings, processes
        k, dim, settings = len(task.train.classes), task.encoder.out_features, task.settings
        self.loss: SupConLoss | FrameLoss | None = None
        self._keys: tuple[Tensor, ...] = ()  # prototypes, and their classes
        self._prior: Tensor | None = None  # [k], for balanced softmax
        self._beside = 0.0  # weight of the classifier beside the loss
        if settings.loss == "supcon":
            self.loss = SupConLoss(denominator=settings.denominator)
        elif settings.loss == "frame":
            assert task.prototypes is not None  # the frame
            self.loss = FrameLoss(k, dim, shares=task.shares()).to(device)
            self.loss.frame = task.prototypes.to(device)
            self.loss.contrastive.denominator = settings.denominator
        if settings.loss == "balanced-softmax" or settings.classifier.largest:
            self._prior = torch.from_numpy(task.shares()).log().float().to(device)
        if settings.prototypes and task.prototypes is not None:
            self._keys = task.prototypes.to(device), torch.arange(k, device=device)
        self.has_floor = self.loss is not None
        self.meter = GapMeter() if self.loss is None else GapMeter.of(self.loss)

    def set_epoch(self, epoch: int) -> float:
        """Set what changes from epoch to epoch; the temperature."""
        settings, epochs = self.settings, self.settings.num_epochs
        temperature = settings.temperature.at(epoch, epochs)
        contrastive, self._beside = self.loss, settings.classifier.at(epoch, epochs)
        if isinstance(self.loss, FrameLoss):
            self.loss.supcon, contrastive = settings.supcon.at(epoch, epochs), self.loss.contrastive
        if isinstance(contrastive, SupConLoss):  # whose temperature and margin a frame term takes, too
            contrastive.temperature, contrastive.margin = temperature, settings.margin.at(epoch, epochs)
        return temperature

    def __call__(self, outputs: Outputs, labels: Tensor, rows: int) -> Tensor:
        """This process's part of the loss, whose mean over processes is the loss; `rows`: global batch size."""
        if self.loss is None:
            return self._classified(outputs, labels, rows)
        # All prototypes are in every process: the loss gathers rows, but not keys.
        found: Tensor = self.loss(outputs.rows, labels, *self._keys)
        return found

    def whole(self, loss: Tensor, outputs: Outputs, labels: Tensor, rows: int) -> Tensor:
        """What is minimised: the loss, and beside it that of a linear classifier, if there is one.

        Also in epochs in which its weight is zero: processes wait for the gradient of every weight.
        """
        if not self.settings.classifier.largest:
            return loss
        return loss + self._beside * self._classified(outputs, labels, rows)

    def _classified(self, outputs: Outputs, labels: Tensor, rows: int) -> Tensor:
        """This process's part of the cross-entropy of the linear classifier."""
        assert outputs.scores is not None
        scores = outputs.scores.float() if self._prior is None else outputs.scores.float() + self._prior
        # Not the mean over this process's rows: another process may have one more.
        return F.cross_entropy(scores, labels, reduction="sum") * (self.processes / rows)

    def key_labels(self) -> range | None:
        """The classes of the prototypes that every batch is compared with."""
        return range(len(self._keys[0])) if self._keys else None

    def is_cold(self, loss: float, rows: Tensor, labels: Tensor) -> tuple[float, float] | None:
        """Whether training has not begun: the loss of features that are all alike, and the mean cosine of two rows.

        Args:
            loss: Of a batch.
            rows: Features of the batch, or of a part of it.
            labels: Of the whole batch.

        Returns:
            Both numbers if the loss is about that of features that are all alike, and rows are nearly parallel.
        """
        if self.loss is None:
            return None
        floor, collapsed = self.meter.bounds(labels, self.key_labels())
        if len(rows) < 2 or collapsed <= floor or loss - floor < _COLD * (collapsed - floor):  # or of one class
            return None
        cosine = mean_cosine(rows)
        return (collapsed, cosine) if cosine > PARALLEL else None


def warm_start(settings: "Settings") -> Option | None:
    """What has no such plateau as training has at features that are all alike; None if everything known is on."""
    if settings.loss == "supcon":
        return Option("loss", "frame")
    return Option("head_norm", "batch") if settings.head_norm == "none" and settings.head != "none" else None


def mean_cosine(rows: Tensor) -> float:
    """The mean cosine of two different unit rows.

    Examples:
        >>> mean_cosine(torch.eye(2)), mean_cosine(torch.ones(2, 1))
        (0.0, 1.0)
    """
    unit = rows.detach().double()
    return float((unit.sum(0).square().sum() - unit.square().sum()) / (len(rows) * (len(rows) - 1)))
