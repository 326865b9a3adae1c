"""The base class of encoders, and the simplest of them."""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from orthoframe.errors import Option, OptionError
from orthoframe.options import check_size


class Encoder(nn.Module):
    """Images `[batch, channels, height, width]` to features `[batch, out_features]`, before the frame head.

    Args:
        image_shape: Channels, height and width.
        out_features: The dimension of the features.
        nonnegative: Whether features are never below zero.
        smallest: The smallest height and width that the network can take.

    Raises:
        ValueError: If the shape is not [channels, height, width], or images are too small.
    """

    def __init__(self, image_shape: Sequence[int], out_features: int, *, nonnegative: bool, smallest: int = 1) -> None:
        super().__init__()
        if len(image_shape) != 3 or not all(isinstance(size, int) and size > 0 for size in image_shape):
            raise ValueError(
                f"image_shape must be (channels, height, width), three positive integers, not {tuple(image_shape)}"
            )
        channels, height, width = image_shape
        self.image_shape, self.out_features, self.nonnegative = (channels, height, width), out_features, nonnegative
        if min(height, width) < smallest:
            raise OptionError(
                f"images of {height} x {width} pixels are too small for {type(self).__name__}, which needs at least "
                f"{smallest} x {smallest}; enlarge them, or use ",
                Option("model", "mlp"),
            )

    def check(self, images: Tensor) -> None:
        """Raise for images that the encoder was not made for."""
        # A convolution would take [channels, height, width] as one image, and return nonsense instead of an error.
        if images.ndim != 4 or tuple(images.shape[1:]) != self.image_shape:
            expected = ", ".join(map(str, self.image_shape))
            raise ValueError(f"images must have shape [batch, {expected}], not {list(images.shape)}")
        if not images.is_floating_point():
            raise TypeError(f"images must be floating point, not {images.dtype}; use images.float() / 255 for bytes")


class MLP(Encoder):
    """Flattened pixels and two hidden layers with ReLU; the second gives the features.

    Without batch normalisation each image is encoded by itself: splitting a batch over processes changes no features.

    Args:
        image_shape: Channels, height and width.
        width: Units of each hidden layer.
        last_relu: Whether a ReLU follows the second layer.

    Examples:
        >>> import torch
        >>> encoder = MLP((1, 8, 8))
        >>> encoder(torch.zeros(2, 1, 8, 8)).shape, encoder.out_features, encoder.nonnegative
        (torch.Size([2, 256]), 256, True)
    """

    def __init__(self, image_shape: Sequence[int], width: int = 256, *, last_relu: bool = True) -> None:
        super().__init__(image_shape, check_size("width", width), nonnegative=last_relu)
        first, second = nn.Linear(math.prod(self.image_shape), width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU() if last_relu else nn.Identity())
        for linear in (first, second):
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Features `[batch, width]` of images `[batch, channels, height, width]`."""
        self.check(images)
        features: Tensor = self.layers(images)
        return features
