"""Scores that make up for class sizes, and how strong that should be, from rows that were not trained on."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Weights

_SHARPEST = 1e3  # slope of the cosines, one over a temperature
_UNIT = 10.0  # slopes are searched in units of that of temperature 0.1


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
        >>> found = fit_adjustment(cosines, torch.tensor([0, 0, 0, 1, 1, 1]), [100, 10])
        >>> round(found, 2)
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
    own = (present.cumsum(0) - 1)[labels]  # numbers among the classes that can be predicted
    weights = 1 / torch.bincount(own)[own].double()
    weights /= weights.sum()
    # The two variables of the logit model, each less that of the row's own class.
    variables = torch.stack([cosines[:, present], -sizes.expand(len(own), -1)])
    variables -= variables.gather(2, own[None, :, None].expand(2, -1, 1))
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
        raise ValueError(f"shares must be positive and finite, and that of class {wrong[0]} is {sizes[wrong[0]]:g}")
    logs = sizes.log().masked_fill(~present.cpu(), -torch.inf)
    return (logs - logs.amax()).masked_fill(~present.cpu(), 0.0) if len(logs) else logs
