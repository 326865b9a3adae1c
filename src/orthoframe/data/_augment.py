"""Random crops and flips, drawn for each image, on the device where the images are."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from orthoframe.data._sources import SOURCES
from orthoframe.options import check_size


@dataclass(frozen=True)
class Augment:
    """A flip with probability one half, then a crop of the image inside a border of zeros.

    Called with a batch and a generator, it returns a batch of the same shape and dtype; called again with the same
    generator, it returns a second view. Random numbers come from a generator on the CPU, so that every device gives the
    same bytes.

    Args:
        padding: Width of the border, and so the largest shift in each direction, in pixels.
        flip: Whether to flip images horizontally at random.

    Raises:
        ValueError: For a negative padding, or a batch that is not [b, channels, height, width].

    Examples:
        >>> augment, generator = Augment(padding=1, flip=False), torch.Generator().manual_seed(0)
        >>> pixels = torch.tensor([[[[1, 2], [3, 4]]]], dtype=torch.uint8)
        >>> pixels.shape == augment(pixels, generator).shape
        True
        >>> Augment(padding=0, flip=False)(pixels, generator).tolist()
        [[[[1, 2], [3, 4]]]]
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        check_size("padding", self.padding, 0)

    def __call__(self, pixels: Tensor, generator: Generator) -> Tensor:
        """A view of each image of `pixels` [b, channels, height, width]."""
        if not (self.padding or self.flip) or pixels.numel() == 0:
            return pixels
        if pixels.ndim != 4:
            raise ValueError(f"pixels must be [b, channels, height, width], not of shape {list(pixels.shape)}")
        batch, channels, height, width = pixels.shape
        pad, device = self.padding, pixels.device
        rows, columns = height + 2 * pad, width + 2 * pad
        shifts = torch.randint(2 * pad + 1, (2, batch), generator=generator)
        sides = torch.randint(2, (1, batch), generator=generator) if self.flip else torch.zeros_like(shifts[:1])
        down, right, side = torch.cat([shifts, sides]).to(device)[:, :, None, None]

        # Every image and its mirror image inside a border: flip and crop then only decide where each row of the result
        # starts. Copying rows from there is twice as fast as indexing pixels.
        bordered = pixels.new_zeros(1 + self.flip, batch, channels, rows, columns)
        inner = bordered[..., pad : pad + height, pad : pad + width]
        inner[0] = pixels
        if self.flip:
            inner[1] = pixels.flip(-1)
        image = side * batch + torch.arange(batch, device=device)[:, None, None]
        plane = image * channels + torch.arange(channels, device=device)[:, None]
        start = (plane * rows + down + torch.arange(height, device=device)) * columns + right
        return bordered.view(-1).unfold(0, width, 1).index_select(0, start.view(-1)).view(pixels.shape)


def default_augmentation(name: str, height: int) -> Augment:
    """Default augmentation for a data set, given its name and the height of its images.

    Images move by up to an eighth of their height; those of mnist by half of that, because they are centred.
    Photographs and clothes (cifar10, cifar100, fashion-mnist) are flipped. Digits are not, because they would become
    other signs, nor are the images of a folder or a file, which may have a left and a right.

    Examples:
        >>> default_augmentation("cifar10", 32)
        Augment(padding=4, flip=True)
        >>> default_augmentation("digits", 8)
        Augment(padding=1, flip=False)
    """
    source = SOURCES.get(name)
    return Augment(height // 8, flip=False) if source is None else Augment(height // source.shift, source.flip)
