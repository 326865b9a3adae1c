"""Labelled images, held or streamed, and pixels as the numbers that an encoder sees."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe.data._listing import check_class_names
from orthoframe.data._preparation import Preparation
from orthoframe.data._stream import StreamedPixels
from orthoframe.errors import DataError
from orthoframe.options import Fit

_ROWS = 1024  # images per histogram


@dataclass(frozen=True, eq=False)  # comparing tensors gives no single truth value
class LabelledImages:
    """A data set: its pixels in memory, or read from files whenever they are needed.

    Args:
        pixels: uint8, [n, channels, height, width]; a `StreamedPixels` if they are not held in memory; or float32,
            [n, dim], features that a network has made of them.
        labels: int64, [n], from 0 to k-1.
        classes: The names of the k classes.
        places: int64, [n], the position of each image in the data set that it was drawn from; None for a whole set.
        checksums: uint64, [n], of the image files; None if images do not come from image files.

    Raises:
        TypeError: For another dtype.
        ValueError: For another shape, or a label out of range.

    Examples:
        >>> pixels = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
        >>> images = LabelledImages(pixels, torch.tensor([0, 1, 1]), ("cat", "dog"))
        >>> len(images), images.subset([2, 0]).labels.tolist()
        (3, [1, 0])
    """

    pixels: Tensor | StreamedPixels
    labels: Tensor
    classes: tuple[str, ...]
    places: Tensor | None = None
    checksums: NDArray[np.uint64] | None = None

    def __post_init__(self) -> None:
        dtype = self.pixels.dtype if isinstance(self.pixels, Tensor) else torch.uint8
        features = dtype == torch.float32 and len(self.pixels.shape) == 2
        if not (features or dtype == torch.uint8) or self.labels.dtype != torch.int64:
            raise TypeError(f"pixels must be torch.uint8 and labels torch.int64, not {dtype} and {self.labels.dtype}")
        if not features and len(self.pixels.shape) != 4:
            raise ValueError(f"pixels must be [n, channels, height, width], not of shape {list(self.pixels.shape)}")
        if tuple(self.labels.shape) != tuple(self.pixels.shape[:1]):
            shape, images = list(self.labels.shape), self.pixels.shape[0]
            raise ValueError(f"labels must be [n], one for each of the {images} images, not of shape {shape}")
        outside = self.labels[(self.labels < 0) | (self.labels >= len(self.classes))]
        if len(outside):
            raise ValueError(f"label {int(outside[0])} is out of range: labels go from 0 to {len(self.classes) - 1}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

    @property
    def held(self) -> bool:
        """Whether all pixels are in memory."""
        return isinstance(self.pixels, Tensor)

    @property
    def class_counts(self) -> list[int]:
        """The number of images of each class."""
        counts: list[int] = torch.bincount(self.labels.cpu(), minlength=len(self.classes)).tolist()
        return counts

    def batches(self, batches: Sequence[NDArray[np.int64]], device: torch.device | None = None) -> Iterator[Tensor]:
        """The pixels `[b, channels, height, width]` of one list of positions after another, on a device."""
        whole = self.pixels
        parts: Iterator[Tensor]
        if isinstance(whole, Tensor):
            parts = (whole.index_select(0, torch.from_numpy(batch).to(whole.device)) for batch in batches)
        else:
            parts = whole.batches(batches)
        for pixels in parts:
            yield pixels if device is None else pixels.to(device)

    def subset(self, indices: Sequence[int] | NDArray[Any] | Tensor) -> "LabelledImages":
        """The images at `indices`, in their order; all classes are kept, also those without images."""
        index = torch.as_tensor(indices, dtype=torch.int64).cpu()
        if isinstance(self.pixels, Tensor):
            # It copies whole images, several times as fast as pixels[index].
            pixels: Tensor | StreamedPixels = self.pixels.index_select(0, index.to(self.pixels.device))
        else:
            pixels = self.pixels.subset(index.numpy())
        return LabelledImages(
            pixels=pixels,
            labels=self.labels.index_select(0, index.to(self.labels.device)),
            classes=self.classes,
            places=torch.tensor(self.origins(index), dtype=torch.int64),
            checksums=None if self.checksums is None else self.checksums[index.numpy()],
        )

    def name_of(self, index: int) -> str:
        """The path of an image that is in a file of its own, otherwise its position."""
        if isinstance(self.pixels, Tensor) or not hasattr(self.pixels.items, "paths"):
            return str(index)
        return str(self.pixels.items.paths[self.pixels.positions[index]])

    def origins(self, indices: Sequence[int] | NDArray[Any] | Tensor) -> list[int]:
        """Positions of the images at `indices` in the data as it was read, before any subset."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        origins: list[int] = (index if self.places is None else self.places[index]).tolist()
        return origins


@dataclass(frozen=True, eq=False)
class Data:
    """Images for training, testing and perhaps validation; a `DataError` unless all have the same classes and size.

    Args:
        train: Training images.
        test: Test images, which are used once, at the end.
        name: The name of the data.
        validation: Validation images, by which choices are made during training; None without.
        fit: How image files got their size.
        left_out: Files in a folder that are not images of a class.
        files: The image files by the places of images, if each has one.
        own_validation: Whether the data itself says which images are for validation.
    """

    train: LabelledImages
    test: LabelledImages
    name: str
    validation: LabelledImages | None = None
    fit: Fit = "pad"
    left_out: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    own_validation: bool = False

    def __post_init__(self) -> None:
        check_class_names(self.name, self.train.classes)
        named = {"test": self.test} if self.validation is None else {"test": self.test, "validation": self.validation}
        for part, images in named.items():
            if self.train.classes != images.classes:
                raise DataError(f"{self.name}: the classes of the training and of the {part} images must be the same")
            if self.train.image_shape != images.image_shape:
                raise DataError(
                    f"{self.name}: training images are of [channels, height, width] = {list(self.train.image_shape)} "
                    f"and {part} images of {list(images.image_shape)}; they must have the same size"
                )

    def read(self, progress: Callable[[int], None]) -> "Data":
        """The same with all pixels in memory; each image is read into its place, so that none is there twice."""
        done = 0

        def read(images: LabelledImages) -> LabelledImages:
            nonlocal done
            if isinstance(images.pixels, Tensor):
                return images
            before, done = done, done + len(images)
            return replace(images, pixels=images.pixels.held(lambda number: progress(before + number)))

        validation = None if self.validation is None else read(self.validation)
        return replace(self, train=read(self.train), test=read(self.test), validation=validation)

    @property
    def preparation(self) -> Preparation:
        """How an image file becomes one of these images."""
        return Preparation(self.train.image_shape, self.fit)


@dataclass(frozen=True)
class Normaliser:
    """Convert pixels to float32: (pixel / 255 - mean) / std, per channel.

    Plain numbers, so that they can be stored beside the weights that were trained with them.

    Args:
        mean: Mean of each channel, on the scale from 0 to 1.
        std: Standard deviation of each channel, on the same scale.

    Raises:
        ValueError: If there are not as many means as deviations, or a deviation is not positive.

    Examples:
        >>> Normaliser((0.5,), (0.25,))(torch.tensor([0, 255], dtype=torch.uint8).view(1, 1, 1, 2)).tolist()
        [[[[-2.0, 2.0]]]]
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or not all(std > 0 for std in self.std):
            raise ValueError(
                f"mean and std need one entry per channel, and std must be positive, not {self.mean!r} and {self.std!r}"
            )

    @classmethod
    def of(cls, images: LabelledImages) -> "Normaliser":
        """Mean and standard deviation of all pixels of each channel; a constant channel is only centred."""
        if 0 in images.pixels.shape:
            raise ValueError("there are no pixels to compute the mean of")
        # From the counts of 256 values: sums of integers are exact, whatever the order in which a device adds.
        histogram = torch.zeros(images.image_shape[0], 256, dtype=torch.int64)
        for part in images.batches(np.array_split(np.arange(len(images)), 1 + len(images) // _ROWS)):
            for channel, counted in zip(part.unbind(1), histogram, strict=True):
                counted += torch.bincount(channel.flatten(), minlength=256).cpu()
        mean, std = [], []
        for counts in histogram.tolist():
            number, total, squares = (sum(n * value**power for value, n in enumerate(counts)) for power in (0, 1, 2))
            mean.append(total / number / 255)
            std.append(math.sqrt((number * squares - total * total) / number**2) / 255 or 1.0)
        return cls(tuple(mean), tuple(std))

    def __call__(self, pixels: Tensor) -> Tensor:
        """`pixels` [b, channels, height, width], from 0 to 255, as float32."""
        if pixels.ndim != 4 or pixels.shape[1] != len(self.mean):
            raise ValueError(
                f"pixels must be [b, {len(self.mean)}, height, width], one channel per entry of mean and std, "
                f"not of shape {list(pixels.shape)}"
            )
        # Rounded to float32 once, on the CPU: the same factors on any device.
        mean = torch.tensor([255 * mean for mean in self.mean], dtype=torch.float32).view(-1, 1, 1)
        scale = torch.tensor([1 / (255 * std) for std in self.std], dtype=torch.float32).view(-1, 1, 1)
        return pixels.to(torch.float32, copy=True).sub_(mean.to(pixels.device)).mul_(scale.to(pixels.device))
