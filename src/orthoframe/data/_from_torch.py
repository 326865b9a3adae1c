"""Labelled images from a `Dataset` of torch."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orthoframe.data._datasets import check_reading, divide
from orthoframe.data._images import Data, LabelledImages
from orthoframe.data._listing import sorted_classes
from orthoframe.data._preparation import Preparation
from orthoframe.data._readers import DataParts
from orthoframe.data._stream import StreamedPixels, available_cores, fits_in_memory
from orthoframe.errors import DataError, Option, brief
from orthoframe.options import Fit, check_count


def as_data(
    train: Any,
    test: Any = None,
    *,
    name: str = "images",
    validation: float = 0.1,
    size: tuple[int, int] | None = None,
    fit: Fit = "pad",
    workers: int | None = None,
    memory: float | None = None,
    seed: int = 0,
) -> Data:
    """Labelled images from a `torch.utils.data.Dataset`, for `train(settings, out, data=...)`.

    Items are pairs of an image and a label. Images are PIL images of any size, which become RGB, or uint8 tensors
    `[channels, height, width]` of one size; labels are whole numbers or names, or positions in the `classes` of the
    data set, if it has them. Augmentation and
    normalisation happen in training: leave them out of the data set.

    Args:
        train: The data set.
        test: The data set of test images; without one, 20 % of each class are held out.
        name: The name of the data in the run.
        validation: The fraction of the training images of each class to hold out for validation.
        size: Height and width (default: the size of the first image).
        fit: How PIL images get their size.
        workers: Processes that load images (default: one per core).
        memory: Hold all pixels in memory if they fit into this many GiB; otherwise load images again whenever they are
            needed (default: a quarter of the memory).
        seed: Decides which images are held out.

    Raises:
        DataError: For items of another kind.

    Examples:
        >>> pixels = torch.arange(40, dtype=torch.uint8).view(40, 1, 1, 1).repeat(1, 1, 8, 8)
        >>> items = [(image, "ab"[i % 2]) for i, image in enumerate(pixels)]
        >>> data = as_data(items)
        >>> len(data.train), len(data.validation), len(data.test), data.train.classes
        (28, 4, 8, ('a', 'b'))
    """
    check_reading(validation, size, memory)
    for part in (train,) if test is None else (train, test):
        if not (hasattr(part, "__len__") and hasattr(part, "__getitem__")):
            raise DataError(f"{name}: a data set with a length and items is needed, not {type(part).__name__}")
        if not len(part):
            raise DataError(f"{name}: the data set is empty")
    workers = available_cores() if workers is None else check_count("workers", workers, 0)
    first = _checked(train[0], 0, name)[0]
    shape = _shape(first, size, name)
    preparation = Preparation(shape, fit)
    parts = [_DatasetPixels(train, preparation, name)]
    if test is not None:
        parts.append(_DatasetPixels(test, preparation, f"{name}, test"))
    labels = [part.labels() for part in parts]
    classes = sorted_classes(set(labels[0]))
    unknown = set(labels[-1]) - set(classes)
    if unknown:
        raise DataError(f"{name}: the training images have no class {brief(sorted(unknown)[0], 60)!r}")
    numbers = {label: number for number, label in enumerate(classes)}
    images = []
    for part, names in zip(parts, labels, strict=True):
        pixels = StreamedPixels(part, np.arange(len(names)), shape, workers)
        images.append(LabelledImages(pixels, torch.tensor([numbers[each] for each in names]), classes))
    named = dict(zip(("train", "test"), images, strict=False))
    data = divide(DataParts(parts=named), name=f"dataset:{name}", validation=validation, seed=seed, fit=fit)
    return data.read() if fits_in_memory(sum(map(len, labels)) * math.prod(shape), memory) else data


class _DatasetPixels:
    """The pixels of a data set, by position."""

    def __init__(self, items: Any, preparation: Preparation, name: str) -> None:
        self.items, self.preparation, self.name = items, preparation, name

    def labels(self) -> list[str]:
        """The labels of all items: `targets`, if the data set has them, because items have to be decoded."""
        targets = getattr(self.items, "targets", None)
        if targets is None:
            targets = (self.items[position] for position in range(len(self.items)))
            return [self._named(_checked(item, number, self.name)[1]) for number, item in enumerate(targets)]
        return [self._named(_label(label, number, self.name)) for number, label in enumerate(targets)]

    def _named(self, label: int | str) -> str:
        """The name of a class, if the data set has names for numbers, as data sets of torchvision do."""
        names = getattr(self.items, "classes", None)
        has_name = isinstance(names, list | tuple) and isinstance(label, int) and 0 <= label < len(names)
        return str(names[label] if has_name else label)  # type: ignore[index]

    def __getitem__(self, position: int) -> Tensor:
        image, _ = _checked(self.items[position], position, self.name)
        if not isinstance(image, Tensor):
            if image.mode in ("I", "F"):
                raise DataError(f"{self.name}: image {position} has more than 16 bits per channel (mode {image.mode})")
            return self.preparation.pixels_of(image)
        if image.dtype != torch.uint8 or tuple(image.shape) != self.preparation.image_shape:
            expected = list(self.preparation.image_shape)
            raise DataError(
                f"{self.name}: image {position} is {image.dtype} of shape {list(image.shape)}, and uint8 of {expected} "
                "is needed; give PIL images if their sizes differ"
            )
        return image


def _checked(item: Any, position: int, name: str) -> tuple[Any, int | str]:
    from PIL.Image import Image

    if not (isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], Tensor | Image)):
        raise DataError(f"{name}: item {position} is not a pair of an image (PIL, or a uint8 tensor) and a label")
    return item[0], _label(item[1], position, name)


def _label(value: Any, position: int, name: str) -> int | str:
    single = isinstance(value, np.generic) or (isinstance(value, Tensor) and value.numel() == 1)
    label = value.item() if single else value
    if isinstance(label, bool) or not isinstance(label, int | str):
        raise DataError(f"{name}: label {position} is {brief(repr(label), 60)}, not a whole number or a name")
    return label


def _shape(image: Any, size: tuple[int, int] | None, name: str) -> tuple[int, int, int]:
    if isinstance(image, Tensor):
        if image.ndim != 3 or image.shape[0] not in (1, 3):
            raise DataError(f"{name}: images must be [1 or 3 channels, height, width], not {list(image.shape)}")
        if size not in (None, tuple(image.shape[1:])):
            raise DataError(f"{name}: tensors keep their size; give PIL images for ", Option("size"))
        return image.shape[0], image.shape[1], image.shape[2]
    height, width = size or (image.height, image.width)
    return 3, height, width  # other images may have colours, even if the first has none
