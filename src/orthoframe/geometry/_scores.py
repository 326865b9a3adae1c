"""Scores that make up for class sizes, and scores as confidences."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Weights
from orthoframe.options import TEMPERATURE

_SHARPEST = 1e3  # slope of the cosines, one over a temperature
_UNIT = 1 / TEMPERATURE  # slopes are searched in this unit
_BINS = 15
_COLDEST, _HOTTEST = 1e-3, 1e3  # temperatures that are tried for a calibration


def fit_adjustment(cosines: Tensor, labels: Tensor, shares: Weights) -> float:
    r"""How strongly scores should make up for class sizes: lambda of `cos - lambda log(share / largest share)`.

    Rows of a small class scatter more on new data than those of a large one, so that the nearest centre takes too many
    of them for rows of large classes. Training rows do not show it: at a frame they all coincide. Give rows that were
    not trained on, or cosines from cross-fitting.

    A temperature T and lambda minimise the cross-entropy of `softmax((cos - lambda log share) / T)`, in which every
    class that has rows counts the same. That is a logit model with two parameters, 1/T and lambda/T, and convex in
    them, so that there is one answer, which few rows per class are enough for; the accuracy itself is a step function
    of lambda, and jumps with each row of a class that has two.

    Args:
        cosines: `[rows, k]`, to the centres; -inf for classes that are never predicted.
        labels: `[rows]`, from 0 to k - 1. Rows of classes that are never predicted are left out.
        shares: `[k]`, sizes of the classes in training; only their ratios count.

    Returns:
        lambda, at least 0: small classes scatter more than large ones, not less, and a fit that says the opposite says
        it of the few rows that it saw. At most 2 / log(largest / smallest share), from where on the smallest class
        would win whatever the cosines are; for scores of a wider range, such as those of a linear classifier, that
        range takes the place of 2. 0 if classes have equal sizes, if rows are of fewer than two classes, and if cosines
        do not tell classes apart.

    Raises:
        ValueError: For shares that are not one per class, or not positive where a class can be predicted.

    Examples:
        >>> to_first = torch.tensor([0.9, 0.8, 0.7, 0.5, 0.6, 0.4])
        >>> to_second = torch.tensor([0.1, 0.3, 0.2, 0.6, 0.4, 0.5])
        >>> cosines = torch.stack([to_first, to_second], dim=1)
        >>> round(fit_adjustment(cosines, torch.tensor([0, 0, 0, 1, 1, 1]), [100, 10]), 2)
        0.15
    """
    from scipy.optimize import minimize  # half a second to load

    possible = cosines.gather(1, labels[:, None])[:, 0].isfinite()
    cosines, labels = cosines[possible].double().cpu(), labels[possible].cpu()
    present = (cosines > -torch.inf).any(0)
    sizes = log_ratios(shares, present)[present]
    steepest = -float(sizes.min()) if len(sizes) else 0.0
    if not steepest or bool((labels == labels[0]).all()):
        return 0.0
    classes = (present.cumsum(0) - 1)[labels]  # numbers among the classes that can be predicted
    weights = 1 / torch.bincount(classes)[classes].double()
    weights /= weights.sum()
    # The two variables of the logit model, each less its value at the true class of the row.
    variables = torch.stack([cosines[:, present], -sizes.expand(len(classes), -1)])
    variables -= variables.gather(2, classes[None, :, None].expand(2, -1, 1))
    never = variables[0] == -torch.inf  # for some rows only, if networks of a cross-fit knew different classes
    variables[0].masked_fill_(never, 0.0)

    def loss(slopes: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logits = torch.tensordot(torch.from_numpy(_UNIT * slopes), variables, 1).masked_fill_(never, -torch.inf)
        gradient = torch.einsum("i,ij,vij->v", weights, logits.softmax(1), variables)
        return float(weights @ logits.logsumexp(1)), _UNIT * gradient.numpy()

    reach = max(2.0, float((cosines[:, present].amax(1) - cosines[:, present].amin(1)).max()))
    sharpest = _SHARPEST / _UNIT
    bounds: Any = [(0.0, sharpest), (0.0, reach * sharpest / steepest)]
    options = {"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9}
    a, b = minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds, options=options).x.tolist()
    return min(b / a, reach / steepest) if a > 1 / (_SHARPEST * _UNIT) else 0.0


def log_ratios(shares: Weights, present: Tensor) -> Tensor:
    """Logarithms of the shares over the largest one, `[k]`, in float64; 0 for classes that are not present.

    Raises:
        ValueError: As in `fit_adjustment`.
    """
    sizes = torch.as_tensor(shares if isinstance(shares, Tensor) else np.asarray(shares)).detach().cpu().double()
    if sizes.shape != present.shape:
        raise ValueError(f"shares must have shape {list(present.shape)}, one per class, not {list(sizes.shape)}")
    wrong = (present.cpu() & ~((sizes > 0) & (sizes < torch.inf))).nonzero()[:, 0].tolist()
    if wrong:
        raise ValueError(f"shares must be positive and finite; the share of class {wrong[0]} is {sizes[wrong[0]]:g}")
    logs = sizes.log().masked_fill(~present.cpu(), -torch.inf)
    return (logs - logs.amax()).masked_fill(~present.cpu(), 0.0) if len(logs) else logs


@dataclass(frozen=True)
class Calibration:
    """A temperature that makes confidences of scores: softmax(scores / temperature).

    Attributes:
        temperature: The one with the smallest cross-entropy on the rows it was fitted to.
        error: Expected calibration error on these rows: the absolute difference of confidence and accuracy, a mean over
            15 bins of confidence, weighted by their rows.
        rows: Number of these rows.
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
            >>> calibration = Calibration.fitted(scores, labels)
            >>> round(calibration.temperature, 3), calibration.confidences(scores).amax(1)[0]  # right 3 times in 4
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
        calibration = cls(math.exp(float(best.x)), 0.0, len(labels))
        return replace(calibration, error=calibration_error(calibration.confidences(scores), labels))

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
