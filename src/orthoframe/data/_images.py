"""Labelled images as tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe.errors import DataError


@dataclass(frozen=True, eq=False)  # tensors have no equality that is one truth value
class LabelledImages:
    """A whole data set in memory.

    Args:
        pixels: uint8, [n, channels, height, width].
        labels: int64, [n], from 0 to k-1.
        classes: The names of the k classes.
        places: int64, [n], where each image was in the data that these are a part of; None for all of it, in order.

    Raises:
        TypeError: For another dtype.
        ValueError: For another shape, or a label that has no class.

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
            raise ValueError(
                f"labels must be [n], one for each of the {len(self.pixels)} images, "
                f"not of shape {list(self.labels.shape)}"
            )
        outside = self.labels[(self.labels < 0) | (self.labels >= len(self.classes))]
        if len(outside):
            raise ValueError(
                f"there is a label {int(outside[0])}, and labels of {len(self.classes)} classes start at 0"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, indices: Sequence[int] | NDArray[Any] | Tensor) -> "LabelledImages":
        """The images at `indices`, in their order; the classes stay, also those without an image."""
        index = torch.as_tensor(indices, dtype=torch.int64, device=self.pixels.device)
        # Copies whole images, which is several times as fast as pixels[index].
        pixels = self.pixels.index_select(0, index)
        places = torch.tensor(self.origins(index.cpu()), dtype=torch.int64)
        return LabelledImages(pixels, self.labels.index_select(0, index.to(self.labels.device)), self.classes, places)

    def origins(self, indices: Sequence[int] | NDArray[Any] | Tensor) -> list[int]:
        """Where the images at `indices` were in the data as it was read, before any subset."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        found: list[int] = (index if self.places is None else self.places[index]).tolist()
        return found


@dataclass(frozen=True, eq=False)
class Data:
    """Images to train on and images to test with: of the same classes, and of the same size.

    Raises:
        DataError: If they are not.
    """

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
                f"{sizes[1]}; they must be alike"
            )
