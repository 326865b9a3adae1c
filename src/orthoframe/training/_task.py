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
    Data,
    LabelledImages,
    Normaliser,
    Preparation,
    Progress,
    imbalanced_indices,
)
from orthoframe.encoders import Backbone, FrameEncoder, load_backbone, make_frame_encoder
from orthoframe.errors import Option, OptionError, OrthoframeError, Part, TrainingError, brief
from orthoframe.losses import make_frame
from orthoframe.options import is_own_data
from orthoframe.training._defaults import after_loading, before_loading
from orthoframe.training._fingerprint import DataFingerprint
from orthoframe.training._objective import Network
from orthoframe.training._settings import Settings
from orthoframe.training._start import Start
from orthoframe.training._task_data import chosen_indices, load_task_data, make_augmentation, make_normaliser

_MEASURED = 10_000  # image files that are measured during training, about


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

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The weights that are trained, as an optimiser takes and numbers them, with their share of the learning rate.

        A checkpoint numbers their momentum in this order, in which those of a backbone come last.
        """
        settings, backbone, weights = self.settings, list(self.encoder.backbone.parameters()), self.network()
        if settings.backbone_lr is None:
            return [{"params": list(weights.parameters()), "share": 1.0}]
        of_backbone = {id(weight) for weight in backbone}
        others = [weight for weight in weights.parameters() if id(weight) not in of_backbone]
        groups = [{"params": others, "share": 1.0}]
        if settings.backbone_lr:
            groups.append({"params": backbone, "share": settings.backbone_lr / settings.lr})
        return groups

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
        if self.settings.classifier_leaves and self.validation is None:
            blind = "without validation images the verdict cannot say what settling onto the frame costs; "
            notes.append((blind, Option("validation", 0.1), " holds some out"))
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
        chosen = chosen_indices(settings, data)
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
            normaliser = make_normaliser(train, settings.data)
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
        make_augmentation(settings, shape[1]),
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
