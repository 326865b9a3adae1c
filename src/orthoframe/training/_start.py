"""A run that starts from a trained encoder, with its classes or with new ones beside them."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from orthoframe._rows import unit_rows
from orthoframe.data import Data, LabelledImages
from orthoframe.encoders import FrameEncoder, FrameHead
from orthoframe.errors import DataError, Option, OptionError
from orthoframe.runs import TrainedEncoder

_SCALE = 0.1  # of the weights of new dimensions, so that they hardly change the features of known classes at first


def known_classes_first(trained: TrainedEncoder, data: Data) -> Data:
    """The images with the classes that an encoder knows first, and then the new ones."""
    expected, actual = list(trained.image_shape), list(data.train.image_shape)
    if expected != actual:
        raise DataError(f"{data.name}: images have [channels, height, width] = {actual}, the encoder takes {expected}")
    known = trained.classes
    classes = (*known, *(name for name in data.train.classes if name not in known))
    numbers = torch.tensor([classes.index(name) for name in data.train.classes])

    def renamed(images: LabelledImages) -> LabelledImages:
        return replace(images, labels=numbers[images.labels], classes=classes)

    validation = None if data.validation is None else renamed(data.validation)
    fit = trained.preparation.fit
    return replace(data, train=renamed(data.train), test=renamed(data.test), validation=validation, fit=fit)


def extended_encoder(trained: TrainedEncoder, num_classes: int, seed: int) -> tuple[FrameEncoder, Tensor]:
    """The encoder for more classes, and a direction for each class `[k, dim]`.

    Known classes keep the directions of their means. Each new class gets dimensions of its own, which are appended
    to the head, as many as a known class has.
    """
    trained.encoder.train()
    known, new = len(trained.classes), num_classes - len(trained.classes)
    means = unit_rows(trained.centres.nan_to_num().double())[0]
    if not new:
        return trained.encoder, means.float()
    linear = trained.encoder.head.linear
    if linear is None:
        raise OptionError("new classes need new dimensions, which only ", Option("head", "linear"), " can get")
    old = linear.out_features
    block = max(1, old // known)
    added = new * block
    wider = FrameHead(linear.in_features, old + added, trained.architecture.activation, trained.architecture.head_norm)
    assert wider.linear is not None
    fresh = torch.randn(added, linear.in_features, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        wider.linear.weight.copy_(torch.cat([linear.weight, fresh * (_SCALE * linear.weight.std())]))
        for module, extended in ((linear, wider.linear), (trained.encoder.head.norm, wider.norm)):
            _extend(module, extended, old)
    directions = torch.zeros(num_classes, old + added, dtype=torch.float64)
    directions[:known, :old] = means
    directions[known:, old:] = torch.eye(new).repeat_interleave(block, dim=1) * block**-0.5
    return FrameEncoder(trained.encoder.backbone, wider), directions.float()


def _extend(module: nn.Module | None, wider: nn.Module | None, old: int) -> None:
    """Give a wider layer what the old one has of each dimension; new dimensions start as they are made."""
    if module is None or wider is None:
        return
    for name, value in module.state_dict().items():
        if value.ndim == 1:  # biases, and what a normalisation has
            wider.state_dict()[name][:old] = value
