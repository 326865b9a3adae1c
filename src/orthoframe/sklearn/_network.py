"""A network of fully connected layers for the rows of a table, with the head that leads to the frame."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe.encoders import FrameHead, shapes_only
from orthoframe.options import Activation

_ROWS_AT_ONCE = 8192


class TableEncoder(nn.Module):
    """Maps rows of a table to unit features: hidden layers with ReLU, then a linear layer and the frame head.

    Features have as many dimensions as the last hidden layer has units. The seed determines the weights; the global
    generators are not touched. Without `weights` there are only shapes, for weights from a file.
    """

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int],
        activation: Activation = "relu",
        seed: int = 0,
        weights: bool = True,
    ) -> None:
        super().__init__()
        # On the CPU and from its generator alone: the same bytes everywhere.
        with torch.device("cpu") if weights else shapes_only(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            linears = [nn.Linear(a, b) for a, b in pairwise([in_features, *hidden])]
            for linear in linears:
                nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
                nn.init.zeros_(linear.bias)
            self.layers = nn.ModuleList(linears)
            self.head = FrameHead(hidden[-1], hidden[-1], activation)

    @property
    def dim(self) -> int:
        """Of the features."""
        assert self.head.linear is not None
        return self.head.linear.out_features

    def forward(self, rows: Tensor, dropout: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """Unit features `[rows, dim]` of standardised rows `[rows, columns]`; `dropout` is for training."""
        for layer in self.layers:
            rows = torch.relu(layer(rows))
            if dropout:
                # torch's own dropout takes no generator, and would draw from the global one.
                kept = torch.rand(rows.shape, generator=generator, device=rows.device) >= dropout
                rows = rows * kept / (1 - dropout)
        features: Tensor = self.head(rows)
        return features


@torch.no_grad()
def features_of(encoder: TableEncoder, rows: NDArray[np.float64]) -> Tensor:
    """Features `[rows, dim]` of standardised rows, in parts to save memory."""
    return torch.cat([encoder(part) for part in torch.split(torch.from_numpy(rows), _ROWS_AT_ONCE)])
