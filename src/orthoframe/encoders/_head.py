"""The frame head: an activation and unit norm."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe._rows import unit_rows
from orthoframe.errors import Option, OptionError
from orthoframe.options import Activation, HeadNorm, check_choice, check_size


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
