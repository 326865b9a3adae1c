"""Encoders that end in a frame head."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from orthoframe.encoders._encoder import Encoder, shapes_only
from orthoframe.encoders._head import FrameHead
from orthoframe.encoders._networks import make_encoder
from orthoframe.errors import Option, OptionError
from orthoframe.options import Activation, Head, HeadNorm, Model, check_choice, check_size


class FrameEncoder(nn.Module):
    """An encoder and then a frame head: images to unit features.

    Args:
        backbone: The encoder.
        head: The head; a linear layer in it must take features of the encoder's dimension.

    Attributes:
        out_features: The dimension of the unit features.
        nonnegative: Whether they are in the orthant: because of the head's activation, or because the encoder ends in
            a ReLU and no linear layer follows.

    Raises:
        ValueError: If the head was made for features of another dimension.

    Examples:
        >>> import torch
        >>> from orthoframe.encoders import MLP
        >>> encoder = FrameEncoder(MLP((1, 8, 8)), FrameHead(256, 64))
        >>> encoder(torch.rand(5, 1, 8, 8)).shape, encoder.out_features, encoder.nonnegative
        (torch.Size([5, 64]), 64, True)
    """

    def __init__(self, backbone: Encoder, head: FrameHead) -> None:
        super().__init__()
        if head.linear is not None and head.linear.in_features != backbone.out_features:
            raise ValueError(
                f"the head takes {head.linear.in_features} features and the encoder gives {backbone.out_features}; "
                f"use FrameHead({backbone.out_features}, {head.linear.out_features})"
            )
        self.backbone = backbone
        self.head = head
        self._frozen = False
        self.out_features = backbone.out_features if head.linear is None else head.linear.out_features
        # Every activation keeps non-negative values non-negative.
        self.nonnegative = head.nonnegative or (head.linear is None and backbone.nonnegative)

    def freeze_backbone(self) -> None:
        """Freeze the backbone: no gradients, and its normalisations keep their statistics."""
        self.backbone.requires_grad_(False)
        self._frozen = True
        self.train(self.training)

    def train(self, mode: bool = True) -> "FrameEncoder":
        """As for any module, except that a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self._frozen:
            self.backbone.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Unit features `[batch, out_features]` of images `[batch, channels, height, width]`."""
        features: Tensor = self.head(self.backbone(images))
        return features


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
