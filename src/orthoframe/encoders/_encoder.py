"""What all encoders have in common: the images they take, and what is known of their features."""

from collections.abc import Sequence

from torch import Tensor, nn


class Encoder(nn.Module):
    """Images `[batch, channels, height, width]` to features `[batch, out_features]`, before the frame head.

    Args:
        image_shape: Channels, height and width.
        out_features: The dimension of the features.
        nonnegative: Whether features are never below zero.
        smallest: The smallest height and width that the network can take.

    Raises:
        ValueError: For a shape that is not one of images, or images that are too small.
    """

    def __init__(self, image_shape: Sequence[int], out_features: int, *, nonnegative: bool, smallest: int = 1) -> None:
        super().__init__()
        self.image_shape = check_image_shape(image_shape)
        self.out_features = out_features
        self.nonnegative = nonnegative
        _, height, width = self.image_shape
        if min(height, width) < smallest:
            raise ValueError(
                f"images of {height} x {width} pixels are too small for {type(self).__name__}, which needs at least "
                f"{smallest} x {smallest}; enlarge them, or use the model 'mlp'"
            )

    def check(self, images: Tensor) -> None:
        """Raise for images that the encoder was not made for."""
        # A convolution takes [channels, height, width] for one image, and answers with nonsense instead of an error.
        if images.ndim != 4 or tuple(images.shape[1:]) != self.image_shape:
            expected = ", ".join(map(str, self.image_shape))
            raise ValueError(f"images must have shape [batch, {expected}], not {list(images.shape)}")
        if not images.is_floating_point():
            raise TypeError(f"images must be floating point, not {images.dtype}; use images.float() / 255 for bytes")


def check_image_shape(image_shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width, if that is what they are."""
    if len(image_shape) != 3 or not all(isinstance(size, int) and size > 0 for size in image_shape):
        raise ValueError(
            f"image_shape must be (channels, height, width), three positive integers, not {tuple(image_shape)}"
        )
    channels, height, width = image_shape
    return channels, height, width


def check_width(width: int) -> int:
    """A positive integer, if it is one."""
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise ValueError(f"width must be a positive integer, not {width!r}")
    return width
