"""One batch as the kernels see it: which loss, unit rows, numbered classes, and the positives of each anchor."""

from typing import NamedTuple

import torch
from torch import Tensor

from orthoframe._rows import unit_rows


class LossSpec(NamedTuple):
    """Which loss is computed, and for which rows a gradient is needed."""

    temperature: float | None  # None: a tensor beside it has one for all anchors, or one for each
    denominator: str
    margin: float = 0.0
    compare: str = "all"
    normalize: bool = True  # divide each row by its norm first
    key_gradient: bool = False  # the rows that are not anchors need a gradient


class Batch(NamedTuple):
    """Anchors, then keys. The columns are the rows that anchors are compared with: all of them, or the keys."""

    rows: Tensor  # [rows, dim], unit if the spec normalizes
    inverse_norms: Tensor | None  # [rows, 1], if the spec normalizes
    classes: Tensor  # [rows], numbered
    counts: Tensor  # columns of each class, as floats
    positives: Tensor  # [anchors], how many, at least 1
    positive_sums: Tensor  # [anchors, dim]
    missing: Tensor  # [anchors], whether the anchor has no term
    weights: Tensor | None  # [rows], with which a column enters the denominators; None: 1 for each
    first_column: int

    @classmethod
    def of(cls, rows: Tensor, labels: Tensor, class_weights: Tensor | None, anchors: int, spec: LossSpec) -> "Batch":
        """Number the classes of any integer labels, and sum up their rows."""
        rows, inverse_norms = unit_rows(rows) if spec.normalize else (rows, None)
        classes, num_classes = _numbered(labels)
        own, start = first(classes, anchors), 0 if spec.compare == "all" else anchors
        columns, column_classes = (rows, classes) if start == 0 else (rows[start:], classes[start:])
        ones = rows.new_ones(columns.shape[0])
        counts = rows.new_zeros(num_classes).index_add_(0, column_classes, ones)
        sizes = counts.index_select(0, own)
        positives = sizes - 1 if start == 0 else sizes
        missing = positives < 1
        if spec.denominator == "negatives":  # without a negative the denominator is empty
            missing |= sizes == columns.shape[0]
        positive_sums = class_sums(columns, column_classes, num_classes).index_select(0, own)
        if start == 0:
            positive_sums.sub_(first(rows, anchors))
        weights = None if class_weights is None else class_weights.to(rows.dtype).index_select(0, labels)
        if spec.denominator == "class-average":
            shares = counts.clamp(min=1).reciprocal_().index_select(0, classes)
            weights = shares if weights is None else weights * shares
        positives = positives.clamp_(min=1)
        return cls(rows, inverse_norms, classes, counts, positives, positive_sums, missing, weights, start)

    @property
    def num_anchors(self) -> int:
        """The anchors are the first rows."""
        return self.missing.shape[0]

    def own_factors(self, spec: LossSpec) -> Tensor | None:
        """`[k]`, what the exponentials of an anchor's own class are multiplied by; None if it is 1.

        That of the margin is not in it, because it depends on the temperature.
        """
        if spec.denominator in ("negatives", "sincere"):
            return torch.zeros_like(self.counts)
        if spec.denominator == "class-average" and self.first_column == 0:
            return self.counts / (self.counts - 1).clamp(min=1)  # the own class is averaged without the anchor
        return None


def first(rows: Tensor, count: int) -> Tensor:
    """The first rows; without a view where that is all of them, which small batches would feel."""
    return rows if rows.shape[0] == count else rows[:count]


def class_sums(rows: Tensor, classes: Tensor, num_classes: int) -> Tensor:
    """Sum of the rows of each class, `[k, dim]`; in float64, because equal rows have equal rounding errors."""
    sums = rows.new_zeros(num_classes, rows.shape[1], dtype=torch.float64)
    return sums.index_add_(0, classes, rows.double()).to(rows.dtype)


def _numbered(labels: Tensor) -> tuple[Tensor, int]:
    """The number of each label's class, and a number that is larger than all of these."""
    if labels.device.type == "cpu":
        names, classes = torch.unique(labels, return_inverse=True)
        return classes, names.shape[0]
    # How many classes there are is known to the device alone, and to ask would mean to wait for it: so tables have
    # room for as many classes as rows.
    ordered, order = labels.sort(stable=True)
    numbers = (ordered[1:] != ordered[:-1]).cumsum(0)
    numbers = torch.cat([numbers.new_zeros(min(1, labels.shape[0])), numbers])
    return torch.empty_like(numbers).scatter_(0, order, numbers), labels.shape[0]
