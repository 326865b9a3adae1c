"""Neural collapse in numbers: variance against the distance of classes, and a linear classifier against class means."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orthoframe._rows import feature_tensor
from orthoframe.geometry._statistics import Rows

# Squared distances below this part of the squared lengths are not computed from products, which would lose digits.
_NEAR = 1e-4
_PAIRS = 2**16  # that are computed together


def class_distance_variance(means: Tensor, variances: Tensor) -> float:
    """Class-distance normalised variance, CDNV (Galanti et al.), a mean over pairs of classes.

        mean over a < b of (V_a + V_b) / (2 |mu_a - mu_b|^2)

    Args:
        means: `[k, d]`, mu.
        variances: `[k]`, V, the mean squared distance of the rows of a class to its mean.

    Returns:
        0 if each class is one point; infinite if two means coincide and their classes do not; NaN for one class.

    Examples:
        >>> class_distance_variance(torch.eye(3, dtype=torch.float64), torch.tensor([0.5, 0.5, 0.5]).double())
        0.25
    """
    if len(means) < 2:
        return math.nan
    centred = means - means.mean(0)
    gram = centred @ centred.T
    lengths = torch.diagonal(gram)
    both = lengths + lengths[:, None]
    apart = both - 2 * gram
    rows, columns = torch.triu(apart < _NEAR * both, 1).nonzero(as_tuple=True)
    for a, b in zip(torch.split(rows, _PAIRS), torch.split(columns, _PAIRS), strict=True):
        apart[a, b] = (means[a] - means[b]).square().sum(1)
    ratios = (variances + variances[:, None]) / (2 * apart)
    return float(ratios[torch.triu(torch.ones_like(ratios, dtype=torch.bool), 1)].mean())


def classifier_distance(weights: Tensor, means: Tensor) -> float:
    """NC3 (Papyan et al.): || W/|W| - M/|M| ||, Frobenius norms, M the class means less their unweighted mean.

    It is 0 if the weights are a positive multiple of the centred means, 2 if a negative one, and NaN if one of them is
    zero.

    Examples:
        >>> classifier_distance(torch.tensor([[3.0, -3.0], [-3.0, 3.0]]), torch.eye(2))
        0.0
    """
    centred = means - means.mean(0)
    return float(torch.linalg.norm(weights / torch.linalg.norm(weights) - centred / torch.linalg.norm(centred)))


@dataclass(frozen=True)
class LinearClassifier:
    """The last layer of a network: the largest entry of `weights @ row + bias` wins."""

    weights: Tensor  # [k, d], float64
    bias: Tensor  # [k]

    @classmethod
    def of(cls, weights: Rows, bias: Any, num_classes: int, dim: int) -> "LinearClassifier":
        """Check what a user gave; a ValueError for other shapes, or values that are not finite."""
        given = feature_tensor(weights, "classifier").detach().double()
        if given.shape != (num_classes, dim):
            wanted = f"classifier must have shape [{num_classes}, {dim}], one row per class in the order of their names"
            raise ValueError(f"{wanted}, not {list(given.shape)}; if some classes have no rows, say num_classes")
        added = given.new_zeros(num_classes) if bias is None else feature_tensor(bias, "bias").detach().double()
        if added.shape != (num_classes,):
            raise ValueError(f"bias must have shape [{num_classes}], one number per class, not {list(added.shape)}")
        if not (given.isfinite().all() and added.isfinite().all()):
            raise ValueError("every weight and bias of the classifier must be finite")
        return cls(given, added)

    def scores(self, rows: Tensor) -> Tensor:
        """The score of each row for each class, `[rows, k]`, in float64; the largest wins."""
        weights, bias = self.weights.to(rows.device), self.bias.to(rows.device)
        return torch.addmm(bias, rows.detach().double(), weights.T)

    def predict(self, rows: Tensor) -> Tensor:
        """The class of each row, `[rows]`."""
        return self.scores(rows).argmax(1)
