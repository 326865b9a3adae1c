"""Pixels as the numbers that an encoder sees."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from orthoframe.data._images import LabelledImages


@dataclass(frozen=True)
class Normaliser:
    """Makes float32 of pixels: (pixel / 255 - mean) / std, for each channel.

    Plain numbers, so that they can be stored beside the weights that were trained with them.

    Args:
        mean: Of each channel, on the scale from 0 to 1.
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
                f"mean and std must be as many as channels, and std positive, not {self.mean!r} and {self.std!r}"
            )

    @classmethod
    def of(cls, images: LabelledImages) -> "Normaliser":
        """Mean and deviation of all pixels of each channel; a channel of one value is only centred."""
        if images.pixels.numel() == 0:
            raise ValueError("there are no pixels to take the mean of")
        mean, std = [], []
        for channel in images.pixels.unbind(1):
            # How often each of 256 values occurs: sums of whole numbers are exact, in whatever order a device adds.
            counts = torch.bincount(channel.flatten(), minlength=256).tolist()
            number, total, squares = (sum(n * value**power for value, n in enumerate(counts)) for power in (0, 1, 2))
            mean.append(total / number / 255)
            std.append(math.sqrt((number * squares - total * total) / number**2) / 255 or 1.0)
        return cls(tuple(mean), tuple(std))

    def __call__(self, pixels: Tensor) -> Tensor:
        """`pixels` [b, channels, height, width], from 0 to 255, as float32."""
        if pixels.ndim != 4 or pixels.shape[1] != len(self.mean):
            raise ValueError(
                f"pixels must be [b, {len(self.mean)}, height, width], as mean and std have {len(self.mean)} channels, "
                f"not of shape {list(pixels.shape)}"
            )
        # Rounded to float32 once, on the CPU: the same factors on any device.
        mean = torch.tensor([255 * mean for mean in self.mean], dtype=torch.float32).view(-1, 1, 1)
        scale = torch.tensor([1 / (255 * std) for std in self.std], dtype=torch.float32).view(-1, 1, 1)
        return pixels.to(torch.float32, copy=True).sub_(mean.to(pixels.device)).mul_(scale.to(pixels.device))
