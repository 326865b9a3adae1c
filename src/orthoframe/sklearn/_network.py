"""What encodes the rows of a table: fully connected layers with the head that leads to the frame, and a linear path."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from orthoframe.encoders import FrameHead, shapes_only
from orthoframe.options import Activation


class TableEncoder(nn.Module):
    """Maps rows of a table to unit features: hidden layers with ReLU, then a linear layer and the frame head.

    The linear layer sees the columns beside the last hidden layer, so that what is linear in the columns need not pass
    through hidden units; with few rows that is most of what can be learnt. Features have as many dimensions as the last
    hidden layer has units. The seed determines the weights; the global generators are not touched.

    With a linear path of share s, they have one dimension per class more: sqrt(1 - s) times the features of the
    network, and sqrt(s) times those of the path, sqrt(softmax(W x + b)), which are non-negative unit rows too.

    Args:
        in_features: Columns.
        hidden: Units of each hidden layer.
        activation: Activation of the head.
        seed: Seed of the initial weights.
        weights: Whether to allocate weights; without them there are only shapes, to load weights from a file into.
        direct: Whether the linear layer sees the columns.
        classes: Dimensions of the linear path, one per class; 0 without it.
        share: Share of the linear path in the squared length of features; without hidden layers it is all of it.
    """

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int],
        activation: Activation = "relu",
        seed: int = 0,
        weights: bool = True,
        direct: bool = True,
        classes: int = 0,
        share: float = 0.0,
    ) -> None:
        super().__init__()
        self.direct, self.share, self._dim = direct, share, hidden[-1] if hidden else 0
        # On the CPU and from its generator alone: the same bytes everywhere.
        with torch.device("cpu") if weights else shapes_only(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            linears = [nn.Linear(a, b) for a, b in pairwise([in_features, *hidden])]
            for linear in linears:
                nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
                nn.init.zeros_(linear.bias)
            self.layers = nn.ModuleList(linears)
            self.head = FrameHead(hidden[-1] + direct * in_features, hidden[-1], activation) if hidden else None
            self.linear = nn.Linear(in_features, classes) if classes else None

    @property
    def dim(self) -> int:
        """Dimensions of the features of the network; 0 without one."""
        return self._dim

    def forward(self, rows: Tensor, dropout: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """Unit features `[rows, dim]` of standardised rows `[rows, columns]`; `dropout` is for training."""
        parts = list[Tensor]()
        if self.head is not None:
            parts.append(self._network(rows, dropout, generator))
        if self.linear is not None:
            parts = [math.sqrt(1 - self.share) * part for part in parts]
            parts.append(math.sqrt(self.share) * self.linear(rows).softmax(1).sqrt())
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    def _network(self, rows: Tensor, dropout: float, generator: torch.Generator | None) -> Tensor:
        units = rows
        for layer in self.layers:
            units = torch.relu(layer(units))
            if dropout:
                units = units * _dropout_factors(units, dropout, generator)
        assert self.head is not None
        features: Tensor = self.head(torch.cat([units, rows], 1) if self.direct else units)
        return features


def _dropout_factors(units: Tensor, dropout: float, generator: torch.Generator | None) -> Tensor:
    """Zero for units that are dropped, and for the others what keeps the mean; `dropout` in steps of 1/256.

    torch's own dropout takes no generator, and would draw from the global one. A random number of 64 bits decides about
    eight units, because drawing them is a seventh of the training.
    """
    dropped = min(round(256 * dropout), 255)
    words = torch.empty(-(-units.numel() // 8), dtype=torch.int64, device=units.device)
    numbers = words.random_(-(2**63), None, generator=generator).view(torch.uint8)[: units.numel()]
    return (numbers >= dropped).view(units.shape) * (256 / (256 - dropped))
