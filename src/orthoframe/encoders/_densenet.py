"""The densely connected network for small images."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe.encoders._encoder import Encoder, check_width

_STEM, _BLOCKS, _LAYERS = 16, 3, 12  # 40 layers: the stem, three times twelve, two transitions, and the classifier


class DenseLayer(nn.Module):
    """Normalisation, ReLU, a 3 x 3 convolution; its maps are appended to those that it saw.

    Args:
        inputs: Channels that come in.
        growth: Channels that are added.
    """

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.conv = nn.Conv2d(inputs, growth, 3, padding=1, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """`[batch, inputs, height, width]` to `[batch, inputs + growth, height, width]`."""
        return torch.cat([maps, self.conv(F.relu(self.norm(maps), inplace=True))], 1)


class Transition(nn.Module):
    """Normalisation, ReLU, a 1 x 1 convolution that keeps the channels, and half the image.

    Args:
        channels: Channels that come in and go out.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """`[batch, channels, height, width]` to `[batch, channels, height // 2, width // 2]`."""
        return F.avg_pool2d(self.conv(F.relu(self.norm(maps), inplace=True)), 2)


class DenseNet(Encoder):
    """DenseNet-40 as first published for CIFAR: three blocks of twelve layers, no bottleneck, no compression.

    Args:
        image_shape: Channels, height and width; height and width at least 4.
        growth: Channels that each layer adds.
        last_relu: Whether the last maps pass through a ReLU before they are averaged.

    Examples:
        >>> import torch
        >>> encoder = DenseNet((1, 8, 8), growth=2)
        >>> encoder(torch.zeros(2, 1, 8, 8)).shape, encoder.out_features, encoder.nonnegative
        (torch.Size([2, 88]), 88, True)
    """

    def __init__(self, image_shape: Sequence[int], growth: int = 12, *, last_relu: bool = True) -> None:
        features = _STEM + _BLOCKS * _LAYERS * check_width(growth)
        super().__init__(image_shape, features, nonnegative=last_relu, smallest=2 ** (_BLOCKS - 1))
        self.stem = nn.Conv2d(self.image_shape[0], _STEM, 3, padding=1, bias=False)
        layers: list[nn.Module] = []
        channels = _STEM
        for block in range(_BLOCKS):
            if block > 0:
                layers.append(Transition(channels))
            for _ in range(_LAYERS):
                layers.append(DenseLayer(channels, growth))
                channels += growth
        self.layers = nn.Sequential(*layers)
        self.norm = nn.BatchNorm2d(channels)
        self.last_relu = last_relu
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Features `[batch, 16 + 36 growth]` of images `[batch, channels, height, width]`."""
        self.check(images)
        maps: Tensor = self.norm(self.layers(self.stem(images)))
        return (F.relu(maps, inplace=True) if self.last_relu else maps).mean((2, 3))
