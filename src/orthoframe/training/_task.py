"""What is trained, on which images, in which batches, and how it is evaluated."""

from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoframe.batches import BatchPlan, RunCertificate, certify_run
from orthoframe.data import (
    Augment,
    Data,
    LabelledImages,
    Normaliser,
    Progress,
    default_augmentation,
    imbalanced_indices,
    load_data,
    long_tail_counts,
    step_counts,
)
from orthoframe.encoders import FrameEncoder, make_frame_encoder
from orthoframe.errors import Option, OptionError, OrthoframeError, Part, TrainingError
from orthoframe.geometry import Accuracy, Geometry, NearestCentre, accuracy_of, measure_parts
from orthoframe.training._fingerprint import DataFingerprint
from orthoframe.training._settings import Settings

_ROWS = 256  # images that are encoded together: more no longer fit into the caches


@dataclass(frozen=True)
class Evaluation:
    """The geometry of the training images, and the accuracy of the test images by the nearest class mean."""

    geometry: Geometry
    test: Accuracy
    centres: Tensor  # [k, dim], the class means; NaN for a class without training images

    def measurement(self, epoch: int) -> dict[str, Any]:
        """A line of `geometry.jsonl`."""
        return {"epoch": epoch, "train": self.geometry.to_dict(), "test": asdict(self.test)}

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
            "test_balanced_accuracy": self.test.balanced,
            "test_worst_accuracy": self.test.worst,
            "dead_rows": found.dead_rows,
            "live_dimensions": found.dim - found.ownership.dead,
        }


@dataclass(frozen=True)
class Task:
    """What is trained, on what, in which batches."""

    settings: Settings
    data: DataFingerprint  # of all images, before some were chosen
    train: LabelledImages
    test: LabelledImages
    normaliser: Normaliser
    augment: Augment
    plan: BatchPlan
    encoder: FrameEncoder
    classifier: nn.Linear | None = None  # for cross-entropy
    prototypes: Tensor | None = None  # [k, dim], rows that every batch is compared with

    @property
    def class_counts(self) -> list[int]:
        """Training images of each class."""
        return torch.bincount(self.train.labels, minlength=len(self.train.classes)).tolist()

    def modules(self) -> nn.Sequential:
        """Everything that is trained."""
        parts: OrderedDict[str, nn.Module] = OrderedDict(encoder=self.encoder)
        if self.classifier is not None:
            parts["classifier"] = self.classifier
        return nn.Sequential(parts)

    def notes(self) -> list[tuple[Part, ...]]:
        """What is not quite as it was asked for."""
        ratio, largest, smallest = self.settings.ratio, max(self.class_counts), min(self.class_counts)
        if self.settings.imbalance == "none" or largest >= ratio * smallest:
            return []
        reason = f" is not reached: the classes have {smallest} to {largest} images, a ratio of {largest / smallest:g}"
        return [(Option("ratio", ratio), reason)]

    def certificate(self) -> RunCertificate:
        """What the batches of the run guarantee; about the fewest views, because more are at least as good."""
        settings, plan = self.settings, self.plan
        names = [self.train.classes[c] for c in plan.labels.names]
        return certify_run(
            plan, settings.epochs, denominator=settings.denominator, prototypes=settings.prototypes, names=names
        )

    def evaluate(self, encoder: nn.Module) -> Evaluation:
        """Measure the training images, and classify the test images."""
        classes, labels = self.train.classes, self.train.labels.cpu()
        features = encode(encoder, self.train.pixels, self.normaliser)
        geometry = measure_parts(lambda: [(features, labels)], features.shape[1], classes)
        counts = torch.bincount(labels, minlength=len(classes))
        centres = torch.full((len(classes), features.shape[1]), torch.nan, dtype=torch.float64)
        centres[counts > 0] = geometry.means
        scores = NearestCentre(centres).scores(encode(encoder, self.test.pixels, self.normaliser))
        return Evaluation(geometry, accuracy_of(scores, self.test.labels.cpu(), classes, counts), centres)


@torch.no_grad()
def encode(encoder: nn.Module, pixels: Tensor, normaliser: Normaliser) -> Tensor:
    """Features `[n, dim]` of uint8 images, in evaluation mode, on the CPU."""
    training, device = encoder.training, next(encoder.parameters()).device
    encoder.eval()
    parts = [encoder(normaliser(part.to(device))).float().cpu() for part in torch.split(pixels, _ROWS)]
    encoder.train(training)
    return torch.cat(parts)


def make_task(settings: Settings, processes: int = 1, progress: Progress | None = None) -> Task:
    """Load the data, make it imbalanced, plan the batches and make the encoder.

    Args:
        settings: What to do.
        processes: How many processes share each batch.
        progress: Called while data is downloaded; see `load_data`.

    Raises:
        OrthoframeError: For data that cannot be loaded, and settings that are not allowed or do not fit it.
    """
    settings.check()
    try:
        data = load_data(settings.data, settings.data_dir, seed=settings.seed, progress=progress)
        train = data.train.subset(_chosen(settings, data))
        test = data.test
        if settings.test_images is not None:
            there = torch.bincount(test.labels, minlength=len(test.classes)).clamp(max=settings.test_images)
            test = test.subset(imbalanced_indices(test.labels, there.tolist(), seed=settings.seed))
        shape = tuple(train.pixels.shape[1:])
        k = len(train.classes)
        encoder = make_frame_encoder(
            settings.model,
            shape,
            width=settings.width,
            head=settings.head,
            features=settings.features,
            activation=settings.activation,
            num_classes=k,
            seed=settings.seed,
        )
        plan = BatchPlan(
            train.labels.numpy(),
            None if settings.scheme == "full" else settings.batch_size,
            scheme=settings.scheme,
            binding=settings.binding,
            seed=settings.seed,
            views=settings.views_in(settings.epochs - 1),
            bound_examples=settings.bound_examples,
            bound_classes=settings.bound_classes,
        )
        _check_batch_norm(plan, encoder, processes)
    except OrthoframeError:
        raise
    except (ValueError, OSError) as error:
        raise TrainingError(f"{settings.data}: {error}") from error
    classifier = None
    if settings.loss == "cross-entropy":
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(settings.seed)
            classifier = nn.Linear(encoder.out_features, k)
    prototypes = _prototypes(k, encoder.out_features) if settings.prototypes else None
    augment = default_augmentation(settings.data, shape[1]) if settings.augment else Augment(0, flip=False)
    fingerprint, normaliser = DataFingerprint.of(data), Normaliser.of(train)
    return Task(settings, fingerprint, train, test, normaliser, augment, plan, encoder, classifier, prototypes)


def _prototypes(k: int, dim: int) -> Tensor:
    """An orthogonal frame `[k, dim]`: each class has dim // k dimensions to itself."""
    block = dim // k
    rows = torch.eye(k).repeat_interleave(block, dim=1) * block**-0.5
    return nn.functional.pad(rows, (0, dim - k * block))


def _check_batch_norm(plan: BatchPlan, encoder: FrameEncoder, processes: int) -> None:
    """Refuse batches that are too small for BatchNorm."""
    if not any(isinstance(part, nn.BatchNorm2d) for part in encoder.modules()):
        return
    rows = min(map(len, plan.batches(0))) * plan.views // processes
    if rows < 2:
        images = f"{rows} image{'' if rows == 1 else 's'}"
        raise OptionError(
            f"the smallest batch has {images} per process, and BatchNorm needs 2; choose another ",
            *(Option("batch_size"), ", or ", Option("binding", "fixed")),
        )


def _chosen(settings: Settings, data: Data) -> Any:
    """Indices of the training images that are kept."""
    k = len(data.train.classes)
    if k < 2:
        raise OptionError(Option("data", settings.data), f" has {k} class; a frame needs 2 or more")
    there = torch.bincount(data.train.labels, minlength=k)
    majority = settings.majority
    if settings.imbalance == "none":
        counts = there.tolist() if majority is None else [majority] * k
    else:
        profile = step_counts if settings.imbalance == "step" else long_tail_counts
        if majority is None:  # the most that every class has, in these proportions
            shares = profile(k, 10**9, settings.ratio)
            majority = min(int(n) * 10**9 // share for n, share in zip(there.tolist(), shares, strict=True))
        counts = profile(k, max(1, majority), settings.ratio)
    if max(counts) < 2:
        raise OptionError(
            f"the largest class would have {max(counts)} image, and the loss needs 2 to compare; use a larger ",
            *(Option("majority"), " or a smaller ", Option("ratio")),
        )
    for name, count, most in zip(data.train.classes, counts, there.tolist(), strict=True):
        if count > most:
            raise OptionError(
                Option("majority", settings.majority), f" asks for {count} images of class {name}, which has {most}"
            )
    return imbalanced_indices(data.train.labels.numpy(), counts, seed=settings.seed)
