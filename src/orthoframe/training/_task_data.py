"""Which images a run trains on, as its settings choose them of the data, and how they are drawn."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from orthoframe.data import (
    Augment,
    Columns,
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
from orthoframe.errors import Option, OptionError
from orthoframe.options import has_files, is_own_data
from orthoframe.training._settings import Settings

_COUNTED = 5000  # image files whose pixels give mean and deviation


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
        channels=channels if files else None,
        fit=settings.fit,
        columns=Columns(settings.path_column, settings.label_column, settings.split_column, settings.group_column),
        memory=settings.memory,
        workers=settings.workers,
        seed=settings.seed,
        download=download,
        progress=progress,
    )


def chosen_indices(settings: Settings, data: Data) -> Any:
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


def make_normaliser(train: LabelledImages, name: str) -> Normaliser:
    """Of all images; of many files a part is enough, and the same part whether they are held in memory or not."""
    if not is_own_data(name) or len(train) <= _COUNTED:
        return Normaliser.of(train)
    return Normaliser.of(train.subset(np.linspace(0, len(train) - 1, _COUNTED).astype(np.int64)))


def make_augmentation(settings: Settings, height: int) -> Augment:
    if not settings.augment:
        return Augment(0, flip=False)
    augment = default_augmentation(settings.data, height)
    return replace(augment, flip=augment.flip or settings.flip)
