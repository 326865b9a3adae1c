"""Encoders by name."""

from collections.abc import Sequence
from typing import Literal, get_args

from orthoframe.encoders._densenet import DenseNet
from orthoframe.encoders._encoder import Encoder
from orthoframe.encoders._mlp import MLP
from orthoframe.encoders._resnet import ResNet
from orthoframe.encoders._vit import ViT

Model = Literal["resnet18", "resnet34", "densenet40", "mlp", "vit"]
"""The networks that `make_encoder` makes."""

MODELS: tuple[Model, ...] = get_args(Model)
"""Their names."""


def make_encoder(
    model: Model, image_shape: Sequence[int], width: int | None = None, *, last_relu: bool = True
) -> Encoder:
    """Make an encoder of small images; its features still lack the frame head.

    | model        | width                    | default | dimension     | smallest image |
    |--------------|--------------------------|---------|---------------|----------------|
    | `resnet18`   | channels of stage one    | 64      | 8 width       | 8 x 8          |
    | `resnet34`   | channels of stage one    | 64      | 8 width       | 8 x 8          |
    | `densenet40` | growth                   | 12      | 16 + 36 width | 4 x 4          |
    | `mlp`        | units of a hidden layer  | 256     | width         | any            |
    | `vit`        | dimension of a token     | 128     | width         | 8 x 8          |

    Weights are drawn from torch's global generator; `make_frame_encoder` takes a seed instead.

    Args:
        model: One of `MODELS`.
        image_shape: Channels, height and width.
        width: How wide the network is; the table says what it counts.
        last_relu: Whether the ReLU at the end of the network is there. Without it features may have either sign. A
            `vit` has none.

    Returns:
        A module with the attributes `out_features` and `nonnegative`.

    Raises:
        ValueError: For another model, a shape that the model cannot take, or a width that it cannot have.

    Examples:
        >>> encoder = make_encoder("resnet18", (3, 32, 32))
        >>> encoder.out_features, sum(weight.numel() for weight in encoder.parameters())
        (512, 11168832)
    """
    if model == "resnet18" or model == "resnet34":
        return ResNet(
            image_shape, 18 if model == "resnet18" else 34, 64 if width is None else width, last_relu=last_relu
        )
    if model == "densenet40":
        return DenseNet(image_shape, 12 if width is None else width, last_relu=last_relu)
    if model == "mlp":
        return MLP(image_shape, 256 if width is None else width, last_relu=last_relu)
    if model == "vit":
        return ViT(image_shape, 128 if width is None else width)
    raise ValueError(f"model must be one of {', '.join(map(repr, MODELS))}, not {model!r}")
