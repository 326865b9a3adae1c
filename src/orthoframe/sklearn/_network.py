"""A network of fully connected layers for the rows of a table, with the head that leads to the frame."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe.encoders import Activation, FrameHead

_ROWS = 8192  # that are encoded together


class TableEncoder(nn.Module):
    """Rows of a table to unit features: hidden layers with ReLU, then a linear layer and the frame head.

    Args:
        in_features: Columns of the table.
        hidden: Units of each hidden layer; the features have as many dimensions as the last.
        activation: Of the head; one of `ACTIVATIONS`.
        seed: Decides the weights. The global generators are left as they were.

    Examples:
        >>> TableEncoder(4, (32, 16))(torch.ones(5, 4)).shape
        torch.Size([5, 16])
    """

    def __init__(self, in_features: int, hidden: Sequence[int], activation: Activation = "relu", seed: int = 0) -> None:
        super().__init__()
        # On the CPU and from its generator alone: the same bytes everywhere.
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            sizes = [in_features, *hidden]
            linears = [nn.Linear(a, b) for a, b in pairwise(sizes)]
            for linear in linears:
                nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
                nn.init.zeros_(linear.bias)
            self.layers = nn.ModuleList(linears)
            self.head = FrameHead(sizes[-1], sizes[-1], activation)

    def forward(self, rows: Tensor, dropout: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """Unit features `[rows, dim]` of standardised rows `[rows, columns]`; `dropout` is for training."""
        for layer in self.layers:
            rows = torch.relu(layer(rows))
            if dropout:
                # torch's own takes no generator, and would draw from the one that everybody shares.
                kept = torch.rand(rows.shape, generator=generator, device=rows.device) >= dropout
                rows = rows * kept / (1 - dropout)
        features: Tensor = self.head(rows)
        return features


@torch.no_grad()
def features_of(encoder: TableEncoder, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features `[rows, dim]` of standardised rows, a part at a time."""
    parts = [encoder(part) for part in torch.split(torch.from_numpy(rows), _ROWS)]
    features: NDArray[np.float64] = torch.cat(parts).numpy()
    return features
