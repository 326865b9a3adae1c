"""Networks for small images, and their table: ResNet, DenseNet, six convolutions with max-pooling, MLP.

Each takes the channels, height and width of images, a width that `make_encoder` describes, and `last_relu`: whether
what it gives passes through a last ReLU.

On a CPU float32 images of 16 pixels or more become `torch.channels_last` inside, which is faster, most of all with
bfloat16. Weights, their gradients and features keep the usual format.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe.encoders._encoder import Encoder
from orthoframe.encoders._vit import ViT
from orthoframe.options import Model, check_choice, check_size

_RESNET_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
_LARGE = 96  # pixels, from which images are made smaller first
_CHANNELS_LAST = 16  # pixels, from which the last of three halvings leaves more than one
_STEM, _BLOCKS, _LAYERS = 16, 3, 12  # 40 layers: the stem, 3 x 12, two transitions, and the classifier


def _convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


def _start(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def _maps(stem: nn.Module, images: Tensor) -> Tensor:
    """The first maps, on a CPU in `torch.channels_last` where that is safe: all layers that follow are faster with it.

    Images of less than 16 pixels end in maps of a single pixel, which have that format and the usual one at once; with
    images of 8 pixels memory was once overwritten, which 1,200 random networks under a checking allocator did not
    repeat.
    """
    usual = images.device.type == "cpu" and images.dtype == torch.float32
    suited = usual and min(images.shape[2:]) >= _CHANNELS_LAST
    layout = torch.channels_last if suited else torch.contiguous_format
    # Again after the first layers: of a single channel both formats are the same, and the usual one comes out.
    maps: Tensor = stem(images.contiguous(memory_format=layout))
    return maps.contiguous(memory_format=layout)


def _first_layers(image_shape: tuple[int, int, int], width: int) -> nn.Sequential:
    """A 3 x 3 convolution, its normalisation and ReLU; for large images 7 x 7, and a quarter of height and width."""
    large = min(image_shape[1:]) >= _LARGE
    first = _convolution(image_shape[0], width, *((7, 2) if large else (3, 1)))
    pooled = [nn.MaxPool2d(3, 2, 1)] if large else []
    return nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(True), *pooled)


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
        self.stem = _first_layers(self.image_shape, width)
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

    def _encode(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(_maps(self.stem, images))
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

    Its width is its `growth`, the channels that each layer adds. With a `stem_stride` of 2 the first convolution halves
    the image, and all else is four times as fast.

    Examples:
        >>> import torch
        >>> encoder = DenseNet((1, 8, 8), growth=2)
        >>> encoder(torch.zeros(2, 1, 8, 8)).shape, encoder.out_features, encoder.nonnegative
        (torch.Size([2, 88]), 88, True)
    """

    def __init__(
        self, image_shape: Sequence[int], growth: int = 12, *, last_relu: bool = True, stem_stride: Literal[1, 2] = 1
    ) -> None:
        features = _STEM + _BLOCKS * _LAYERS * check_size("width", growth)
        if stem_stride not in (1, 2):
            raise ValueError(f"stem_stride must be 1 or 2, not {stem_stride!r}")
        super().__init__(image_shape, features, nonnegative=last_relu, smallest=stem_stride * 2 ** (_BLOCKS - 1))
        self.stem = _convolution(self.image_shape[0], _STEM, 3, stem_stride)
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

    def _encode(self, images: Tensor) -> Tensor:
        maps: Tensor = self.norm(self.layers(_maps(self.stem, images)))
        return (F.relu(maps, inplace=True) if self.last_relu else maps).mean((2, 3))


def _pooled_block(inputs: int, outputs: int, last: bool) -> list[nn.Module]:
    """Two 3 x 3 convolutions; what the first makes is pooled, and both are normalised, with a ReLU but for the last."""
    first, second = _convolution(inputs, outputs, 3), _convolution(outputs, outputs, 3)
    layers = [first, nn.MaxPool2d(2), nn.BatchNorm2d(outputs), nn.ReLU(True), second, nn.BatchNorm2d(outputs)]
    return layers if last else [*layers, nn.ReLU(True)]


class Conv6(Encoder):
    """Six 3 x 3 convolutions in three blocks that halve the image, as the speed records of CIFAR-10 have them.

    A block is a convolution, max-pooling, normalisation and ReLU, and then a convolution, normalisation and ReLU. The
    three blocks have 1, 4 and 4 times `width` channels; a first convolution of half the width precedes them. The
    features are the maxima of the last maps; with `quarters` also their averages, and the averages over each quarter of
    the image, side by side, which keep where things are. From 96 pixels on the first layers divide height and width by
    four, as those of the ResNet.

    Examples:
        >>> import torch
        >>> encoder = Conv6((3, 32, 32), width=8)
        >>> encoder(torch.zeros(2, 3, 32, 32)).shape, encoder.out_features, encoder.nonnegative
        (torch.Size([2, 32]), 32, True)
        >>> Conv6((3, 32, 32), width=8, quarters=True).out_features
        192
    """

    def __init__(
        self, image_shape: Sequence[int], width: int = 64, *, last_relu: bool = True, quarters: bool = False
    ) -> None:
        features = 4 * check_size("width", width) * (6 if quarters else 1)
        super().__init__(image_shape, features, nonnegative=last_relu, smallest=8)
        half = max(1, width // 2)
        self.stem = _first_layers(self.image_shape, half)
        widths = [half, width, 4 * width, 4 * width]
        self.blocks = nn.Sequential(
            *(layer for b in range(3) for layer in _pooled_block(widths[b], widths[b + 1], last=b == 2))
        )
        self.last_relu, self.quarters = last_relu, quarters
        _start(self)

    def _encode(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(_maps(self.stem, images))
        if not self.quarters:
            features = maps.amax((2, 3))
            return F.relu(features) if self.last_relu else features
        maps = F.relu(maps, inplace=True) if self.last_relu else maps
        return torch.cat([maps.mean((2, 3)), maps.amax((2, 3)), *_quarters(maps)], 1)


def _quarters(maps: Tensor) -> list[Tensor]:
    """The averages over each quarter of the maps; a row or column in the middle is in both halves."""
    rows, columns = ((size + 1) // 2 for size in maps.shape[2:])
    halves = maps[:, :, :rows], maps[:, :, -rows:]
    return [part.mean((2, 3)) for half in halves for part in (half[..., :columns], half[..., -columns:])]


class MLP(Encoder):
    """Flattened pixels and two hidden layers with ReLU; the second gives the features.

    Without batch normalisation each image is encoded by itself: splitting a batch over processes changes no features.

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

    def _encode(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images)
        return features


@dataclass(frozen=True)
class EncoderEntry:
    """How an encoder is made."""

    # From the image shape, the width, and whether the network ends in its ReLU. It refuses images that are too
    # small for it.
    make: Callable[[Sequence[int], int, bool], Encoder]
    width: int
    has_maps: bool = True  # whether its features are averages or maxima of maps


ENCODERS: dict[str, EncoderEntry] = {
    "resnet18": EncoderEntry(lambda shape, width, relu: ResNet(shape, 18, width, last_relu=relu), 64),
    "resnet34": EncoderEntry(lambda shape, width, relu: ResNet(shape, 34, width, last_relu=relu), 64),
    "densenet40": EncoderEntry(lambda shape, width, relu: DenseNet(shape, width, last_relu=relu), 12),
    "densenet40-half": EncoderEntry(
        lambda shape, width, relu: DenseNet(shape, width, last_relu=relu, stem_stride=2), 12
    ),
    "conv6": EncoderEntry(lambda shape, width, relu: Conv6(shape, width, last_relu=relu), 64),
    "conv6-quarters": EncoderEntry(lambda shape, width, relu: Conv6(shape, width, last_relu=relu, quarters=True), 64),
    "mlp": EncoderEntry(lambda shape, width, relu: MLP(shape, width, last_relu=relu), 256, has_maps=False),
    "vit": EncoderEntry(lambda shape, width, _: ViT(shape, width), 128, has_maps=False),
}
"""The encoders by name, see `orthoframe.options.Model`."""


def make_encoder(
    model: Model, image_shape: Sequence[int], width: int | None = None, *, last_relu: bool = True
) -> Encoder:
    """Make an encoder of small images; its features still lack the frame head.

    | model             | width                    | default | dimension     | smallest image |
    |-------------------|--------------------------|---------|---------------|----------------|
    | `resnet18`        | channels of stage one    | 64      | 8 width       | 8 x 8          |
    | `resnet34`        | channels of stage one    | 64      | 8 width       | 8 x 8          |
    | `densenet40`      | growth                   | 12      | 16 + 36 width | 4 x 4          |
    | `densenet40-half` | growth                   | 12      | 16 + 36 width | 8 x 8          |
    | `conv6`           | channels of block one    | 64      | 4 width       | 8 x 8          |
    | `conv6-quarters`  | channels of block one    | 64      | 24 width      | 8 x 8          |
    | `mlp`             | units of a hidden layer  | 256     | width         | any            |
    | `vit`             | dimension of a token     | 128     | width         | 8 x 8          |

    Weights are drawn from torch's global generator; `make_frame_encoder` takes a seed instead.

    Args:
        model: See `orthoframe.options.Model`.
        image_shape: Channels, height and width.
        width: Width of the network; see the table.
        last_relu: Whether the network ends in its ReLU. Without it features may have either sign. A `vit` has none.

    Returns:
        A module with the attributes `out_features` and `nonnegative`.

    Raises:
        OptionError: For another model, or a shape or width that the model cannot have.

    Examples:
        >>> encoder = make_encoder("resnet18", (3, 32, 32))
        >>> encoder.out_features, sum(weight.numel() for weight in encoder.parameters())
        (512, 11168832)
    """
    check_choice("model", model, ENCODERS)
    entry = ENCODERS[model]
    return entry.make(image_shape, entry.width if width is None else width, last_relu)
