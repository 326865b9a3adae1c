"""Weights from a file, compared with the shapes of a network before memory is taken for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from orthoframe.errors import brief

PREFIX = "encoder."
"""The start of the names of weights in a file that has other tensors too."""


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
    """Give a network that was made with `shapes_only` the weights of an open safetensors file.

    Args:
        network: Its shapes are compared with those in the file.
        file: As `safetensors.safe_open` opens it; names start with `PREFIX`.

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
        fill: Any = getattr(module, "fill_buffers", None)  # a `Backbone` has more than its weights
        if fill is not None:
            fill()
