"""The frame head, an activation and unit norm; and encoders that end in one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe._rows import unit_rows
from orthoframe.encoders._encoder import Encoder, shapes_only
from orthoframe.encoders._networks import make_encoder
from orthoframe.errors import Option, OptionError
from orthoframe.options import Activation, Head, HeadNorm, Model, check_choice, check_size


def _square(rows: Tensor) -> Tensor:
    # Of unit rows, so that squares stay in range; the norm that follows undoes the scale.
    return unit_rows(rows)[0].square()


@dataclass(frozen=True)
class ActivationFunction:
    """An activation of the head, and whether its values are never negative."""

    function: Callable[[Tensor], Tensor]
    nonnegative: bool


ACTIVATIONS: dict[str, ActivationFunction] = {
    "relu": ActivationFunction(F.relu, nonnegative=True),
    "abs": ActivationFunction(torch.abs, nonnegative=True),
    "square": ActivationFunction(_square, nonnegative=True),
    "softplus": ActivationFunction(F.softplus, nonnegative=True),
    "gelu": ActivationFunction(F.gelu, nonnegative=False),
    "leaky-relu": ActivationFunction(F.leaky_relu, nonnegative=False),
    "none": ActivationFunction(lambda rows: rows, nonnegative=False),
}
"""The activations of the head by name, see `orthoframe.options.Activation`."""


def is_nonnegative(activation: str) -> bool:
    """Whether an activation confines features to the orthant.

    Examples:
        >>> is_nonnegative("relu"), is_nonnegative("gelu")
        (True, False)
    """
    check_choice("activation", activation, ACTIVATIONS)
    return ACTIVATIONS[activation].nonnegative


class FrameHead(nn.Module):
    r"""Make features non-negative and unit-norm, the two conditions under which classes end in an orthogonal frame.

        h = a(W x + b) / ||a(W x + b)||

    with the activation a, or h = a(x) / ||a(x)|| if no sizes are given. `relu`, `abs` and `square` can reach the frame,
    `softplus` approaches it; `gelu`, `leaky-relu` and `none` cover the whole sphere and do not lead to it.

    Give the sizes for features that come out of a ReLU. In a frame of the orthant classes have disjoint supports, so
    most features must be exactly zero; the average of a ReLU map is zero only if every pixel of the map is. Without a
    linear layer such features approach the frame far more slowly.

    A row that the activation sets to zero (a dead row) stays zero and gets a gradient of zero. Half precision comes
    out as float32, in which the norm is taken; float64 stays.

    The weights start as those of `nn.Linear` less the mean of each unit's weights, the bias at zero. Otherwise what all
    inputs have in common, which is much for non-negative features, would decide the sign of a unit for every row: many
    units would be dead from the start, and all rows nearly parallel.

    With `norm="batch"` a batch normalisation follows the linear layer, which then has no bias: h = a(N(W x)) / ||...||.
    In training mode it needs two rows or more, and features depend on the rest of the batch.

    Args:
        in_features: The dimension of the features that come in; with `out_features`, there is a linear layer.
        out_features: The dimension d of the features that go out. A frame of k classes needs d >= k.
        activation: See `orthoframe.options.Activation`.
        norm: `"none"`, or `"batch"` with a linear layer; see `orthoframe.options.HeadNorm`.

    Attributes:
        nonnegative: Whether the activation alone makes all features non-negative.

    Raises:
        ValueError: For one size without the other, a size below 1, another activation, a normalisation without a linear
            layer, or rows of another shape.
        TypeError: For rows that are not floating point.

    Examples:
        >>> import torch
        >>> FrameHead()(torch.tensor([[3.0, -1.0, 4.0], [-1.0, -2.0, 0.0]]))
        tensor([[0.6000, 0.0000, 0.8000],
                [0.0000, 0.0000, 0.0000]])
        >>> FrameHead(512, 128, activation="abs").nonnegative
        True
    """

    def __init__(
        self,
        in_features: int | None = None,
        out_features: int | None = None,
        activation: Activation = "relu",
        norm: HeadNorm = "none",
    ) -> None:
        super().__init__()
        self.nonnegative = is_nonnegative(activation)
        check_choice("norm", norm, HeadNorm)
        if (in_features is None) != (out_features is None):
            present, missing = sorted(("in_features", "out_features"), reverse=in_features is None)
            raise ValueError(f"{present} was given without {missing}; give both for a linear layer, or neither")
        if norm == "batch" and in_features is None:
            raise OptionError(Option("norm", norm), " needs a linear layer; give in_features and out_features")
        self.activation = activation
        self.linear: nn.Linear | None = None
        self.norm: nn.BatchNorm1d | None = None
        if in_features is not None and out_features is not None:
            check_size("in_features", in_features)
            check_size("out_features", out_features)
            # A bias would be taken out again by the normalisation, which has one of its own.
            self.linear = nn.Linear(in_features, out_features, bias=norm == "none")
            self.norm = nn.BatchNorm1d(out_features) if norm == "batch" else None
            if self.linear.bias is not None:
                nn.init.zeros_(self.linear.bias)
            if in_features > 1:  # the mean of one weight is that weight
                with torch.no_grad():
                    self.linear.weight -= self.linear.weight.mean(1, keepdim=True)

    def forward(self, features: Tensor) -> Tensor:
        """Unit rows `[rows, out_features]` of features `[rows, in_features]`."""
        return unit_rows(self.before_norm(features))[0]

    def before_norm(self, features: Tensor) -> Tensor:
        """Rows after the activation, before they are divided by their norm."""
        if features.ndim != 2:
            raise ValueError(f"features must have shape [rows, dim], not {list(features.shape)}")
        if not features.is_floating_point():
            raise TypeError(f"features must be floating point, not {features.dtype}")
        rows = features if self.linear is None else self.linear(features)
        if rows.dtype in (torch.float16, torch.bfloat16):
            rows = rows.float()
        if self.norm is not None:
            rows = self.norm(rows)
        return ACTIVATIONS[self.activation].function(rows)

    def extra_repr(self) -> str:
        """The options, for `print(module)`."""
        return f"activation={self.activation!r}"


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
