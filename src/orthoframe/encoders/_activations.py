"""What may stand before the unit norm, and which of it leads to the orthant."""

from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from orthoframe.encoders._unit import unit_rows

Activation = Literal["relu", "abs", "square", "softplus", "gelu", "leaky-relu", "none"]
"""The function between the last layer and the unit norm. What matters is the cone that its range spans.

- `relu`, `abs`, `square`: the orthant, so that an orthogonal frame is the optimum and can be reached. A ReLU can die: a
  row of zeros has no direction, and a dimension that is zero in every row learns nothing. The other two cannot.
- `softplus`: the orthant without its faces. The frame is approached and never reached.
- `gelu`, `leaky-relu` (slope 0.01), `none`: the whole sphere once rows are normalised. The optimum is not a frame,
  though with `leaky-relu` it looks like one for long.
"""

ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
"""The names of all activations."""

NONNEGATIVE: frozenset[Activation] = frozenset({"relu", "abs", "square", "softplus"})
"""Those whose values are never below zero."""


def _square(rows: Tensor) -> Tensor:
    # Unit rows first: the norm that follows makes it the same, and squares stay in range.
    return unit_rows(rows).square()


def _unchanged(rows: Tensor) -> Tensor:
    return rows


FUNCTIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "abs": torch.abs,
    "square": _square,
    "softplus": F.softplus,
    "gelu": F.gelu,
    "leaky-relu": F.leaky_relu,
    "none": _unchanged,
}
