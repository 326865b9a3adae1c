"""Convolutional networks for small images: ResNet and DenseNet."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe.encoders._encoder import Encoder
from orthoframe.options import check_size

_RESNET_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
_LARGE = 96  # pixels, from which images are made smaller first
_STEM, _BLOCKS, _LAYERS = 16, 3, 12  # 40 layers: the stem, 3 x 12, two transitions, and the classifier


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


def _start(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class _BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut; the first and the shortcut have the stride."""

    def __init__(self, inputs: int, outputs: int, stride: int, last_relu: bool = True) -> None:
        super().__init__()
        self.conv1, self.norm1 = _convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = _convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        self.last_relu = last_relu

    def forward(self, maps: Tensor) -> Tensor:
        # Autograd does not keep what a normalisation returns, so it may be overwritten.
        hidden = F.relu(self.norm1(self.conv1(maps)), inplace=True)
        total: Tensor = self.norm2(self.conv2(hidden)).add_(self.shortcut(maps))
        return F.relu(total, inplace=True) if self.last_relu else total


class ResNet(Encoder):
    """ResNet-18 or -34: a 3 x 3 stem of stride 1 without max-pooling, the average of the last maps.

    From 96 pixels on the stem divides height and width by four, as for photographs: 7 x 7 with stride 2, and
    max-pooling. The four stages have 1, 2, 4 and 8 times `width` channels, and the last three halve the image.

    Args:
        image_shape: Channels, height and width; height and width at least 8.
        depth: 18 or 34.
        width: Channels of the first stage.
        last_relu: Whether the last maps pass through a ReLU before they are averaged.

    Examples:
        >>> import torch
        >>> encoder = ResNet((1, 28, 28), width=4)
        >>> encoder(torch.zeros(2, 1, 28, 28)).shape, encoder.out_features, encoder.nonnegative
        (torch.Size([2, 32]), 32, True)
    """

    def __init__(
        self, image_shape: Sequence[int], depth: Literal[18, 34] = 18, width: int = 64, *, last_relu: bool = True
    ) -> None:
        super().__init__(image_shape, 8 * check_size("width", width), nonnegative=last_relu, smallest=8)
        if depth not in _RESNET_BLOCKS:
            raise ValueError(f"depth must be 18 or 34, not {depth!r}")
        large = min(self.image_shape[1:]) >= _LARGE
        first = _convolution(self.image_shape[0], width, *((7, 2) if large else (3, 1)))
        pooled = [nn.MaxPool2d(3, 2, 1)] if large else []
        self.stem = nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(True), *pooled)
        blocks: list[_BasicBlock] = []
        channels = width
        for stage, count in enumerate(_RESNET_BLOCKS[depth]):
            for position in range(count):
                stride = 2 if stage > 0 and position == 0 else 1
                blocks.append(_BasicBlock(channels, width * 2**stage, stride))
                channels = width * 2**stage
        blocks[-1].last_relu = last_relu
        self.blocks = nn.Sequential(*blocks)
        _start(self)

    def forward(self, images: Tensor) -> Tensor:
        """Features `[batch, 8 width]` of images `[batch, channels, height, width]`."""
        self.check(images)
        maps: Tensor = self.blocks(self.stem(images))
        return maps.mean((2, 3))


class _DenseLayer(nn.Module):
    """Normalisation, ReLU, a 3 x 3 convolution, whose maps are appended to the input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(inputs), _convolution(inputs, growth, 3)

    def forward(self, maps: Tensor) -> Tensor:
        return torch.cat([maps, self.conv(F.relu(self.norm(maps), inplace=True))], 1)


def _transition(channels: int) -> nn.Module:
    norm, conv = nn.BatchNorm2d(channels), _convolution(channels, channels, 1)
    return nn.Sequential(OrderedDict(norm=norm, relu=nn.ReLU(True), conv=conv, pool=nn.AvgPool2d(2)))


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
        features = _STEM + _BLOCKS * _LAYERS * check_size("width", growth)
        super().__init__(image_shape, features, nonnegative=last_relu, smallest=2 ** (_BLOCKS - 1))
        self.stem = _convolution(self.image_shape[0], _STEM, 3)
        layers: list[nn.Module] = []
        channels = _STEM
        for block in range(_BLOCKS):
            if block > 0:
                layers.append(_transition(channels))
            for _ in range(_LAYERS):
                layers.append(_DenseLayer(channels, growth))
                channels += growth
        self.layers = nn.Sequential(*layers)
        self.norm = nn.BatchNorm2d(channels)
        self.last_relu = last_relu
        _start(self)

    def forward(self, images: Tensor) -> Tensor:
        """Features `[batch, 16 + 36 growth]` of images `[batch, channels, height, width]`."""
        self.check(images)
        maps: Tensor = self.norm(self.layers(self.stem(images)))
        return (F.relu(maps, inplace=True) if self.last_relu else maps).mean((2, 3))
