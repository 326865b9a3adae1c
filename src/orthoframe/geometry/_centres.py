"""Classification by the nearest class centre, and its accuracy: the one definition of both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Weights, feature_tensor, label_tensor, unit_rows
from orthoframe.geometry._adjustment import fit_adjustment, log_ratios
from orthoframe.geometry._calibration import Calibration
from orthoframe.geometry._statistics import Rows, prepared
from orthoframe.options import check_number


@dataclass(frozen=True)
class NearestCentre:
    r"""A classifier that knows only the centre of each class, and compares by angle.

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
        adjust: lambda; 0 takes no notice of the shares.
        temperature: That of `confidences`; None if it is not known.

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

        First lambda, by a cross-entropy in which all classes count the same (`fit_adjustment`); then, with it, the
        temperature of confidences, by that of the rows as they come (`Calibration`).

        Args:
            centres: `[k, d]`, as above.
            shares: `[k]`, as above.
            features: `[rows, d]`, held out; without rows lambda is 0 and the temperature None.
            labels: `[rows]`, from 0 to k - 1.

        Raises:
            ValueError: For features or labels of another shape, features that are not finite, and labels of no class.

        Examples:
            >>> held_out = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.5, 0.6], [0.6, 0.5]])
            >>> found = NearestCentre.fitted(torch.eye(2), [100, 10], held_out, [0, 0, 1, 1])
            >>> found.predict(held_out), found.adjust > 0
            (tensor([0, 0, 1, 1]), True)
        """
        cosines = cls(centres).scores(features)
        classes = label_tensor(labels, cosines.device)
        if classes.shape != cosines.shape[:1]:
            raise ValueError(f"labels must have shape [{len(cosines)}], one per row, not {list(classes.shape)}")
        if len(wrong := classes[(classes < 0) | (classes >= cosines.shape[1])]):
            raise ValueError(f"labels must be from 0 to {cosines.shape[1] - 1}, one per centre, not {int(wrong[0])}")
        if len(unknown := cosines.isnan().any(1).nonzero()[:, 0]):
            raise ValueError(f"features must be finite, and row {int(unknown[0])} is not; leave such rows out")
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
        centres = feature_tensor(self.centres, "centres").to(rows.device, torch.float64)
        if rows.ndim != 2 or rows.shape[1] != centres.shape[1]:
            wanted = f"[rows, {centres.shape[1]}], with as many columns as the centres"
            raise ValueError(f"features must have shape {wanted}, not {list(rows.shape)}")
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
        return ~feature_tensor(self.centres, "centres").isnan().any(1)


@dataclass(frozen=True)
class Accuracy:
    """How well rows are classified, over the classes that have rows.

    Attributes:
        overall: The fraction of rows that are classified correctly.
        balanced: The mean over classes of that fraction.
        worst: That of the worst class.
        worst_class: Its name.
        majority: The mean over the larger half of the classes.
        minority: The mean over the smaller half.
        by_class: That of each class, in the order of the class names; None for a class without rows.
        margin: The cosine to the own centre less the largest cosine to another one, a mean over classes: 1 at a frame.
            None where it is not known.
        minority_margin: The same over the smaller half.
    """

    overall: float
    balanced: float
    worst: float
    worst_class: int | str
    majority: float
    minority: float
    by_class: tuple[float | None, ...]
    margin: float | None = None
    minority_margin: float | None = None

    def over(self) -> str:
        """Over how many classes means are taken, as words to put behind them; empty if all of them have rows."""
        present = sum(rate is not None for rate in self.by_class)
        return "" if present == len(self.by_class) else f" (over {present} of {len(self.by_class)} classes)"


def accuracy_of(
    scores: Tensor | NDArray[Any],
    labels: Tensor | NDArray[Any] | Sequence[int],
    names: Sequence[int | str],
    class_counts: Tensor | NDArray[Any] | Sequence[int] | None = None,
) -> Accuracy:
    """Compare scores, or the classes that were predicted, with the labels.

    Args:
        scores: `[rows, k]`, the largest wins; or predicted classes `[rows]`, of which no margin is known.
        labels: `[rows]`, the numbers of the true classes.
        names: `[k]`, names of the classes.
        class_counts: `[k]`, sizes that make a class belong to the majority or the minority, such as the number of its
            training rows; by default the rows that are classified.

    Raises:
        ValueError: Without rows.

    Examples:
        >>> scores = torch.tensor([[0.9, 0.1], [0.6, 0.3]])
        >>> found = accuracy_of(scores, torch.tensor([0, 1]), ["cat", "dog"])
        >>> found.overall, found.worst_class, found.by_class
        (0.5, 'dog', (1.0, 0.0))
    """
    return accuracy_from(class_sums(scores, labels, len(names)), names, class_counts)


def class_sums(
    given: Tensor | NDArray[Any],
    given_labels: Tensor | NDArray[Any] | Sequence[int],
    num_classes: int,
    weights: Tensor | None = None,
) -> Tensor:
    """Rows, hits and sums of margins of each class, `[3, k]`; those of several parts can be added."""
    scores = torch.as_tensor(given)
    labels = label_tensor(given_labels, scores.device)
    if scores.ndim == 1:
        predicted, margins = scores, torch.full(scores.shape, torch.nan, dtype=torch.float64, device=scores.device)
    else:
        predicted = scores.argmax(1)
        own = scores.gather(1, labels[:, None])
        margins = (own[:, 0] - scores.scatter(1, labels[:, None], -torch.inf).amax(1)).double()
    values = torch.stack([torch.ones_like(margins), (predicted == labels).double(), margins])
    values = values if weights is None else values * weights
    return values.new_zeros(3, num_classes).index_add_(1, labels, values)


def accuracy_from(sums: Tensor, names: Sequence[int | str], class_counts: Any = None) -> Accuracy:
    """`accuracy_of`, from its `class_sums`."""
    rows, hits, margins = sums.cpu()
    sizes = rows if class_counts is None else torch.as_tensor(class_counts).cpu()
    present = (rows > 0).nonzero()[:, 0]
    if not len(present):
        raise ValueError("there are no rows to classify")
    rates, margins = (hits / rows)[present], (margins / rows)[present]
    order = torch.argsort(sizes[present], descending=True, stable=True)
    half = (len(order) + 1) // 2
    larger, smaller = order[:half], order[len(order) - half :]
    worst = int(rates.argmin())
    rate_of = dict(zip(present.tolist(), rates.tolist(), strict=True))
    return Accuracy(
        overall=float(hits.sum() / rows.sum()),
        balanced=float(rates.mean()),
        worst=float(rates[worst]),
        worst_class=names[int(present[worst])],
        majority=float(rates[larger].mean()),
        minority=float(rates[smaller].mean()),
        by_class=tuple(rate_of.get(c) for c in range(len(names))),
        margin=_mean_of_known(margins),
        minority_margin=_mean_of_known(margins[smaller]),
    )


def _mean_of_known(margins: Tensor) -> float | None:
    """A class that has no centre, or no other beside it, has no finite margin."""
    known = margins[margins.isfinite()]
    return float(known.mean()) if len(known) else None
