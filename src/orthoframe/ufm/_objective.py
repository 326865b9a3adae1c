"""The loss of free features over a list of batches, and what is known about its lowest value."""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from orthoframe._rows import Labels
from orthoframe.batches import index_lists
from orthoframe.errors import OptionError
from orthoframe.losses import angle_bound, loss_floor, supcon_loss
from orthoframe.options import Denominator, check_choice, check_temperature
from orthoframe.ufm._gram import gram_loss, predict_gram

# Rounding errors of the term of an anchor, in units of the last place of its largest part.
_ROUNDINGS = 4.0
# The largest cosine that counts as zero, because prototypes may come in float32.
_RIGHT_ANGLE = 1e-6


class Objective:
    """The sum of the losses of batches, as a function of the features of all samples; arguments as in `solve_ufm`."""

    def __init__(
        self, labels: Any, batches: Any, temperature: float, denominator: Denominator, prototypes: Tensor | None
    ) -> None:
        check_choice("denominator", denominator, Denominator)
        temperature = check_temperature(temperature)
        found = Labels.of(labels)
        self.num_samples, self.num_classes = len(found.classes), len(found.names)
        if not self.num_samples:
            raise ValueError("labels are empty")
        self.temperature, self.denominator = temperature, denominator
        self.prototypes = None if prototypes is None else _checked_prototypes(prototypes, self.num_classes)
        classes = torch.from_numpy(found.classes).long()
        self.labels = classes if prototypes is None else torch.cat([classes, torch.arange(self.num_classes)])
        fixed = torch.arange(self.num_samples, len(self.labels))
        lists: Iterable[Any] = [range(self.num_samples)] if batches is None else index_lists(batches, self.num_samples)
        views = getattr(batches, "views", 1)  # of a plan: coinciding rows of each sample
        self.batches = [torch.cat([torch.as_tensor(batch, dtype=torch.long).repeat(views), fixed]) for batch in lists]
        self._count_rows()
        if not self.anchors:
            raise OptionError(
                "no batch holds two rows of a class and anything to compare them with: the loss is 0 everywhere"
            )

    def _count_rows(self) -> None:
        """Count positives, negatives and anchors of each class in each batch, and find the floor."""
        found = [torch.zeros(3, 0, dtype=torch.long)]
        for batch in self.batches:
            counts = torch.bincount(self.labels[batch], minlength=self.num_classes)
            present, own = int((counts > 0).sum()), counts[counts > 1]
            if self.denominator != "negatives" or present > 1:
                others = len(batch) - own if self.denominator != "class-average" else torch.full_like(own, present - 1)
                found.append(torch.stack([own - 1, others, own]))
        self._positives, self._negatives, self._weights = torch.cat(found, 1)
        self.anchors = int(self._weights.sum())
        # An orthogonal frame is optimal in every batch, among non-negative rows.
        floors = (float(loss_floor(self.labels[batch], reduction="sum", **self._options())) for batch in self.batches)
        self.floor = math.fsum(floors) / max(self.anchors, 1)
        largest = max((1, *map(len, self.batches)))
        self.rounding = _ROUNDINGS * torch.finfo(torch.float64).eps * (1 / self.temperature + math.log(largest))

    def check_prototypes(self, dim: int, nonnegative: bool) -> None:
        """Refuse prototypes that do not fit the features."""
        if self.prototypes is None:
            return
        if self.prototypes.shape[1] != dim:
            raise ValueError(f"prototypes have {self.prototypes.shape[1]} dimensions and features {dim}")
        if nonnegative and bool((self.prototypes < 0).any()):
            raise ValueError("prototypes must not be negative, because features are not; or use nonnegative=False")
        products = self.prototypes @ self.prototypes.T
        if nonnegative and float(products.fill_diagonal_(0.0).max()) > _RIGHT_ANGLE:
            raise ValueError("prototypes must be orthogonal, or no features reach the floor; use torch.eye")

    def at_temperature(self, temperature: float) -> "Objective":
        """The same batches at another temperature."""
        other = copy(self)
        other.temperature = temperature
        other._count_rows()
        return other

    def __call__(self, features: Tensor) -> tuple[float, Tensor]:
        """The loss, as a mean over anchors, and its gradient `[samples, dim]`; features must be unit rows."""
        free = features.detach().requires_grad_()
        rows = free if self.prototypes is None else torch.cat([free, self.prototypes])
        total, options = torch.zeros((), dtype=torch.float64), self._options()
        for batch in self.batches:
            total = total + supcon_loss(rows[batch], self.labels[batch], reduction="sum", normalize=False, **options)
        (gradient,) = torch.autograd.grad(total / self.anchors, free)
        return float(total.detach()) / self.anchors, gradient

    def _options(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "denominator": self.denominator}

    def free_floor(self) -> float | None:
        """The lowest mean over anchors of any unit rows; only known for a single batch without prototypes."""
        if len(self.batches) > 1 or self.prototypes is not None:
            return None
        counts = torch.unique(self.labels[self.batches[0]], return_counts=True)[1]
        try:
            gram = predict_gram(counts, **self._options())
        except RuntimeError:  # too many different counts
            return None
        return gram_loss(gram, counts, **self._options()) / self.anchors

    def angle(self, gap: float) -> float:
        """Largest deviation from an orthogonal frame, over batches and their classes, that a gap allows."""
        # Every class is at or above its floor in every batch, so the gap of one is at most that of all together.
        gaps = (max(gap, 0.0) + self.rounding) * self.anchors / self._weights.double()
        return float(angle_bound(gaps, self._positives, self._negatives, **self._options()).max())


def _checked_prototypes(prototypes: Tensor | Sequence[Sequence[float]], num_classes: int) -> Tensor:
    rows = torch.as_tensor(prototypes, dtype=torch.float64, device="cpu").detach().clone()
    if rows.ndim != 2 or len(rows) != num_classes:
        raise ValueError(f"prototypes must have shape [{num_classes}, dim], one row per class, not {list(rows.shape)}")
    if not torch.allclose(torch.linalg.vector_norm(rows, dim=1), torch.ones(num_classes, dtype=torch.float64)):
        raise ValueError("prototypes must have unit norm; use torch.eye(classes, dim)")
    return torch.nn.functional.normalize(rows, dim=1)  # in float32 they are unit to seven digits only
