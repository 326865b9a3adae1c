"""Scores as confidences: how sure a prediction is, and how far that is from how often it is right."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_BINS = 15
_COLDEST, _HOTTEST = 1e-3, 1e3  # temperatures that are tried


@dataclass(frozen=True)
class Calibration:
    """A temperature that makes confidences of scores: softmax(scores / temperature).

    Attributes:
        temperature: That of the smallest cross-entropy on the rows it was fitted to.
        error: Expected calibration error on these rows: confidence less accuracy, absolute, mean over 15 bins of
            confidence, weighted by their rows.
        rows: How many these are.
    """

    temperature: float
    error: float
    rows: int

    @classmethod
    def fitted(cls, scores: Tensor, labels: Tensor) -> "Calibration | None":
        """Fit the temperature; None if there are no rows.

        Args:
            scores: `[rows, k]`, the largest wins; -inf for classes that are never predicted.
            labels: `[rows]`. Rows of classes that are never predicted are left out.

        Examples:
            >>> scores, labels = torch.tensor([[0.9, 0.1]] * 4), torch.tensor([0, 0, 0, 1])
            >>> found = Calibration.fitted(scores, labels)
            >>> round(found.temperature, 3), found.confidences(scores).amax(1)[0]  # right three times in four
            (0.728, tensor(0.7500, dtype=torch.float64))
        """
        from scipy.optimize import minimize_scalar  # half a second to load, and confidences do not need it

        possible = scores.gather(1, labels[:, None])[:, 0].isfinite()
        scores, labels = scores[possible].double(), labels[possible]
        if not len(labels):
            return None

        def loss(logarithm: float) -> float:
            return float(torch.nn.functional.cross_entropy(scores / math.exp(logarithm), labels))

        bounds = math.log(_COLDEST), math.log(_HOTTEST)
        best = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-4})
        found = cls(math.exp(float(best.x)), 0.0, len(labels))
        error = calibration_error(found.confidences(scores), labels)
        return cls(found.temperature, error, len(labels))

    def confidences(self, scores: Tensor) -> Tensor:
        """`[rows, k]`, which sum to 1."""
        return (scores.double() / self.temperature).softmax(1)


def calibration_error(confidences: Tensor, labels: Tensor) -> float:
    """Expected calibration error of confidences `[rows, k]`, in 15 bins of equal width."""
    highest, predicted = confidences.max(1)
    right = (predicted == labels).double()
    bins = (highest * _BINS).ceil().clamp(1, _BINS).long() - 1
    gaps = torch.zeros(_BINS, dtype=torch.float64).index_add_(0, bins, highest.double() - right)
    return float(gaps.abs().sum() / max(1, len(labels)))
