"""From settings to what is trained: data, batches, encoder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from orthoframe.batches import BatchPlan, Certificate, certify
from orthoframe.data import (
    Augment,
    Data,
    LabelledImages,
    Normaliser,
    default_augmentation,
    imbalanced_indices,
    load_data,
    long_tail_counts,
    step_counts,
)
from orthoframe.encoders import FrameEncoder, make_frame_encoder
from orthoframe.errors import DataError, TrainingError
from orthoframe.training._options import in_options
from orthoframe.training._settings import Settings

# A plan that is drawn anew in every epoch is certified over this many together, or the whole run if it is shorter.
_CERTIFIED_EPOCHS = 20

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Task:
    """What is trained, on what, in which batches."""

    settings: Settings
    train: LabelledImages
    test: LabelledImages
    normaliser: Normaliser
    augment: Augment
    plan: BatchPlan
    encoder: FrameEncoder
    classifier: torch.nn.Linear | None  # for cross-entropy
    prototypes: torch.Tensor | None = None  # [k, dim], rows that every batch is compared with

    @property
    def class_counts(self) -> list[int]:
        """Training images of each class."""
        return torch.bincount(self.train.labels, minlength=len(self.train.classes)).tolist()

    @property
    def repeats(self) -> bool:
        """Whether the batches of every epoch are the same."""
        return self.settings.scheme in ("full", "partition") and self.settings.binding in ("none", "fixed", "present")

    @property
    def certified_epochs(self) -> int:
        """Epochs that are looked at before the plan is said to have no certificate."""
        return 1 if self.repeats else min(self.settings.epochs, _CERTIFIED_EPOCHS)

    def notes(self) -> list[str]:
        """What is not quite as it was asked for."""
        ratio, largest, smallest = self.settings.ratio, max(self.class_counts), min(self.class_counts)
        if self.settings.imbalance == "none" or largest >= ratio * smallest:
            return []
        return [
            f"--ratio {ratio:g} is not reached: the smallest class has {smallest} image and the largest {largest}, "
            f"which is a ratio of {largest / smallest:g}"
        ]

    def certificate(self) -> tuple[Certificate, int]:
        """The certificate of the plan, and the number of epochs that it is about."""
        epochs, first = self.certified_epochs, self._certificate(1)
        return (first, 1) if first.holds or epochs == 1 else (self._certificate(epochs), epochs)

    def _certificate(self, epochs: int) -> Certificate:
        names = np.asarray(self.train.classes)[self.train.labels.numpy()]  # the plan knows numbers only
        every = (batch for epoch in range(epochs) for batch in self.plan.batches(epoch))
        if self.prototypes is not None:  # each is a sample of its own, and in every batch
            fixed = np.arange(len(names), len(names) + len(self.train.classes))
            names = np.concatenate([names, np.asarray(self.train.classes)])
            every = (np.concatenate([batch, fixed]) for batch in every)
        # The views of the last epochs: the least, and what holds for them holds for more.
        return certify(names, every, views=self.plan.views, denominator=self.settings.denominator)  # type: ignore[arg-type]


def set_up(settings: Settings, progress: Progress | None = None) -> Task:
    """Load the data, make it imbalanced, plan the batches and make the encoder.

    Raises:
        TrainingError: With a sentence, for what cannot be had or does not fit together.
    """
    try:
        settings.check()
        data = load_data(settings.data, settings.data_dir, seed=settings.seed, progress=progress)
        train = data.train.subset(_chosen(settings, data))
        test = _test_images(data.test, settings.test_images, settings.seed)
        shape = tuple(train.pixels.shape[1:])
        k = len(train.classes)
        encoder = make_frame_encoder(
            settings.model,  # type: ignore[arg-type]
            shape,
            width=settings.width,
            head=settings.head,  # type: ignore[arg-type]
            features=settings.features,
            activation=settings.activation,  # type: ignore[arg-type]
            num_classes=k,
            seed=settings.seed,
        )
        plan = BatchPlan(
            train.labels.numpy(),
            None if settings.scheme == "full" else settings.batch_size,
            scheme=settings.scheme,  # type: ignore[arg-type]
            binding=settings.binding,  # type: ignore[arg-type]
            seed=settings.seed,
            views=settings.views_in(settings.epochs - 1),
            bound_examples=settings.bound_examples,
            bound_classes=None if settings.bound_classes is None else _first_classes(settings.bound_classes, k),
        )
        _check_rows(plan, encoder, settings)
    except DataError as error:
        raise TrainingError(str(error)) from None
    except ValueError as error:
        raise TrainingError(in_options(str(error))) from None
    except OSError as error:
        raise TrainingError(f"{settings.data}: {error}") from None
    classifier = None
    if settings.loss == "cross-entropy":
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(settings.seed)
            classifier = torch.nn.Linear(encoder.out_features, k)
    augment = default_augmentation(settings.data, shape[1]) if settings.augment else Augment(0, flip=False)
    prototypes = _prototypes(k, encoder.out_features) if settings.prototypes else None
    return Task(settings, train, test, Normaliser.of(train), augment, plan, encoder, classifier, prototypes)


def _prototypes(k: int, dim: int) -> torch.Tensor:
    """A frame: each class has as many dimensions to itself as there are for all, evenly."""
    rows = torch.zeros(k, dim)
    block = dim // k
    for c in range(k):
        rows[c, c * block : (c + 1) * block] = block**-0.5
    return rows


def _first_classes(wanted: int, k: int) -> range:
    if wanted > k:
        raise ValueError(f"--bound-classes is {wanted}, and there are {k} classes")
    return range(wanted)


def _test_images(test: LabelledImages, wanted: int | None, seed: int) -> LabelledImages:
    """So many of each class, or all that it has if they are fewer."""
    if wanted is None:
        return test
    there = torch.bincount(test.labels, minlength=len(test.classes)).clamp(max=wanted)
    return test.subset(imbalanced_indices(test.labels, there.tolist(), seed=seed))


def _check_rows(plan: BatchPlan, encoder: FrameEncoder, settings: Settings) -> None:
    """Refuse batches that are too small for BatchNorm, which no epoch is without."""
    if not any(isinstance(part, torch.nn.BatchNorm2d) for part in encoder.modules()):
        return
    rows = min(map(len, plan.batches(0))) * plan.views // settings.devices
    if rows < 2:
        raise ValueError(
            f"the smallest batch has {rows} image{'' if rows == 1 else 's'} for a process, and BatchNorm needs 2; "
            "choose another --batch-size, or --binding fixed"
        )


def _chosen(settings: Settings, data: Data) -> Any:
    """Indices of the training images that are kept."""
    labels = data.train.labels.numpy()
    k = len(data.train.classes)
    if k < 2:
        raise ValueError(f"{settings.data} has {k} class; a frame needs 2 or more")
    there = torch.bincount(data.train.labels, minlength=k)
    majority = settings.majority
    if settings.imbalance == "none":
        counts = there.tolist() if majority is None else [majority] * k
    else:
        profile = step_counts if settings.imbalance == "step" else long_tail_counts
        if majority is None:  # the most that every class can give, with these proportions
            shares = profile(k, 10**9, settings.ratio)
            majority = min(int(n) * 10**9 // share for n, share in zip(there.tolist(), shares, strict=True))
        counts = profile(k, max(1, majority), settings.ratio)
    if max(counts) < 2:
        raise ValueError(f"the largest class would have {max(counts)} image; it needs 2 for the loss to compare")
    return imbalanced_indices(labels, counts, seed=settings.seed)
