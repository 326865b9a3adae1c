"""Classifiers of features: the nearest class centre, and the last layer of a network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Weights, feature_tensor, label_tensor, unit_rows
from orthoframe.geometry._scores import Calibration, fit_adjustment, log_ratios
from orthoframe.geometry._statistics import Rows, prepared
from orthoframe.options import check_number


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
    def fitted(
        cls, centres: Rows, shares: Weights, features: Rows, labels: Tensor | NDArray[Any] | Sequence[int]
    ) -> "NearestCentre":
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
        return fit_scores(centres, shares, cosines, classes)[0]

    def scores(self, features: Rows) -> Tensor:
        """The score of each row for each class, `[rows, k]`, in float64; the largest wins.

        Cosines are 0 where the row or the centre is zero (not longer than 1e-12), -inf where the centre is NaN, and NaN
        where the row is not finite.

        Raises:
            ValueError: For features of another shape.
        """
        rows = feature_tensor(features)
        centres = feature_tensor(self.centres, "centres").to(rows.device, torch.float64)
        if rows.ndim != 2 or rows.shape[1] != centres.shape[1]:
            shape = f"[rows, {centres.shape[1]}], with as many columns as the centres"
            raise ValueError(f"features must have shape {shape}, not {list(rows.shape)}")
        cosines = prepared(rows).double() @ unit_rows(centres)[0].T
        return self.adjusted(cosines.masked_fill(centres.isnan().any(1), -torch.inf))

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


def fit_scores(
    centres: Rows, shares: Weights, cosines: Tensor, labels: Tensor
) -> tuple[NearestCentre, Calibration | None]:
    """`NearestCentre.fitted` for rows whose cosines to the centres are known, with the calibration of its scores.

    Args:
        centres: `[k, d]`, as in `NearestCentre`.
        shares: `[k]`, as in `NearestCentre`.
        cosines: `[rows, k]`, as `fit_adjustment` takes them.
        labels: `[rows]`, from 0 to k - 1.
    """
    rule = NearestCentre(centres, shares, fit_adjustment(cosines, labels, shares))
    calibration = Calibration.fitted(rule.adjusted(cosines), labels)
    return (rule if calibration is None else replace(rule, temperature=calibration.temperature)), calibration


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
