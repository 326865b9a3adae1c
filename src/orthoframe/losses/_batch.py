"""The rows of one loss: anchors first, then the keys that anchors are only compared with."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Rows with their classes, numbered 0..k-1."""

    rows: Tensor  # [rows, dim]; the first `anchors` are anchors
    classes: Tensor  # [rows]
    counts: Tensor  # [k], rows of each class
    anchors: int

    @classmethod
    def of(cls, rows: Tensor, labels: Tensor, anchors: int) -> "Batch":
        """Number the classes of any integer labels."""
        _, classes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
        return cls(rows, classes, counts, anchors)

    def of_anchors(self, of_rows: Tensor) -> Tensor:
        """The anchors' part of a tensor with an entry for each row."""
        return of_rows if of_rows.shape[0] == self.anchors else of_rows[: self.anchors]

    def class_sums(self, rows: Tensor, classes: Tensor) -> Tensor:
        """Sum of the given rows in each class, `[k, dim]`; added in float64, for equal rows add up their rounding."""
        sums = rows.new_zeros(self.counts.shape[0], rows.shape[1], dtype=torch.float64)
        return sums.index_add_(0, classes, rows.double()).to(rows.dtype)
