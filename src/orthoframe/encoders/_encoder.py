"""The base class of encoders, and their weights from a file: shapes are compared before memory is taken for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from orthoframe.errors import Option, OptionError, brief

PREFIX = "encoder."
"""The start of the names of weights in a file that has other tensors too."""


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

    def forward(self, images: Tensor) -> Tensor:
        """Features `[batch, out_features]` of images `[batch, channels, height, width]`; features pass as they are."""
        if images.ndim == 2 and images.shape[1] == self.out_features:  # those of a frozen network are computed once
            return images
        # A convolution would take [channels, height, width] as one image, and return nonsense instead of an error.
        if images.ndim != 4 or tuple(images.shape[1:]) != self.image_shape:
            expected = ", ".join(map(str, self.image_shape))
            raise ValueError(f"images must have shape [batch, {expected}], not {list(images.shape)}")
        if not images.is_floating_point():
            raise TypeError(f"images must be floating point, not {images.dtype}; use images.float() / 255 for bytes")
        return self._encode(images)

    def _encode(self, images: Tensor) -> Tensor:
        """`forward` for images of the right shape and type, which each network defines."""
        raise NotImplementedError

    def fill_buffers(self) -> None:
        """Compute the buffers that no file of weights has, if they are only shapes so far; networks here have none."""


class _SkippedInitialisation(TorchFunctionMode):
    """Skips the initialisation of weights: on the meta device torch would load its compiler for it, in seconds."""

    _SKIPPED = (nn.init.normal_, Tensor.normal_, Tensor.mean, Tensor.sub_)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        return next(iter((*args, *named.values()))) if func in self._SKIPPED else func(*args, **named)


@contextmanager
def shapes_only() -> Iterator[None]:
    """Networks made in here have shapes, but no weights and no memory for them; see `load_weights`.

    Examples:
        >>> with shapes_only():
        ...     list(nn.Linear(10**8, 10**8).weight.shape)
        [100000000, 100000000]
    """
    with torch.device("meta"), _SkippedInitialisation():
        yield


def load_weights(network: nn.Module, file: Any) -> None:
    """Give a network that was made with `shapes_only` the weights of an open safetensors file, under `PREFIX`.

    Raises:
        ValueError: If a tensor is missing, is not expected, or has another shape or dtype.
    """
    expected = {PREFIX + name: value for name, value in network.state_dict().items()}
    names = [name for name in file.keys() if name.startswith(PREFIX)]  # noqa: SIM118
    for name in sorted(expected.keys() ^ set(names)):
        raise ValueError(f"the tensor {brief(name, 60)} is {'missing' if name in expected else 'not expected'}")
    weights = {}
    for name, value in expected.items():
        tensor = file.get_tensor(name)  # mapped from the file
        if (tensor.shape, tensor.dtype) != (value.shape, value.dtype):
            actual, needed = (f"{each.dtype} of {brief(list(each.shape), 60)}" for each in (tensor, value))
            raise ValueError(f"the tensor {brief(name, 60)} is {actual}, and its network needs {needed}")
        weights[name.removeprefix(PREFIX)] = tensor.clone()
    network.load_state_dict(weights, assign=True)
    for module in network.modules():
        if isinstance(module, Encoder):
            module.fill_buffers()
