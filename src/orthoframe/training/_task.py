"""What is trained, on which images and in which batches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe._rows import Integers
from orthoframe.batches import BatchPlan, RunCertificate, certify_run
from orthoframe.data import (
    Augment,
    LabelledImages,
    Normaliser,
    Preparation,
    Progress,
    imbalanced_indices,
    near_duplicates,
)
from orthoframe.encoders import (
    ENCODERS,
    FrameEncoder,
)
from orthoframe.errors import Option, Part, brief
from orthoframe.runs import Architecture, DataFingerprint, TrainedEncoder
from orthoframe.training._criteria import Criterion, NetworkOutputs, Problem
from orthoframe.training._settings import Settings

_MEASURED = 10_000  # image files that are measured during training, about
_ROWS = 16  # images whose maps fit into the caches of a core
_SMALL_STEP = 2**27  # products of rows and weights
_DUPLICATES = 0.01  # part of the images held out whose near-duplicates make their accuracy too high


class Network(nn.Module):
    """An encoder, and a linear classifier on its backbone where one learns: images to outputs.

    What the encoder was started from is kept with the weights: the directions of known classes, or zeros.
    """

    def __init__(self, encoder: FrameEncoder, classifier: nn.Linear | None, directions: Tensor) -> None:
        super().__init__()
        self.encoder, self.classifier = encoder, classifier
        self.register_buffer("directions", directions)

    def forward(self, images: Tensor) -> NetworkOutputs:
        """Unit features, and the scores of the classifier."""
        if self.classifier is None:
            return NetworkOutputs(self.encoder(images), None)
        features = self.encoder.backbone(images)
        return NetworkOutputs(self.encoder.head(features), self.classifier(features))


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained, on what, in which batches."""

    settings: Settings  # all of them decided
    data: DataFingerprint  # of all images, before some were chosen
    images: int  # for training, before some were chosen
    left_out: tuple[str, ...]  # files in the folder of the data that are not taken
    files: tuple[Path, ...]  # of all images by their places, if each has one
    train: LabelledImages
    validation: LabelledImages | None
    test: LabelledImages
    preparation: Preparation  # of image files
    normaliser: Normaliser
    augment: Augment
    plan: BatchPlan
    own_plan: bool  # from Python, and not made of the settings
    encoder: FrameEncoder
    classifier: nn.Linear | None = None  # of the losses that have one, or beside the loss
    prototypes: Tensor | None = None  # [k, dim], the frame that rows are compared with
    directions: Tensor | None = None  # [k, dim], of the classes that the encoder knew before
    pretrained: str | None = None  # the name of a network that may do better
    lost_classifier: bool = False  # that the encoder to start from had

    @property
    def class_counts(self) -> list[int]:
        """Training images of each class."""
        return self.train.class_counts

    @property
    def encoder_name(self) -> str:
        """The model, or the backbone that takes its place."""
        return self.settings.encoder.model or str(getattr(self.encoder.backbone, "name", "encoder"))

    @property
    def is_small(self) -> bool:
        """Whether a step is too short to be shared by threads; a network that moves over an image takes longer."""
        model = self.settings.encoder.model
        weights = sum(weight.numel() for weight in self.encoder.parameters())
        rows = len(self.plan.batches(0)[0]) * self.settings.batches.views
        return model is not None and not ENCODERS[model].has_maps and rows * weights <= _SMALL_STEP

    def network(self) -> Network:
        """Everything that is trained."""
        return Network(self.encoder, self.classifier, self.trained_encoder().centres)

    def trained_encoder(self) -> TrainedEncoder:
        """The encoder as it was started: its centres are the directions of known classes, or zeros."""
        backbone = getattr(self.encoder.backbone, "config", None)
        unknown = torch.zeros(len(self.train.classes), self.encoder.out_features)
        return TrainedEncoder(
            encoder=self.encoder,
            centres=unknown if self.directions is None else self.directions,
            classes=self.train.classes,
            preparation=self.preparation,
            normaliser=self.normaliser,
            architecture=Architecture(**self.settings.encoder.shape(), backbone=backbone),
        )

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The weights that are trained, as an optimiser takes and numbers them, with their share of the learning rate.

        A checkpoint numbers their momentum in this order, in which those of a backbone come last.
        """
        schedule, backbone, weights = self.settings.schedule, list(self.encoder.backbone.parameters()), self.network()
        if schedule.backbone_lr == schedule.lr:
            return [{"params": list(weights.parameters()), "share": 1.0}]
        of_backbone = {id(weight) for weight in backbone}
        others = [weight for weight in weights.parameters() if id(weight) not in of_backbone]
        groups = [{"params": others, "share": 1.0}]
        if schedule.backbone_lr:
            groups.append({"params": backbone, "share": schedule.backbone_lr / schedule.lr})
        return groups

    def scaled(self, pixels: Tensor) -> Tensor:
        """Pixels as the encoder takes them; features of a frozen backbone pass as they are."""
        return pixels if pixels.ndim == 2 else self.normaliser(pixels)

    @torch.no_grad()
    def with_features(self, device: torch.device, progress: Progress | None = None) -> "Task":
        """The task with the features of a frozen backbone in place of its images, if these are not augmented.

        So they are computed once, and not in every step and every measurement.
        """
        if self.settings.schedule.backbone_lr != 0 or self.settings.images.augment:
            return self
        backbone, rows = self.encoder.backbone.to(device), _ROWS if device.type == "cpu" else 16 * _ROWS
        done, total = 0, sum(len(part) for part in (self.train, self.validation, self.test) if part is not None)

        def embedded(images: LabelledImages) -> LabelledImages:
            nonlocal done
            features = torch.empty(len(images), backbone.out_features)
            batches = np.array_split(np.arange(len(images)), 1 + len(images) // rows)
            for batch, pixels in zip(batches, images.batches(batches, device), strict=True):
                features[batch] = backbone(self.normaliser(pixels)).float().cpu()
                done += len(batch)
                if progress is not None:
                    progress("computing features", done, total)
            return replace(images, pixels=features)

        validation = None if self.validation is None else embedded(self.validation)
        return replace(self, train=embedded(self.train), validation=validation, test=embedded(self.test))

    def criterion(self, device: torch.device, processes: int) -> Criterion:
        """The loss, on a device that outputs are on, for as many processes as share each batch."""
        problem = Problem(
            num_classes=len(self.train.classes),
            dim=self.encoder.out_features,
            shares=self.shares(),
            prototypes=self.prototypes,
            epochs=self.settings.schedule.epochs,
            device=device,
            processes=processes,
        )
        return self.settings.objective.criterion(problem)

    def shares(self) -> NDArray[np.float64]:
        """The part of all rows that each class has in the batches, `[k]`.

        A class without images, which an encoder to start from may know, has as much as the smallest, so that rows of
        others are still told apart from it.
        """
        planned = self.plan.shares()
        shares: NDArray[np.float64] = np.full(len(self.train.classes), planned.min())
        shares[np.asarray(self.plan.labels.names)] = planned
        shares /= shares.sum()
        return shares

    def notes(self) -> list[tuple[Part, ...]]:
        """What the user may not expect: images that are left out, classes that are not looked at."""
        notes: list[tuple[Part, ...]] = []
        images = self.settings.images
        if len(self.train) < self.images and images.is_own:
            notes.append((f"kept {len(self.train):,} of {self.images:,} training images",))
        if self.left_out:
            number = len(self.left_out)
            files = f"{number:,} file{'s' if number > 1 else ''}"
            notes.append((f"ignored {files} not in a class folder, or not an image, such as {self.left_out[0]}",))
        if self.pretrained is not None:
            why = " is usually more accurate for photographs of things: it starts from a network trained on ImageNet"
            notes.append((Option("backbone", self.pretrained), why))
        if self.lost_classifier:
            why = " trains no linear classifier, which would forget classes without images; one is trained with "
            notes.append((Option("init"), why, Option("classifier", 1)))
        notes += self._duplicates()
        for part, labelled in (("validation", self.validation), ("test", self.test)):
            counts = [] if labelled is None else labelled.class_counts
            absent = [name for name, count in zip(self.train.classes, counts, strict=False) if not count]
            if absent:
                seen = f"{len(counts) - len(absent)} of {len(counts)}"
                named = brief(", ".join(absent), 80)
                notes.append((f"no {part} images of {named}: balanced {part} accuracy is over {seen} classes",))
        if self.settings.objective.classifier_leaves and self.validation is None:
            blind = "without validation images the verdict cannot say what settling onto the frame costs; "
            notes.append((blind, Option("validation", 0.1), " holds some out"))
        fewest = min(filter(None, self.test.class_counts), default=0)
        if images.test_images is not None and fewest < images.test_images:
            name = brief(self.test.classes[self.test.class_counts.index(fewest)], 60)
            notes.append(
                (f"class {name} has {fewest} test images, fewer than ", Option("test_images", images.test_images))
            )
        largest, smallest = max(self.class_counts), min(self.class_counts)
        if images.imbalance != "none" and largest < images.ratio * smallest:
            sizes = f"the classes have {smallest} to {largest} images, a ratio of {largest / smallest:g}"
            notes.append((Option("ratio", images.ratio), f" is not reached: {sizes}"))
        return notes

    def _duplicates(self) -> list[tuple[Part, ...]]:
        """A note for each part of the user's own images that looks like training images; those in memory are seen."""
        both = {"validation": self.validation, "test": self.test}
        parts = {name: part for name, part in both.items() if part is not None and part.held}
        if not (self.settings.images.is_own and self.train.held):
            return []
        notes = []
        for (name, part), pairs in zip(parts.items(), near_duplicates(self.train, *parts.values()), strict=True):
            if len(pairs) <= max(1, _DUPLICATES * len(part)):  # one may be a coincidence
                continue
            places = part.origins(pairs[:1, 0]) + self.train.origins(pairs[:1, 1])
            held, trained = (str(self.files[place]) if self.files else f"image {place}" for place in places)
            number = f"{len(pairs):,} of {len(part):,} {name} images have near-duplicates among the training images"
            advice = (", for example with ", Option("group_by", "REGEX")) if self.files else ()
            said = f"{number}, such as {brief(held)} of {brief(trained)}; if they are copies, {name} accuracy is too "
            notes.append((f"{said}high: keep them on one side of the split", *advice))
        return notes

    def batches(self, epoch: int) -> Sequence[Integers]:
        """The batches of an epoch: a pass over the images, or the next ones of several, as many as it has steps.

        Where time has not decided the steps yet, as many as in the last epoch.
        """
        steps = self.settings.schedule.steps
        if not steps:
            return self.plan.batches(epoch)
        start, number, in_a_pass = sum(steps[:epoch]), (*steps, steps[-1])[epoch], len(self.plan.batches(0))
        places = [divmod(step, in_a_pass) for step in range(start, start + number)]
        passes = {each: self.plan.batches(each) for each in dict(places)}
        return [passes[each][place] for each, place in places]

    def certificate(self) -> RunCertificate:
        """What the batches of the run guarantee; about the fewest views, because more are at least as good."""
        names = [self.train.classes[c] for c in self.plan.labels.names]
        options = self.settings.objective.certificate_options()
        passes, steps = self.settings.schedule.epochs, self.settings.schedule.steps
        if steps:  # those of the first epoch are always decided, and the others have about as many
            passes = max(1, passes * steps[0] // len(self.plan.batches(0)))
        return certify_run(self.plan, passes, names=names, **options)

    def measured_subset(self) -> LabelledImages:
        """The training images that are measured during training: of many files as many as the others of each class."""
        if not self.settings.images.is_own or len(self.train) <= _MEASURED:
            return self.train
        counts = [min(count, _MEASURED // len(self.train.classes) + 1) for count in self.class_counts]
        return self.train.subset(imbalanced_indices(self.train.labels, counts, seed=self.settings.machine.seed))
