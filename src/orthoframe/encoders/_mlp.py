"""A network of fully connected layers."""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from orthoframe.encoders._encoder import Encoder, check_width


class MLP(Encoder):
    """Pixels in one row, and two hidden layers with ReLU, of which the second is the features.

    Without batch normalisation each image is encoded by itself: a batch that is split over processes gives the same
    features as one that is not.

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
        super().__init__(image_shape, check_width(width), nonnegative=last_relu)
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
