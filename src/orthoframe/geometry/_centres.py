"""Classification by the nearest class centre, and its accuracy: the one definition of both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import feature_tensor, label_tensor, unit_rows
from orthoframe.geometry._statistics import Rows, prepared


@dataclass(frozen=True)
class NearestCentre:
    """A classifier that knows only the centre of each class, and compares by angle.

    Args:
        centres: `[k, d]`, a tensor or an array, for example the class means; of any length. A row of NaN is a class
            that is never predicted.

    Examples:
        >>> classifier = NearestCentre(torch.eye(2))
        >>> classifier.predict(torch.tensor([[0.9, 0.1], [0.2, 0.7]]))
        tensor([0, 1])
    """

    centres: Rows

    def scores(self, features: Rows) -> Tensor:
        """Cosines of each row to each centre, `[rows, k]`, in float64; the largest wins.

        They are 0 where the row or the centre is zero (not longer than 1e-12), -inf where the centre is NaN, and NaN
        where the row is not finite.
        """
        rows = feature_tensor(features)
        centres = feature_tensor(self.centres, "centres").to(rows.device, torch.float64)
        cosines = prepared(rows).double() @ unit_rows(centres)[0].T
        return cosines.masked_fill(centres.isnan().any(1), -torch.inf)

    def predict(self, features: Rows) -> Tensor:
        """The class of the nearest centre of each row, `[rows]`; the first one of several that are equally near."""
        return self.scores(features).argmax(1)


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
        >>> found = accuracy_of(torch.tensor([[0.9, 0.1], [0.6, 0.3]]), torch.tensor([0, 1]), ["cat", "dog"])
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
