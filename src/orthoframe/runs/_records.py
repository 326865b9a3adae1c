"""The files of a run folder as typed records, which `msgspec` decodes, and how what they record moves in a run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate

from orthoframe.batches import ClassReport
from orthoframe.errors import Coded
from orthoframe.geometry import Accuracy, Confusion
from orthoframe.losses import Gap


@dataclass(frozen=True, kw_only=True, slots=True)  # a run keeps all of them
class EpochRecord:
    """A row of `metrics.csv`; what was not measured in an epoch, or does not exist for its loss, is None."""

    epoch: int  # from 1
    seconds: float
    lr: float  # of the last step
    temperature: float | None = None  # None for a loss without one
    loss: float  # the mean over the batches of the epoch, as are the next three
    floor: float | None = None
    gap: float | None = None
    collapsed: float | None = None  # the loss of identical features
    delta_of: float | None = None
    delta_etf: float | None = None
    beta_nc: float | None = None
    balanced_accuracy: float | None = None  # of the training images
    worst_accuracy: float | None = None
    test_balanced_accuracy: float | None = None
    test_worst_accuracy: float | None = None
    validation_balanced_accuracy: float | None = None
    validation_worst_accuracy: float | None = None
    raw_delta_of: float | None = None  # of features that are not normalised
    dead_rows: int | None = None  # training images without a feature above zero
    live_dimensions: int | None = None  # that are above zero for some training image

    @property
    def relative_gap(self) -> float | None:
        """The gap divided by the gap of identical features; None if there is nothing to learn."""
        if self.floor is None or self.collapsed is None:
            return None
        return Gap(self.loss, self.floor, self.collapsed).relative_gap


COLUMNS = tuple(field.name for field in fields(EpochRecord))
"""The columns of `metrics.csv`."""

END = 0.2
"""The end of a run: the last fifth of its summed learning rate."""


def summed_rates(records: Sequence[EpochRecord]) -> list[float]:
    """The learning rate summed over the epochs up to each record: how far the weights can have moved."""
    before = [0, *(record.epoch for record in records[:-1])]
    return list(accumulate(record.lr * (record.epoch - last) for record, last in zip(records, before, strict=True)))


def power_law(sums: Sequence[float], values: Sequence[float | None], start: float) -> float | None:
    """The exponent p of a quantity that falls like `sum ** -p` at the end of a run.

    Epochs in which the learning rate is nearly zero move nothing, so that sums tell more than epochs.

    Args:
        sums: The learning rate summed up to each measurement.
        values: The quantity, or None where it was not measured.
        start: The sum from which the end is counted: the last measurement before it is compared with the very last.

    Returns:
        The exponent, negative for a quantity that rises; None if fewer than two values are known, positive and finite.

    Examples:
        >>> round(power_law([1.0, 50.0, 80.0, 100.0], [1.0, 0.2, 0.125, 0.1], 80.0), 9)  # like 1/t
        1.0
    """
    pairs = zip(sums, values, strict=True)
    measured = [(done, value) for done, value in pairs if value is not None and math.isfinite(value)]
    if len(measured) < 2:
        return None
    early = [entry for entry in measured[:-1] if entry[0] <= start] or measured[:1]
    (first_sum, first), (last_sum, last) = early[-1], measured[-1]
    if not (first > 0 and last > 0 and last_sum > first_sum > 0):
        return None
    return math.log(first / last) / math.log(last_sum / first_sum)


@dataclass(frozen=True, kw_only=True)
class ClassMeasurement:
    """One class in a line of `geometry.jsonl`."""

    name: int | str
    rows: int
    spread: float | None  # mean squared distance of the rows to their mean
    dimensions: int  # that the class owns
    inside: float | None  # part of the squared length of its mean that is in them


@dataclass(frozen=True, kw_only=True)
class OwnershipMeasurement:
    """Which class owns each dimension."""

    owners: tuple[int, ...]  # [d], position of a class; -1 where the dimension is dead
    purity: tuple[float | None, ...]  # [d]
    owned: int
    shared: int
    dead: int


@dataclass(frozen=True, kw_only=True)
class GeometryMeasurement:
    """A `Geometry`, as its `to_dict` has it; None for what is not finite."""

    verdict: str
    classes: tuple[ClassMeasurement, ...]
    dim: int
    cosines: tuple[tuple[float | None, ...], ...] | None  # [k, k]; None for many classes
    ownership: OwnershipMeasurement
    dead_rows: int
    spread: float | None
    delta_of: float | None
    delta_etf: float | None
    beta_nc: float | None
    collapse_trace: float | None
    mean_cosine: float | None
    max_cosine: float | None
    norm_ratio: float | None
    missing: tuple[int | str, ...] = ()
    accuracy: Accuracy | None = None
    cdnv: float | None = None  # which earlier versions did not have


@dataclass(frozen=True)
class Measurement:
    """A line of `geometry.jsonl`: the training images after an epoch, and the accuracy of others."""

    epoch: int
    train: GeometryMeasurement
    test: Accuracy | None = None
    validation: Accuracy | None = None


@dataclass(frozen=True, kw_only=True)
class CertificateRecord:
    """`certificate.json`: what the batches of the run guarantee."""

    holds: bool
    holds_as_stated: bool
    sentence: str
    classes: tuple[ClassReport, ...]
    missing_pairs: tuple[tuple[int | str, int | str], ...]
    num_batches: int
    memberships: int
    single_class_batches: int
    absent: int
    epochs: int  # that were looked at together
    conclusive: bool = True  # whether it is about all batches of the run


@dataclass(frozen=True, kw_only=True)
class NonFiniteBatch:
    """`nan-batch.json`: a batch whose loss was not finite, which stopped the run."""

    loss: str  # nan or inf
    step: int  # from 1, in its epoch
    epoch: int  # from 1
    indices: tuple[int, ...]  # the samples, by their place in the data as it was read
    largest_feature: float | None  # before normalisation; None if it is not finite either


@dataclass(frozen=True)
class RunEnvironment:
    """`run.json`: what a run used, in addition to what was asked for (`config.json`)."""

    processes: int  # that shared it
    device: str  # cpu or cuda
    precision: str  # as Fabric names it
    versions: dict[str, str]  # of orthoframe, torch and Python


class Question(Coded):
    """What a run was made to answer."""

    FRAME = "frame", "whether class means form an orthogonal frame"
    ACCURACY = "accuracy", "how accurately new images are classified"


class Signature(Coded):
    """What the features look like at the end of a run."""

    FRAME = "frame-reached", "class means are orthogonal and classes have collapsed"
    NOT_ORTHOGONAL = "means-not-orthogonal", "classes have collapsed, but their means are not orthogonal"
    NOT_COLLAPSED = "classes-not-collapsed", "class means are orthogonal, but classes have not collapsed"
    NEITHER = (
        "means-not-orthogonal-and-classes-not-collapsed",
        "class means are not orthogonal, and classes have not collapsed",
    )


class Ending(Coded):
    """How a run that has not reached the frame was moving when it ended."""

    FALLING = "still-falling", "the run was still approaching the frame"
    SLOW = "slow", "the run was approaching the frame slowly"
    STALLED = "stalled", "the run had stopped approaching the frame"
    HARDLY_BEGUN = "hardly-begun", "the loss has hardly begun to fall"
    ALIKE = "features-alike", "features are all alike"
    MIXED = "classes-mixed", "the loss is above the loss of identical features"
    NOT_FINISHED = "not-finished", "the run was interrupted, or is still running"
    NON_FINITE = "loss-not-finite", "the loss was not finite"

    @property
    def waiting(self) -> bool:
        """Whether more epochs may be all that is missing."""
        return self in (Ending.FALLING, Ending.SLOW, Ending.HARDLY_BEGUN, Ending.NOT_FINISHED)


class Cause(Coded):
    """Why a run did not end as it was meant to; the sentence has places for values."""

    NOT_LEARNT = (
        "training-images-not-learnt",
        "the network has not learnt the training images yet: it classifies {train:.3f} of them correctly (balanced)",
    )
    NOT_TRANSFERRED = (
        "not-transferred",
        "the network classifies {train:.3f} of the training images correctly (balanced), so that more steps would not "
        "help",
    )
    FEW_IMAGES = (
        "few-images",
        "the worst classes have {fewest} to {most} training images; the median class has {median}",
    )
    FREE_LENGTHS = (
        "free-lengths",
        "a linear classifier leaves the lengths of features free: at the optimum of cross-entropy the directions of "
        "non-negative features are a frame, and lengths differ with the size of classes, but networks stop moving far "
        "from that optimum",
    )
    NEGATIVE = "negative-features", "features may be negative ({activation}): their optimum is not an orthogonal frame"
    CLASSIFIER = "classifier", "a linear classifier learns beside the loss to the end: for accuracy, not for the frame"
    UNCERTIFIED = "uncertified", "{certificate}"
    UNCERTIFIED_SO_FAR = (
        "uncertified-so-far",
        "in the first {epochs} epochs (later ones were not checked): {certificate}",
    )
    LARGE_LR = "large-lr", "{lr} is large, and the loss has covered only {percent:.0f} % of the way to its floor"
    SMALL_LR = "small-lr", "{lr} is small, and the loss has covered only {percent:.0f} % of the way to its floor"
    ALIKE = "features-alike", "the loss, {loss:.4f}, is about the loss of identical features, {collapsed:.4f}"
    COLD_START = (
        "cold-start",
        "training has not begun: the loss, {loss:.4f}, is about the loss of identical features, {collapsed:.4f}, "
        "and rows are nearly parallel (mean cosine {cosine:.2f})",
    )
    MIXED = (
        "classes-mixed",
        "the loss, {loss:.4f}, is far above the loss of identical features, {collapsed:.4f}: images of a class "
        "are no closer to each other than to the others",
    )
    HARDLY_BEGUN = (
        "hardly-begun",
        "the loss has covered {percent:.0f} % of the way from identical features to its floor",
    )
    TOO_HOT = (
        "temperature-too-high",
        "temperature {temperature:g} is far above {fastest:.2f}, at which features near the frame move fastest: it may "
        "merge classes before they are separated",
    )
    TOO_COLD = (
        "temperature-too-low",
        "temperature {temperature:g} is far below {fastest:.2f}, at which features near the frame move fastest",
    )
    DEAD_DIMENSIONS = "dead-dimensions", "only {live} dimensions are alive, and {classes} classes need one each"
    DEAD_ROWS = "dead-rows", "images without a feature above zero: {rows}"
    POOLED_MAPS = (
        "pooled-maps",
        "features are averages of ReLU maps, which are rarely exactly zero and approach the frame slowly",
    )
    STILL_FALLING = "still-falling", "{quantity} is still falling"
    SLOW = "slow", "{quantity} falls slowly, and no known cause explains it"
    STALLED = "stalled", "{quantity} has stopped falling, and no known cause explains it"
    NOT_FINISHED = "not-finished", "the run was interrupted, or is still running"
    NON_FINITE = "loss-not-finite", "the loss was not finite"


@dataclass(frozen=True)
class CauseRecord:
    """A cause with its sentence, and what to try."""

    cause: Cause
    sentence: str
    advice: str


@dataclass(frozen=True)
class TestRecord:
    """The test images at the end of a run."""

    __test__ = False  # for pytest, to which the name looks like a test

    accuracy: Accuracy
    confusion: Confusion
    calibration_error: float | None = None  # of confidences; None without validation images
    classifier: str | None = None  # which classified them, such as `nearest centre`; earlier versions did not say
    train_balanced: float | None = None  # of the training images, by a linear classifier that learnt with the network
    frame_balanced: float | None = None  # of the test images, by the nearest axis beside that classifier


@dataclass(frozen=True, kw_only=True)
class VerdictRecord:
    """`verdict.json`: how a run ended."""

    sentence: str  # which answers the question
    reached: bool  # whether the frame is reached
    signature: Signature | None  # None for a run that has not finished
    ending: Ending | None  # None where the frame is reached or the causes explain everything
    causes: tuple[CauseRecord, ...]  # likely ones, most severe first
    merged: tuple[tuple[int | str, ...], ...] = ()  # classes whose means point in one direction
    test: TestRecord | None = None  # which earlier versions did not have
    question: Question = Question.FRAME
    geometry: str = ""  # a second sentence, if the question is another than the geometry

    @property
    def label(self) -> str:
        """The answer in a few words."""
        if self.question is Question.ACCURACY and self.test is not None:
            return f"balanced test accuracy {self.test.accuracy.balanced:.3f}"
        return ", ".join(part.replace("-", " ") for part in (self.signature, self.ending) if part is not None)
