"""How well rows are classified, and which classes are taken for which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Counts, RowLabels, label_tensor

_MOST_CONFUSIONS = 1000  # that are kept: all of them up to 32 classes


@dataclass(frozen=True)
class Accuracy:
    """How well rows are classified, over the classes that have rows.

    Attributes:
        overall: The fraction of rows that are classified correctly.
        balanced: The mean accuracy of the classes.
        worst: The accuracy of the worst class.
        worst_class: Its name.
        majority: The mean accuracy of the larger half of the classes.
        minority: The mean accuracy of the smaller half.
        by_class: The accuracy of each class, in the order of the class names; None for a class without rows.
        margin: The cosine to the centre of the class less the largest cosine to another centre, a mean over classes: 1
            at a frame. None if it is not known.
        minority_margin: The mean margin of the smaller half of the classes.
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
        """Words to put behind a mean over classes: how many have rows; empty if all of them have."""
        present = sum(rate is not None for rate in self.by_class)
        return "" if present == len(self.by_class) else f" (over {present} of {len(self.by_class)} classes)"


def accuracy_of(
    scores: Tensor | NDArray[Any],
    labels: RowLabels,
    names: Sequence[int | str],
    class_counts: Counts | None = None,
) -> Accuracy:
    """Compare scores, or the classes that were predicted, with the labels.

    Args:
        scores: `[rows, k]`, the largest wins; or predicted classes `[rows]`, which have no margin.
        labels: `[rows]`, the numbers of the true classes.
        names: `[k]`, names of the classes.
        class_counts: `[k]`, sizes that make a class belong to the majority or the minority, such as the number of its
            training rows; by default the rows that are classified.

    Raises:
        ValueError: Without rows.

    Examples:
        >>> scores = torch.tensor([[0.9, 0.1], [0.6, 0.3]])
        >>> accuracy = accuracy_of(scores, torch.tensor([0, 1]), ["cat", "dog"])
        >>> accuracy.overall, accuracy.worst_class, accuracy.by_class
        (0.5, 'dog', (1.0, 0.0))
    """
    return accuracy_from(class_sums(scores, labels, len(names)), names, class_counts)


def class_sums(
    scores_or_classes: Tensor | NDArray[Any],
    true_classes: RowLabels,
    num_classes: int,
    weights: Tensor | None = None,
) -> Tensor:
    """Rows, hits and sums of margins of each class, `[3, k]`; those of several parts can be added."""
    scores = torch.as_tensor(scores_or_classes)
    labels = label_tensor(true_classes, scores.device)
    if scores.ndim == 1:
        predicted, margins = scores, torch.full(scores.shape, torch.nan, dtype=torch.float64, device=scores.device)
    else:
        predicted = scores.argmax(1)
        true = scores.gather(1, labels[:, None])
        margins = (true[:, 0] - scores.scatter(1, labels[:, None], -torch.inf).amax(1)).double()
    values = torch.stack([torch.ones_like(margins), (predicted == labels).double(), margins])
    values = values if weights is None else values * weights
    return values.new_zeros(3, num_classes).index_add_(1, labels, values)


def accuracy_from(sums: Tensor, names: Sequence[int | str], class_counts: Counts | None = None) -> Accuracy:
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
        margin=_finite_mean(margins),
        minority_margin=_finite_mean(margins[smaller]),
    )


def _finite_mean(margins: Tensor) -> float | None:
    """A class that has no centre, or no other beside it, has no finite margin."""
    finite = margins[margins.isfinite()]
    return float(finite.mean()) if len(finite) else None


@dataclass(frozen=True)
class ClassRates:
    """Recall, precision and F1 of each class, `[k]`; None for a class without rows.

    Attributes:
        recall: The fraction of the rows of a class that is predicted as this class.
        precision: The fraction of the rows that are predicted as a class that is of it; 0 if there are none.
        f1: Their harmonic mean.
    """

    recall: tuple[float | None, ...]
    precision: tuple[float | None, ...]
    f1: tuple[float | None, ...]

    @classmethod
    def of(cls, predicted: Tensor, labels: Tensor, num_classes: int, *, balanced: bool = False) -> "ClassRates":
        """Count the rows that are right.

        Args:
            predicted: `[rows]`; `num_classes` stands for none of the classes.
            labels: `[rows]`, from 0 to `num_classes` - 1.
            num_classes: Number of classes.
            balanced: Whether the rows of every class together count the same. Precision does not depend on how many
                rows of each class there are then; recall never does.

        Examples:
            >>> rates = ClassRates.of(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 1]), 2)
            >>> rates.precision, rates.means()["f1"]
            ((1.0, 0.5), 0.7333333333333334)
        """
        weights = torch.ones(len(labels), dtype=torch.float64)
        if balanced:
            weights /= torch.bincount(labels)[labels]
        right = predicted == labels
        parts = ((labels, weights), (predicted, weights), (labels[right], weights[right]))
        rows, taken, hits = (torch.bincount(part, each, num_classes + 1)[:-1] for part, each in parts)
        rates = hits / rows, hits / taken.where(taken > 0, 1), 2 * hits / (rows + taken)
        present = (rows > 0).tolist()
        return cls(*(tuple(x if p else None for x, p in zip(each.tolist(), present, strict=True)) for each in rates))

    def means(self) -> dict[str, float]:
        """Means over the classes that have rows, by name: the macro averages."""
        return {name: float(np.mean([x for x in rates if x is not None])) for name, rates in vars(self).items()}


@dataclass(frozen=True)
class Confusion:
    """Rows by their class and the class that was predicted.

    Attributes:
        names: `[k]`, names of the classes.
        rows: `[k]`, rows of each class.
        wrong: Rows that were taken for another class.
        cells: True class, predicted class and number of rows; most first, at most 1000 of them.
    """

    names: tuple[int | str, ...]
    rows: tuple[int, ...]
    wrong: int
    cells: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, scores: Tensor | NDArray[Any], labels: RowLabels, names: Sequence[int | str]) -> "Confusion":
        """Count the rows of each pair of true and predicted class.

        Args:
            scores: `[rows, k]`, the largest wins; or predicted classes `[rows]`.
            labels: `[rows]`, the numbers of the true classes.
            names: `[k]`, names of the classes.

        Examples:
            >>> confusion = Confusion.of(torch.tensor([0, 1, 1, 1, 0]), [0, 1, 0, 0, 1], ["cat", "dog"])
            >>> confusion.sentences()
            ['cat as dog: 2 of 3', 'dog as cat: 1 of 2']
        """
        values, k = torch.as_tensor(scores).cpu(), len(names)
        predicted = values if values.ndim == 1 else values.argmax(1)
        true = label_tensor(labels, values.device)
        pairs, counts = np.unique((true * k + predicted)[predicted != true].numpy(), return_counts=True)
        most = np.argsort(-counts, kind="stable")[:_MOST_CONFUSIONS]
        cells = tuple(
            (pair // k, pair % k, n) for pair, n in zip(pairs[most].tolist(), counts[most].tolist(), strict=True)
        )
        rows = tuple(torch.bincount(true, minlength=k).tolist())
        return cls(names=tuple(names), rows=rows, wrong=int(counts.sum()), cells=cells)

    def sentences(self, most: int | None = None) -> list[str]:
        """The largest confusions, such as `shirt as t-shirt/top: 12 of 100`."""
        return [f"{self.names[a]} as {self.names[b]}: {n:,} of {self.rows[a]:,}" for a, b, n in self.cells[:most]]
