"""Classifiers of features by the nearest class centre or a linear layer: their scores, adjusted and as confidences."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import RowLabels, Rows, Weights, feature_tensor, label_tensor, unit_rows
from orthoframe.geometry._statistics import prepared
from orthoframe.options import TEMPERATURE, check_number

_SHARPEST = 1e3  # slope of the cosines, one over a temperature
_UNIT = 1 / TEMPERATURE  # slopes are searched in this unit
_BINS = 15
_COLDEST, _HOTTEST = 1e-3, 1e3  # temperatures that are tried for a calibration


@dataclass(frozen=True)
class NearestCentre:
    r"""Classify by the nearest class centre, by angle.

    The score of class c is

        cos(h, centre_c) - lambda log(share_c / largest share),

    with lambda = `adjust`; the largest score wins. With lambda = 0 that is the nearest centre, which is the best rule
    only if the rows of all classes scatter equally around their centres. Rows of small classes scatter more on new
    data, and a positive lambda makes up for it; `fitted` finds it.

    Args:
        centres: `[k, d]`, a tensor or an array, for example prototypes or class means; of any length. A row of NaN is a
            class that is never predicted.
        shares: `[k]`, positive: sizes of the classes in training, of which only ratios count. Those of classes that are
            never predicted do not matter.
        adjust: lambda; 0 ignores the shares.
        temperature: Of `confidences`; None if it is not known.

    Raises:
        TypeError: For centres that are not numbers.
        ValueError: For centres of another shape, shares that are not positive or not one per class, an `adjust` without
            shares, and a temperature that is not positive.

    Examples:
        >>> classifier = NearestCentre(torch.eye(2))
        >>> features = torch.tensor([[0.9, 0.1], [0.2, 0.7], [0.7, 0.6]])
        >>> classifier.predict(features)
        tensor([0, 1, 0])
        >>> NearestCentre(torch.eye(2), shares=[100, 10], adjust=0.1).predict(features)
        tensor([0, 1, 1])
    """

    centres: Rows
    shares: Weights | None = None
    adjust: float = 0.0
    temperature: float | None = None

    def __post_init__(self) -> None:
        if len(shape := list(feature_tensor(self.centres, "centres").shape)) != 2:
            raise ValueError(f"centres must have shape [classes, dim], not {shape}")
        check_number("adjust", self.adjust)
        if self.temperature is not None:
            check_number("temperature", self.temperature, above=0)
        if self.shares is not None:
            log_ratios(self.shares, self._present())
        elif self.adjust:
            raise ValueError(f"adjust is {self.adjust}, and there are no shares to adjust for; give the class sizes")

    @classmethod
    def of(cls, features: Rows, labels: RowLabels) -> "NearestCentre":
        """The rule of the class means of training rows; classes are numbered in the order of their labels.

        Args:
            features: `[rows, d]`; they are made unit rows before they are averaged.
            labels: `[rows]`, numbers or names.

        Raises:
            ValueError: For features or labels of another shape.

        Examples:
            >>> features = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
            >>> rule = NearestCentre.of(features, ["cat", "cat", "dog"])
            >>> rule.predict(torch.tensor([[0.1, 0.9]]))
            tensor([1])
        """
        from orthoframe.geometry._measure import measure  # which classifies by this rule

        geometry = measure(features, labels)
        return cls(geometry.means, geometry.counts)

    @classmethod
    def fitted(cls, centres: Rows, shares: Weights, features: Rows, labels: RowLabels) -> "NearestCentre":
        """Fit `adjust` and the temperature to rows that were not trained on.

        First lambda, by a cross-entropy in which all classes count the same (`fit_adjustment`); then the temperature
        of confidences, by the cross-entropy of the adjusted scores of all rows (`Calibration`).

        Args:
            centres: `[k, d]`, as above.
            shares: `[k]`, as above.
            features: `[rows, d]`, held out; without rows lambda is 0 and the temperature None.
            labels: `[rows]`, from 0 to k - 1.

        Raises:
            ValueError: For features or labels of another shape, features that are not finite, and labels of no class.

        Examples:
            >>> held_out = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.5, 0.6], [0.6, 0.5]])
            >>> rule = NearestCentre.fitted(torch.eye(2), [100, 10], held_out, [0, 0, 1, 1])
            >>> rule.predict(held_out), rule.adjust > 0
            (tensor([0, 0, 1, 1]), True)
        """
        cosines = cls(centres).scores(features)
        classes = label_tensor(labels, cosines.device)
        if classes.shape != cosines.shape[:1]:
            raise ValueError(f"labels must have shape [{len(cosines)}], one per row, not {list(classes.shape)}")
        if len(wrong := classes[(classes < 0) | (classes >= cosines.shape[1])]):
            raise ValueError(f"labels must be from 0 to {cosines.shape[1] - 1}, one per centre, not {int(wrong[0])}")
        if len(not_finite := cosines.isnan().any(1).nonzero()[:, 0]):
            raise ValueError(f"features must be finite, and row {int(not_finite[0])} is not; leave such rows out")
        rule = cls(centres, shares, fit_adjustment(cosines, classes, shares))
        calibration = Calibration.fitted(rule.adjusted(cosines), classes)
        return rule if calibration is None else replace(rule, temperature=calibration.temperature)

    def scores(self, features: Rows) -> Tensor:
        """The score of each row for each class, `[rows, k]`, in float64; the largest wins.

        Cosines are 0 where the row or the centre is zero (not longer than 1e-12), -inf where the centre is NaN, and NaN
        where the row is not finite.

        Raises:
            ValueError: For features of another shape.
        """
        rows = feature_tensor(features)
        centres, absent = (part.to(rows.device) for part in self._directions)
        if rows.ndim != 2 or rows.shape[1] != centres.shape[1]:
            shape = f"[rows, {centres.shape[1]}], with as many columns as the centres"
            raise ValueError(f"features must have shape {shape}, not {list(rows.shape)}")
        return self.adjusted((prepared(rows).double() @ centres.T).masked_fill(absent, -torch.inf))

    @cached_property
    def _directions(self) -> tuple[Tensor, Tensor]:
        """Centres as unit rows, in float64, and which of them are never predicted."""
        centres = feature_tensor(self.centres, "centres").double()
        return unit_rows(centres)[0], centres.isnan().any(1)

    def adjusted(self, cosines: Tensor) -> Tensor:
        """The scores of cosines `[rows, k]`; the cosines as they are if `adjust` is 0."""
        if self.shares is None or not self.adjust:
            return cosines
        return cosines - self.adjust * log_ratios(self.shares, self._present()).to(cosines)

    def predict(self, features: Rows) -> Tensor:
        """The class with the largest score of each row, `[rows]`; the first one of several that are equal."""
        return self.scores(features).argmax(1)

    def confidences(self, features: Rows) -> Tensor:
        """softmax(scores / temperature), `[rows, k]`.

        Raises:
            ValueError: If there is no temperature.
        """
        if self.temperature is None:
            raise ValueError("confidences need a temperature: give one, or fit it with NearestCentre.fitted")
        return (self.scores(features) / self.temperature).softmax(1)

    def _present(self) -> Tensor:
        """Classes that can be predicted, `[k]`."""
        return ~feature_tensor(self.centres, "centres").isnan().any(1)


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
    rows, confidence, accuracy = reliability(confidences, labels)
    return float((rows * (confidence - accuracy).abs()).nansum() / max(1, len(labels)))


def reliability(confidences: Tensor, labels: Tensor) -> Tensor:
    """How often predictions are right, by their confidence, in 15 bins of equal width.

    Returns:
        `[3, 15]`: the number of rows in each bin, their mean confidence, and the fraction that is right; the latter two
        are NaN in an empty bin.

    Examples:
        >>> confidences = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]])
        >>> reliability(confidences, torch.tensor([0, 1, 1]))[:, -3:]
        tensor([[1.0000, 2.0000, 0.0000],
                [0.8000, 0.9000,    nan],
                [1.0000, 0.5000,    nan]], dtype=torch.float64)
    """
    highest, predicted = confidences.double().max(1)
    bins = (highest * _BINS).ceil().clamp(1, _BINS).long() - 1
    values = torch.stack([torch.ones_like(highest), highest, (predicted == labels).double()])
    sums = values.new_zeros(3, _BINS).index_add_(1, bins, values)
    return torch.cat([sums[:1], sums[1:] / sums[0]])


@dataclass(frozen=True)
class LinearClassifier:
    """The last layer of a network: the largest entry of `weights @ row + bias` wins."""

    weights: Tensor  # [k, d], float64
    bias: Tensor  # [k]

    @classmethod
    def of(cls, weights: Rows, bias: Any, num_classes: int, dim: int) -> "LinearClassifier":
        """Check what a user gave; a ValueError for other shapes, or values that are not finite."""
        matrix = feature_tensor(weights, "classifier").detach().double()
        if matrix.shape != (num_classes, dim):
            must = f"classifier must have shape [{num_classes}, {dim}], one row per class in the order of their names"
            raise ValueError(f"{must}, not {list(matrix.shape)}; if some classes have no rows, say num_classes")
        offsets = matrix.new_zeros(num_classes) if bias is None else feature_tensor(bias, "bias").detach().double()
        if offsets.shape != (num_classes,):
            raise ValueError(f"bias must have shape [{num_classes}], one number per class, not {list(offsets.shape)}")
        if not (matrix.isfinite().all() and offsets.isfinite().all()):
            raise ValueError("every weight and bias of the classifier must be finite")
        return cls(matrix, offsets)

    def scores(self, rows: Tensor) -> Tensor:
        """The score of each row for each class, `[rows, k]`, in float64; the largest wins."""
        weights, bias = self.weights.to(rows.device), self.bias.to(rows.device)
        return torch.addmm(bias, rows.detach().double(), weights.T)

    def predict(self, rows: Tensor) -> Tensor:
        """The class of each row, `[rows]`."""
        return self.scores(rows).argmax(1)
