"""Labelled images as tensors, and pixels as the numbers that an encoder sees."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe.errors import DataError


@dataclass(frozen=True, eq=False)  # comparing tensors gives no single truth value
class LabelledImages:
    """A whole data set in memory.

    Args:
        pixels: uint8, [n, channels, height, width].
        labels: int64, [n], from 0 to k-1.
        classes: The names of the k classes.
        places: int64, [n], the position of each image in the data set that it was drawn from; None for a whole set.

    Raises:
        TypeError: For another dtype.
        ValueError: For another shape, or a label out of range.

    Examples:
        >>> images = LabelledImages(torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 1]), ("cat", "dog"))
        >>> len(images), images.subset([2, 0]).labels.tolist()
        (3, [1, 0])
    """

    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    places: Tensor | None = None

    def __post_init__(self) -> None:
        if self.pixels.dtype != torch.uint8 or self.labels.dtype != torch.int64:
            raise TypeError(
                f"pixels must be torch.uint8 and labels torch.int64, not {self.pixels.dtype} and {self.labels.dtype}"
            )
        if self.pixels.ndim != 4:
            raise ValueError(f"pixels must be [n, channels, height, width], not of shape {list(self.pixels.shape)}")
        if self.labels.shape != self.pixels.shape[:1]:
            shape = list(self.labels.shape)
            raise ValueError(f"labels must be [n], one for each of the {len(self.pixels)} images, not of shape {shape}")
        outside = self.labels[(self.labels < 0) | (self.labels >= len(self.classes))]
        if len(outside):
            raise ValueError(f"label {int(outside[0])} is out of range: labels go from 0 to {len(self.classes) - 1}")

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Sequence[int] | NDArray[Any] | Tensor) -> "LabelledImages":
        """The images at `indices`, in their order; all classes are kept, also those without images."""
        index = torch.as_tensor(indices, dtype=torch.int64, device=self.pixels.device)
        # It copies whole images, several times as fast as pixels[index].
        pixels = self.pixels.index_select(0, index)
        places = torch.tensor(self.origins(index.cpu()), dtype=torch.int64)
        return LabelledImages(pixels, self.labels.index_select(0, index.to(self.labels.device)), self.classes, places)

    def origins(self, indices: Sequence[int] | NDArray[Any] | Tensor) -> list[int]:
        """Positions of the images at `indices` in the data as it was read, before any subset."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        found: list[int] = (index if self.places is None else self.places[index]).tolist()
        return found


@dataclass(frozen=True, eq=False)
class Data:
    """Training and test images; a `DataError` unless they have the same classes and size."""

    train: LabelledImages
    test: LabelledImages
    name: str

    def __post_init__(self) -> None:
        if self.train.classes != self.test.classes:
            raise DataError(f"{self.name}: the classes of the training and of the test images must be the same")
        sizes = [list(images.pixels.shape[1:]) for images in (self.train, self.test)]
        if sizes[0] != sizes[1]:
            raise DataError(
                f"{self.name}: training images are of [channels, height, width] = {sizes[0]} and test images of "
                f"{sizes[1]}; they must have the same size"
            )


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
        """Mean and deviation of all pixels of each channel; a constant channel is only centred."""
        if images.pixels.numel() == 0:
            raise ValueError("there are no pixels to take the mean of")
        mean, std = [], []
        for channel in images.pixels.unbind(1):
            # From the counts of 256 values: sums of integers are exact, whatever the order in which a device adds.
            counts = torch.bincount(channel.flatten(), minlength=256).tolist()
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
