"""Encoders by name, alone and with a frame head."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from orthoframe.encoders._convolutional import Conv6, DenseNet, ResNet
from orthoframe.encoders._encoder import MLP, Encoder
from orthoframe.encoders._head import FrameEncoder, FrameHead
from orthoframe.encoders._vit import ViT
from orthoframe.encoders._weights import shapes_only
from orthoframe.errors import Option, OptionError
from orthoframe.options import Activation, Head, HeadNorm, Model, check_choice, check_size


@dataclass(frozen=True)
class EncoderEntry:
    """How an encoder is made.

    Attributes:
        make: From the image shape, the width, and whether the network ends in its ReLU. It refuses images that are too
            small for it.
        width: The default width.
    """

    make: Callable[[Sequence[int], int, bool], Encoder]
    width: int


ENCODERS: dict[str, EncoderEntry] = {
    "resnet18": EncoderEntry(lambda shape, width, relu: ResNet(shape, 18, width, last_relu=relu), 64),
    "resnet34": EncoderEntry(lambda shape, width, relu: ResNet(shape, 34, width, last_relu=relu), 64),
    "densenet40": EncoderEntry(lambda shape, width, relu: DenseNet(shape, width, last_relu=relu), 12),
    "densenet40-half": EncoderEntry(
        lambda shape, width, relu: DenseNet(shape, width, last_relu=relu, stem_stride=2), 12
    ),
    "conv6": EncoderEntry(lambda shape, width, relu: Conv6(shape, width, last_relu=relu), 64),
    "mlp": EncoderEntry(lambda shape, width, relu: MLP(shape, width, last_relu=relu), 256),
    "vit": EncoderEntry(lambda shape, width, _: ViT(shape, width), 128),
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


def make_frame_encoder(
    model: Model | None,
    image_shape: Sequence[int],
    *,
    backbone: Encoder | None = None,
    width: int | None = None,
    head: Head = "linear",
    features: int | None = None,
    activation: Activation = "relu",
    head_norm: HeadNorm = "none",
    num_classes: int | None = None,
    seed: int = 0,
    weights: bool = True,
) -> FrameEncoder:
    """Make an encoder of small images with its frame head.

    With `head="linear"` the encoder keeps its own last ReLU, and a linear layer and the activation follow: the way to
    compare activations, and the faster way to the frame. With `head="none"` nothing is added, and the activation is
    that of the encoder's last layer: `relu` is its own ReLU, before the average over pixels (the paper's setting); any
    other activation takes its place and is applied to the averages (the maxima of a `conv6`), and with `none` the last
    ReLU is simply left out (the paper without ReLU). A `vit` has no last ReLU: there the activation is applied to its
    features.

    Args:
        model: See `make_encoder`; None with a backbone.
        image_shape: Channels, height and width.
        backbone: An existing encoder in place of `model` and `width`; see `load_backbone`.
        width: Width of the network; see `make_encoder`.
        head: `"linear"` or `"none"`.
        features: The dimension of the features, with `head="linear"`; that of the encoder if `None`.
        activation: See `orthoframe.options.Activation`.
        head_norm: `"batch"` for a batch normalisation before the activation, with `head="linear"`.
        num_classes: If given, a dimension that is too small for a frame of this many classes is refused.
        seed: Decides the weights. The global generators are left as they were.
        weights: Whether to draw weights; otherwise there are only shapes, for weights from a file: see `load_weights`.

    Returns:
        The encoder, on the CPU.

    Raises:
        OptionError: For options that are not allowed, contradict each other, or leave too few dimensions.

    Examples:
        >>> options = {"image_shape": (1, 28, 28), "width": 16}
        >>> encoder = make_frame_encoder("resnet18", **options, features=64, num_classes=10)
        >>> encoder.out_features, encoder.nonnegative
        (64, True)
        >>> free = make_frame_encoder("resnet18", **options, head="none", activation="none")
        >>> free.nonnegative
        False
    """
    check_choice("head", head, Head)
    check_choice("head_norm", head_norm, HeadNorm)
    if head == "none" and head_norm != "none":
        needs = (Option("head_norm", head_norm), " needs ", Option("head", "linear"))
        raise OptionError(*needs, ", whose outputs it normalises")
    if head == "none" and features is not None:
        raise OptionError(
            *(Option("features", features), " needs ", Option("head", "linear"), "; with ", Option("head", "none")),
            " the width of the encoder decides the dimension",
        )
    # On the CPU, whatever the default device, and from its generator alone: the same bytes everywhere.
    with torch.device("cpu") if weights else shapes_only(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if backbone is None:
            last_relu = head == "linear" or activation == "relu"
            if model is None:
                raise OptionError("an encoder needs a ", Option("model"), " or a ", Option("backbone"))
            backbone = make_encoder(model, image_shape, width, last_relu=last_relu)
        elif tuple(image_shape) != backbone.image_shape:
            raise OptionError(
                f"images of shape {list(image_shape)} do not fit the backbone, which takes {list(backbone.image_shape)}"
            )
        size = backbone.out_features
        if head == "linear":
            out = size if features is None else check_size("features", features)
            last = FrameHead(size, out, activation, head_norm)
        else:
            last = FrameHead(activation=activation)
    encoder = FrameEncoder(backbone, last)
    if num_classes is not None and encoder.out_features < num_classes:
        linear = (Option("features", num_classes), " or more")
        advice = linear if head == "linear" else ("a larger ", Option("width"), ", or ", Option("head", "linear"))
        raise OptionError(
            f"{encoder.out_features} dimensions are too few for {num_classes} classes: an orthogonal frame needs at "
            "least one dimension per class; use ",
            *advice,
        )
    return encoder
