"""What is trained, on which images and in which batches."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe.batches import BatchPlan, RunCertificate, certify_run
from orthoframe.data import (
    Augment,
    Columns,
    Data,
    LabelledImages,
    Normaliser,
    Preparation,
    Progress,
    default_augmentation,
    imbalanced_indices,
    load_data,
    long_tail_counts,
    step_counts,
)
from orthoframe.encoders import Backbone, FrameEncoder, load_backbone, make_frame_encoder
from orthoframe.errors import Option, OptionError, OrthoframeError, Part, TrainingError, brief
from orthoframe.losses import make_frame
from orthoframe.options import has_files, is_own_data
from orthoframe.training._defaults import after_loading, before_loading
from orthoframe.training._fingerprint import DataFingerprint
from orthoframe.training._objective import Network
from orthoframe.training._settings import Settings
from orthoframe.training._start import Start

_MEASURED = 10_000  # image files that are measured during training, about
_COUNTED = 5000  # image files whose pixels give mean and deviation


@dataclass(frozen=True)
class Task:
    """What is trained, on what, in which batches."""

    settings: Settings
    data: DataFingerprint  # of all images, before some were chosen
    images: int  # for training, before some were chosen
    left_out: tuple[str, ...]  # files in the folder of the data that are not taken
    train: LabelledImages
    validation: LabelledImages | None
    test: LabelledImages
    preparation: Preparation  # of image files
    normaliser: Normaliser
    augment: Augment
    plan: BatchPlan
    encoder: FrameEncoder
    classifier: nn.Linear | None = None  # of the losses that have one, or beside the loss
    prototypes: Tensor | None = None  # [k, dim], the frame that rows are compared with
    directions: Tensor | None = None  # [k, dim], of the classes that the encoder knew before

    @property
    def class_counts(self) -> list[int]:
        """Training images of each class."""
        return self.train.class_counts

    @property
    def encoder_name(self) -> str:
        """The model, or the backbone that takes its place."""
        return self.settings.model or str(getattr(self.encoder.backbone, "name", "encoder"))

    def network(self) -> Network:
        """Everything that is trained."""
        return Network(self.encoder, self.classifier)

    def shares(self) -> NDArray[np.float64]:
        """The part of all rows that each class has in the batches, `[k]`.

        A class without images, which an encoder to start from may know, has as much as the smallest, so that rows of
        others are still told apart from it.
        """
        found = self.plan.shares()
        shares: NDArray[np.float64] = np.full(len(self.train.classes), found.min())
        shares[np.asarray(self.plan.labels.names)] = found
        shares /= shares.sum()
        return shares

    def notes(self) -> list[tuple[Part, ...]]:
        """What the user may not expect: images that are left out, classes that are not looked at."""
        notes: list[tuple[Part, ...]] = []
        if len(self.train) < self.images and is_own_data(self.settings.data):
            notes.append((f"kept {len(self.train):,} of {self.images:,} training images",))
        if self.left_out:
            number = len(self.left_out)
            files = f"{number:,} file{'s' if number > 1 else ''}"
            notes.append((f"left out {files} not taken for an image of a class, such as {self.left_out[0]}",))
        for part, images in (("validation", self.validation), ("test", self.test)):
            counts = [] if images is None else images.class_counts
            absent = [name for name, count in zip(self.train.classes, counts, strict=False) if not count]
            if absent:
                seen = f"{len(counts) - len(absent)} of {len(counts)}"
                named = brief(", ".join(absent), 80)
                notes.append((f"no {part} images of {named}: balanced {part} accuracy is over {seen} classes",))
        wanted, fewest = self.settings.test_images, min(filter(None, self.test.class_counts), default=0)
        if wanted is not None and fewest < wanted:
            name = self.test.classes[self.test.class_counts.index(fewest)]
            notes.append((Option("test_images", wanted), f" is more than there are of {brief(name, 60)}: {fewest}"))
        ratio, largest, smallest = self.settings.ratio, max(self.class_counts), min(self.class_counts)
        if self.settings.imbalance != "none" and largest < ratio * smallest:
            sizes = f"the classes have {smallest} to {largest} images, a ratio of {largest / smallest:g}"
            notes.append((Option("ratio", ratio), f" is not reached: {sizes}"))
        return notes

    def lasting(self, epochs: int) -> "Task":
        """The same task for another number of epochs, which is now decided."""
        settings = replace(self.settings, epochs=epochs, minutes=None)
        return replace(self, settings=settings, plan=_plan(settings, self.train))

    def certificate(self) -> RunCertificate:
        """What the batches of the run guarantee; about the fewest views, because more are at least as good."""
        settings, plan = self.settings, self.plan
        names = [self.train.classes[c] for c in plan.labels.names]
        return certify_run(
            plan,
            settings.num_epochs,
            denominator=settings.denominator,
            prototypes=settings.prototypes,
            frame=settings.loss == "frame",
            names=names,
        )

    def looked_at(self) -> LabelledImages:
        """The training images that are measured during training: of many files as many as the others of each class."""
        if not is_own_data(self.settings.data) or len(self.train) <= _MEASURED:
            return self.train
        counts = [min(count, _MEASURED // len(self.train.classes) + 1) for count in self.class_counts]
        return self.train.subset(imbalanced_indices(self.train.labels, counts, seed=self.settings.seed))


def make_task(
    settings: Settings,
    processes: int = 1,
    progress: Progress | None = None,
    given: Data | None = None,
    *,
    code: bool = False,
    resumed: bool = False,
) -> Task:
    """Load the data, make it imbalanced, plan the batches and make the encoder.

    Args:
        settings: What to do.
        processes: How many processes share each batch.
        progress: Called while data is downloaded or read; see `load_data`.
        given: Data that is there already.
        code: Whether a Python function may be called that a file names as its backbone: that of a trained encoder to
            start from, or the settings of a run that is resumed.
        resumed: Whether the settings come from a file, and not from the caller.

    Raises:
        OrthoframeError: For data that cannot be loaded, and settings that are not allowed or do not fit it.
    """
    settings.check()
    asked, settings = settings, before_loading(settings)
    try:
        start = None if settings.init is None else Start.of(settings, code)
        settings = settings if start is None else start.settings
        backbone = None if settings.backbone is None else _backbone(settings, code or not resumed)
        fixed = start.trained.image_shape if start is not None else None if backbone is None else backbone.image_shape
        data = given or load_task_data(settings, progress, image_shape=fixed)
        if data.own_validation and asked.validation is not None and not resumed:
            raise OptionError(Option("validation"), " has no effect: the data has validation images; leave it out")
        data = data if start is None else start.data(data)
        chosen = _chosen(settings, data)
        whole = len(chosen) == len(data.train)  # then a subset would only be a copy
        train, test = data.train if whole else data.train.subset(chosen), data.test
        if settings.test_images is not None:
            there = [min(count, settings.test_images) for count in test.class_counts]
            test = test.subset(imbalanced_indices(test.labels, there, seed=settings.seed))
        settings = after_loading(settings, data, train.class_counts)
        shape = train.image_shape
        k = len(train.classes)
        directions = None
        if start is not None:
            encoder, directions, normaliser = start.grown(k, settings.seed)
            wider = settings.head == "linear" and encoder.out_features
            new = k > len(start.trained.classes)
            bound = settings.prototypes or (new and settings.loss == "supcon")  # the frame term has them anyway
            settings = replace(settings, features=wider or None, prototypes=bound)
        else:
            normaliser = _normaliser(train, settings.data)
            if backbone is not None:
                normaliser = Normaliser(backbone.mean, backbone.std)
            encoder = make_frame_encoder(
                settings.model,
                shape,
                backbone=backbone,
                width=settings.width,
                head=settings.head or "linear",
                features=settings.features,
                head_norm=settings.head_norm,
                activation=settings.activation,
                num_classes=None if settings.linear_classifier else k,
                seed=settings.seed,
            )
        if settings.backbone_lr == 0:
            encoder.freeze_backbone()
        plan = _plan(settings, train)
        _check_batch_norm(plan, encoder, processes)
    except OrthoframeError:
        raise
    except (ValueError, OSError) as error:
        raise TrainingError(f"{settings.data}: {error}") from error
    classifier = None
    if settings.linear_classifier or settings.classifier.largest:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(settings.seed)
            classifier = nn.Linear(encoder.backbone.out_features, k)
    prototypes = None
    if settings.prototypes or settings.loss == "frame":
        prototypes = make_frame(k, encoder.out_features) if directions is None else directions
    return Task(
        settings,
        DataFingerprint.of(data),
        len(data.train),
        data.left_out,
        train,
        data.validation,
        test,
        data.preparation,
        normaliser,
        _augmentation(settings, shape[1]),
        plan,
        encoder,
        classifier,
        prototypes,
        directions,
    )


def _plan(settings: Settings, train: LabelledImages) -> BatchPlan:
    size = settings.batch_size
    if settings.scheme == "weighted":  # as many batches, but none that is too short for BatchNorm
        size = math.ceil(len(train) / math.ceil(len(train) / size))
    return BatchPlan(
        train.labels.numpy(),
        None if settings.scheme == "full" else size,
        scheme=settings.scheme,
        binding=settings.binding,
        power=settings.power,
        seed=settings.seed,
        views=settings.views_in(settings.num_epochs - 1),
        bound_examples=settings.bound_examples,
        bound_classes=settings.bound_classes,
    )


def _backbone(settings: Settings, code: bool) -> Backbone:
    """Somebody else's network; a Python function is called only if that is allowed."""
    assert settings.backbone is not None
    if not (code or settings.backbone.startswith("hf:")):
        name = brief(settings.backbone, 60)
        raise OptionError(f"the backbone {name} is Python code, and is run only if you allow it: use ", Option("code"))
    return load_backbone(settings.backbone, seed=settings.seed)


def load_task_data(
    settings: Settings,
    progress: Progress | None = None,
    *,
    image_shape: tuple[int, int, int] | None = None,
    download: bool = True,
) -> Data:
    """The images that the settings name, before some of them are chosen; files in a shape that an encoder needs."""
    channels, height, width = (None, None, None) if image_shape is None else image_shape
    files = has_files(settings.data)
    size = settings.size if height is None or width is None or not files else (height, width)
    if settings.size not in (None, size):
        raise OptionError(Option("size"), f" is {height} x {width}, as the encoder needs it; leave it out")
    return load_data(
        settings.data,
        settings.data_dir,
        validation=settings.validation or 0.0,
        size=size,
        channels=channels,
        fit=settings.fit,
        columns=Columns(settings.path_column, settings.label_column, settings.split_column, settings.group_column),
        memory=settings.memory,
        workers=settings.workers,
        seed=settings.seed,
        download=download,
        progress=progress,
    )


def _normaliser(train: LabelledImages, name: str) -> Normaliser:
    """Of all images; of many files a part is enough, and the same part whether they are held in memory or not."""
    if not is_own_data(name) or len(train) <= _COUNTED:
        return Normaliser.of(train)
    return Normaliser.of(train.subset(np.linspace(0, len(train) - 1, _COUNTED).astype(np.int64)))


def _augmentation(settings: Settings, height: int) -> Augment:
    if not settings.augment:
        return Augment(0, flip=False)
    augment = default_augmentation(settings.data, height)
    return replace(augment, flip=augment.flip or settings.flip)


def _check_batch_norm(plan: BatchPlan, encoder: FrameEncoder, processes: int) -> None:
    """Refuse batches that are too small for BatchNorm."""
    if not any(isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) for part in encoder.modules()):
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
    if max(counts) < 2 and settings.imbalance == "none":
        raise OptionError(
            f"the largest class has {max(counts)} image left for training, and the loss needs 2 to compare; more "
            "images are needed, or a smaller ",
            Option("validation"),
        )
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
