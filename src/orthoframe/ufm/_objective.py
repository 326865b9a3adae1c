"""The loss of free features over a list of batches, and what is known about its lowest value."""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from orthoframe._rows import Labels, Weights, all_but_own, per_class
from orthoframe.batches import index_lists
from orthoframe.errors import Option, OptionError
from orthoframe.losses import angle_bound, frame_floor, frame_loss, loss_floor, make_frame, supcon_loss
from orthoframe.options import TEMPERATURE, Denominator, check_margin, check_number, check_temperature
from orthoframe.ufm._gram import gram_loss, predict_gram

# Rounding errors of the term of an anchor, in units of the last place of its largest part.
_ROUNDINGS = 4.0
# The largest cosine that counts as zero, because prototypes may come in float32.
_RIGHT_ANGLE = 1e-6


@dataclass(frozen=True, kw_only=True)
class FreeLoss:
    """The loss that free features minimise: options of `solve_ufm`, which describes them."""

    temperature: float = TEMPERATURE
    denominator: Denominator = "all"
    margin: float = 0.0
    class_weights: Weights | None = None
    anchor_weights: Weights | None = None
    frame: bool = False
    supcon: float = 1.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_margin(self.margin, self.denominator)
        if check_number("supcon", self.supcon, least=0) == 0 and not self.frame:
            raise OptionError(Option("supcon", 0), " leaves nothing to minimise without ", Option("frame", True))

    @property
    def contrastive(self) -> dict[str, Any]:
        """Options of the contrastive loss."""
        names = ("temperature", "denominator", "margin", "class_weights", "anchor_weights")
        return {name: getattr(self, name) for name in names}


class FreeObjective:
    """The loss summed over batches, as a function of the features of all samples; arguments as in `solve_ufm`.

    It is a mean: over anchors, with their weights, or over rows if there is a frame term.
    """

    def __init__(self, labels: Any, batches: Any, prototypes: Tensor | None, terms: FreeLoss) -> None:
        numbered = Labels.of(labels)
        self.num_samples, self.num_classes = len(numbered.classes), len(numbered.names)
        if not self.num_samples:
            raise ValueError("labels are empty")
        k = self.num_classes
        on_classes, on_anchors = terms.class_weights, terms.anchor_weights
        self.terms = replace(
            terms,
            class_weights=None if on_classes is None else per_class(on_classes, k, "class_weights"),
            anchor_weights=None if on_anchors is None else per_class(on_anchors, k, "anchor_weights"),
        )
        self.prototypes = None if prototypes is None else _checked_prototypes(prototypes, k)
        classes = torch.from_numpy(numbered.classes).long()
        self.labels = classes if prototypes is None else torch.cat([classes, torch.arange(k)])
        fixed = torch.arange(self.num_samples, len(self.labels))
        lists: Iterable[Any] = [range(self.num_samples)] if batches is None else index_lists(batches, self.num_samples)
        views = getattr(batches, "views", 1)  # of a plan: coinciding rows of each sample
        self.batches = [torch.cat([torch.as_tensor(batch, dtype=torch.long).repeat(views), fixed]) for batch in lists]
        rows = torch.cat([torch.zeros(0, dtype=torch.long), *self.batches])
        self.rows = torch.bincount(rows[rows < self.num_samples], minlength=self.num_samples).double()  # of each sample
        shares = torch.bincount(classes, weights=self.rows, minlength=k)
        self.shares = shares.clamp(min=1.0)  # of classes that are in no batch, and so have no row in the sum
        self._count_rows()
        if self.divisor == 0:
            raise OptionError(
                "no batch holds a row: the loss is 0 everywhere"
                if terms.frame
                else "no batch holds two rows of a class and anything to compare them with: the loss is 0 everywhere"
            )

    def _count_rows(self) -> None:
        """Count positives, negatives and anchors of each class in each batch, and find the floor."""
        terms, k = self.terms, self.num_classes
        class_weights = per_class(terms.class_weights, k, "class_weights")
        anchor_weights = per_class(terms.anchor_weights, k, "anchor_weights")
        anchors = [torch.zeros(4, 0, dtype=torch.float64)]
        for batch in self.batches:
            counts = torch.bincount(self.labels[batch], minlength=k)
            mass = class_weights * (counts.clamp(max=1) if terms.denominator == "class-average" else counts)
            others, has_anchors = all_but_own(mass), counts > 1
            if terms.denominator != "negatives" or int((counts > 0).sum()) > 1:
                columns = torch.stack([counts - 1.0, others, class_weights, anchor_weights * counts])
                anchors.append(columns[:, has_anchors])
        self._positives, self._negatives, self._own_weights, self._weights = torch.cat(anchors, 1)
        # An orthogonal frame is optimal in every batch, among non-negative rows.
        parts = [
            terms.supcon * float(loss_floor(self.labels[batch], reduction="sum", **terms.contrastive))
            for batch in self.batches
            if terms.supcon
        ]
        self.divisor = float(self._weights.sum())
        if terms.frame:
            self.divisor = float(self.rows.sum())
            floors = frame_floor(self.labels[: self.num_samples], k, reduction="none", **self._frame_options())
            parts.append(float(torch.dot(self.rows, floors)))
        self.floor = math.fsum(parts) / max(self.divisor, 1e-300)
        largest = max((1, *map(len, self.batches)))
        scale = (1 + abs(terms.margin)) / terms.temperature + math.log(largest) + float(class_weights.log().abs().max())
        self.rounding = _ROUNDINGS * torch.finfo(torch.float64).eps * scale * (terms.supcon + terms.frame)

    def check_prototypes(self, dim: int, nonnegative: bool) -> None:
        """Refuse prototypes, and a frame, that do not fit the features."""
        if self.prototypes is None:
            if self.terms.frame:
                make_frame(self.num_classes, dim)
            return
        if self.prototypes.shape[1] != dim:
            raise ValueError(f"prototypes have {self.prototypes.shape[1]} dimensions and features {dim}")
        if nonnegative and bool((self.prototypes < 0).any()):
            raise ValueError("prototypes must not be negative, because features are not; or use nonnegative=False")
        products = self.prototypes @ self.prototypes.T
        if nonnegative and float(products.fill_diagonal_(0.0).max()) > _RIGHT_ANGLE:
            raise ValueError("prototypes must be orthogonal, or no features reach the floor; use torch.eye")

    def at_temperature(self, temperature: float) -> "FreeObjective":
        """The same batches at another temperature."""
        other = copy(self)
        other.terms = replace(self.terms, temperature=temperature)
        other._count_rows()
        return other

    def __call__(self, features: Tensor) -> tuple[float, Tensor]:
        """The loss, as a mean, and its gradient `[samples, dim]`; features must be unit rows."""
        free = features.detach().requires_grad_()
        rows = free if self.prototypes is None else torch.cat([free, self.prototypes])
        total, options = torch.zeros((), dtype=torch.float64), self.terms.contrastive
        for batch in self.batches if self.terms.supcon else []:
            loss = supcon_loss(rows[batch], self.labels[batch], reduction="sum", normalize=False, **options)
            total = total + self.terms.supcon * loss
        if self.terms.frame:
            targets = make_frame(self.num_classes, rows.shape[1], dtype=torch.float64)
            targets = targets if self.prototypes is None else self.prototypes
            terms = frame_loss(
                free, self.labels[: self.num_samples], targets, reduction="none", **self._frame_options()
            )
            total = total + torch.dot(self.rows, terms)
        (gradient,) = torch.autograd.grad(total / self.divisor, free)
        return float(total.detach()) / self.divisor, gradient

    def _frame_options(self) -> dict[str, Any]:
        return {"temperature": self.terms.temperature, "shares": self.shares, "margin": self.terms.margin}

    def free_floor(self) -> float | None:
        """The lowest mean of any unit rows; only known for a single batch, without prototypes and frame term."""
        if len(self.batches) > 1 or self.prototypes is not None or self.terms.frame:
            return None
        present, counts = torch.unique(self.labels[self.batches[0]], return_counts=True)
        options = self.terms.contrastive
        weights = {name: options[name] for name in ("class_weights", "anchor_weights") if options[name] is not None}
        options |= {name: values[present] for name, values in weights.items()}
        try:
            gram = predict_gram(counts, **options)
        except RuntimeError:  # too many different counts
            return None
        return self.terms.supcon * gram_loss(gram, counts, **options) / self.divisor

    def angle(self, gap: float) -> float:
        """Largest deviation from an orthogonal frame that a gap allows: of any class in a batch, or of any row."""
        # Every class is at or above its floor in every batch, so the gap of one is at most that of all together.
        whole, terms = (max(gap, 0.0) + self.rounding) * self.divisor, self.terms
        options: dict[str, Any] = {"temperature": terms.temperature, "margin": terms.margin}
        if terms.frame:  # and so is every row
            part = self.shares / self.shares.sum()
            gaps = (whole / self.rows)[self.rows > 0]
            share = part[self.labels[: self.num_samples]][self.rows > 0]
            return float(angle_bound(gaps, 1, 1 - share, own_weight=share, **options).max())
        gaps, options = whole / (terms.supcon * self._weights), {**options, "denominator": terms.denominator}
        bounds = angle_bound(gaps, self._positives, self._negatives, own_weight=self._own_weights, **options)
        return float(bounds.max())


def _checked_prototypes(prototypes: Tensor | Sequence[Sequence[float]], num_classes: int) -> Tensor:
    rows = torch.as_tensor(prototypes, dtype=torch.float64, device="cpu").detach().clone()
    if rows.ndim != 2 or len(rows) != num_classes:
        raise ValueError(f"prototypes must have shape [{num_classes}, dim], one row per class, not {list(rows.shape)}")
    if not torch.allclose(torch.linalg.vector_norm(rows, dim=1), torch.ones(num_classes, dtype=torch.float64)):
        raise ValueError("prototypes must have unit norm; use torch.eye(classes, dim)")
    return torch.nn.functional.normalize(rows, dim=1)  # in float32 they are unit to seven digits only
