"""Classification by the nearest class centre."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class NearestCentre:
    """A classifier that knows nothing but the mean of each class.

    Args:
        means: `[k, d]`, the centres; a row of NaN is a class that is never predicted.

    Examples:
        >>> classifier = NearestCentre(torch.eye(2))
        >>> classifier.predict(torch.tensor([[0.9, 0.1], [0.2, 0.7]]))
        tensor([0, 1])
    """

    means: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Minus the squared distance of each row to each centre, `[rows, k]`; the largest wins."""
        means = self.means.to(features.device, torch.float64)
        known = ~means.isnan().any(1)
        # In float64 and around the middle of the centres: classes may be close together and far from the origin.
        middle = means[known].mean(0)
        rows, means = features.double() - middle, means - middle
        scores = 2.0 * rows @ means.T - rows.square().sum(1, keepdim=True) - means.square().sum(1)
        return scores.masked_fill(~known, -torch.inf)

    def predict(self, features: Tensor) -> Tensor:
        """The class of the nearest centre of each row, `[rows]`."""
        return self.scores(features).argmax(1)
