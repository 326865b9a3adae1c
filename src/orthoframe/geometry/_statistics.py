"""Counts, means and spread of every class in one pass over the features, and how collapsed they are."""

import math
from typing import Any

import torch
from torch import Tensor

from orthoframe._rows import SMALLEST_NORM, RowLabels, Rows, feature_tensor, label_tensor, unit_rows

# Values of rows that are processed together: few enough that their float64 copies stay in the cache.
CHUNK = 2**19
# Squared distances below this part of the squared lengths are not computed from products, which would lose digits.
_NEAR = 1e-4
_PAIRS = 2**16  # of classes that nearly coincide, which are compared together
_PRODUCTS = 2**22  # of class means that are computed together


class ClassStatistics:
    """Moments of the features of each class, from any number of updates and merges in any order.

    Everything is kept in float64, and spread is measured around the means of the rows at hand and then merged (Chan's
    formula), never as a difference of large sums: features that have collapsed to 1e-9 of their length still have a
    correct spread.

    Args:
        num_classes: k; labels are 0..k-1.
        dim: d.
        scatter: Whether to keep the d x d within-class scatter. Without it only the spread of each class is known, and
            memory is O(k d), which suits wide features.

    Attributes:
        counts: `[k]`, rows of each class, or the sum of their weights.
        means: `[k, d]`, zero for a class without rows.
        spreads: `[k]`, sum of squared distances of the rows of a class to its mean.
        within: `[d, d]`, sum over all rows of (h - mean)(h - mean)'; None without `scatter`.
        dead_rows: Rows that count as zero, because they are not longer than 1e-12.

    Examples:
        >>> statistics = ClassStatistics(num_classes=2, dim=2)
        >>> features = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> statistics.update(features, torch.tensor([0, 0, 1]))
        >>> statistics.means, statistics.spreads
        (tensor([[2., 0.],
                [0., 1.]], dtype=torch.float64), tensor([2., 0.], dtype=torch.float64))
    """

    def __init__(self, num_classes: int, dim: int, scatter: bool = True) -> None:
        if num_classes < 1 or dim < 1:
            raise ValueError(f"num_classes and dim must be at least 1, not {num_classes} and {dim}")
        self.num_classes, self.dim, self.scatter = num_classes, dim, scatter
        self.counts = torch.zeros(num_classes, dtype=torch.float64)
        self.means = torch.zeros(num_classes, dim, dtype=torch.float64)
        self.spreads = torch.zeros(num_classes, dtype=torch.float64)
        self.within = torch.zeros(dim, dim, dtype=torch.float64) if scatter else None
        self.dead_rows = 0

    def update(self, features: Rows, labels: RowLabels, weights: Tensor | None = None) -> None:
        """Add rows `[rows, dim]` of any floating dtype with their labels `[rows]`, from 0 to num_classes - 1.

        They may be tensors, arrays or lists. The first rows decide on which device the moments are. A row with a weight
        of 2 counts as two rows; `weights` are `[rows]`, positive and float64, and `counts` their sums.

        Raises:
            ValueError: For wrong shapes, labels out of range, or values that are not finite or whose squares overflow;
                nothing is added then.
        """
        rows, classes = self._checked(features, labels)
        step = max(CHUNK // self.dim, self.num_classes)  # so that adding a part costs no more than its rows
        added = self._moments(rows[:step], classes[:step], None if weights is None else weights[:step])
        for start in range(step, len(rows), step):
            part = slice(start, start + step)
            added.merge(self._moments(rows[part], classes[part], None if weights is None else weights[part]))
        # A value that is not finite makes the mean of its class not finite: no need to check each value.
        squares = torch.linalg.vector_norm(added.means, dim=1).square() + added.spreads
        if not bool(squares.isfinite().all()):
            too_large = ValueError("features are so large that their squares overflow; divide them by a constant first")
            raise not_finite(rows) or too_large
        if self.counts.any():
            self.merge(added)
        else:
            vars(self).update(vars(added))

    def merge(self, other: "ClassStatistics") -> None:
        """Add what another instance has seen; a `ValueError` unless it has the same classes, dimension and scatter."""
        if (other.num_classes, other.dim, other.scatter) != (self.num_classes, self.dim, self.scatter):
            raise ValueError("only statistics of the same classes, dimension and scatter can be merged")
        device = self.counts.device
        theirs = other.counts.to(device)
        total = self.counts + theirs
        share = theirs / _or_one(total)
        apart = other.means.to(device) - self.means
        weights = self.counts * share
        self.means += share[:, None] * apart
        self.spreads += other.spreads.to(device) + weights * apart.square().sum(1)
        if self.within is not None and other.within is not None:
            moved = weights > 0
            self.within += other.within.to(device)
            self.within.addmm_((weights[moved, None] * apart[moved]).T, apart[moved])
        self.counts = total
        self.dead_rows += other.dead_rows

    def _moments(self, features: Tensor, labels: Tensor, weights: Tensor | None) -> "ClassStatistics":
        """Statistics of these rows alone."""
        part = ClassStatistics(self.num_classes, self.dim, False)
        part.scatter = self.scatter
        rows = features.to(torch.float64, copy=True)
        part.counts = torch.bincount(labels, weights, minlength=self.num_classes).double()
        weighted = rows if weights is None else rows * weights[:, None]
        part.means = rows.new_zeros(self.num_classes, self.dim).index_add_(0, labels, weighted)
        part.means /= _or_one(part.counts)[:, None]
        part.dead_rows = int((torch.linalg.vector_norm(rows, dim=1) <= SMALLEST_NORM).sum())
        rows -= part.means.index_select(0, labels)
        if weights is not None:
            rows *= weights.sqrt()[:, None]
        squares = torch.linalg.vector_norm(rows, dim=1).square()
        part.spreads = squares.new_zeros(self.num_classes).index_add_(0, labels, squares)
        part.within = _squares(rows) if self.scatter else None
        return part

    def _checked(self, rows: Rows, labels: Any) -> tuple[Tensor, Tensor]:
        features = feature_tensor(rows)
        if features.ndim != 2 or features.shape[1] != self.dim:
            raise ValueError(f"features must have shape [rows, {self.dim}], not {list(features.shape)}")
        if not features.is_floating_point():
            raise TypeError(f"features must be floating point, not {features.dtype}")
        labels = label_tensor(labels, features.device)
        if labels.shape != features.shape[:1]:
            raise ValueError(f"labels must have shape [{len(features)}], not {list(labels.shape)}")
        check_range(labels, self.num_classes)
        return features.detach(), labels


def _or_one(counts: Tensor) -> Tensor:
    """Counts to divide by: 1 for a class without rows."""
    return counts.masked_fill(counts == 0, 1.0)


def check_range(labels: Tensor, num_classes: int) -> None:
    """Refuse labels that are not from 0 to num_classes - 1."""
    low, high = torch.aminmax(labels) if len(labels) else (0, 0)
    if low < 0 or high >= num_classes:
        wrong = int(low if low < 0 else high)
        raise ValueError(
            f"label {wrong} at position {int((labels == wrong).nonzero()[0, 0])}, and num_classes is {num_classes}: "
            f"labels go from 0 to {num_classes - 1}"
        )


def prepared(features: Tensor, normalize: bool = True) -> Tensor:
    """Rows as they are measured: in float32 or float64, and of unit norm if asked for; zero rows stay zero."""
    if not features.is_floating_point():
        raise TypeError(f"features must be floating point, not {features.dtype}")
    if features.dtype in (torch.float16, torch.bfloat16):
        features = features.float()
    return unit_rows(features)[0] if normalize else features


def not_finite(features: Tensor, start: int = 0) -> ValueError | None:
    """An error that names the first value that is not finite, if there is one; `start` is the number of row 0."""
    bad = (~features.isfinite()).nonzero()
    if not len(bad):
        return None
    row, column = bad[0].tolist()
    value = float(features[row, column])
    return ValueError(f"features[{start + row}, {column}] is {value}; every feature must be finite")


def add_rows(
    statistics: ClassStatistics,
    features: Tensor,
    labels: Any,
    normalize: bool,
    start: int = 0,
    weights: Tensor | None = None,
) -> None:
    """Add `prepared` rows; an error names the position in the whole, and the value before normalising."""
    try:
        statistics.update(prepared(features, normalize), labels, weights)
    except ValueError as error:
        raise not_finite(features, start) or error from None


def collapse_trace(means: Tensor, within: Tensor, rows: float) -> float:
    """tr(Sigma_W Sigma_B^+), k times beta_NC, from the sum `within` over all rows; NaN if all means coincide."""
    directions, scale = between_directions(means)
    return float(((within @ directions) * directions / scale).sum() / rows) if len(scale) else math.nan


def between_directions(means: Tensor) -> tuple[Tensor, Tensor]:
    """Directions `[d, r]` in which class means differ, and the variances `[r]` of means along them."""
    centred = means - means.mean(0)
    _, singular, right = torch.linalg.svd(centred, full_matrices=False)
    tolerance = singular.max() * max(centred.shape) * torch.finfo(torch.float64).eps if len(singular) else 0.0
    # Centred means span at most k - 1 dimensions.
    keep = (singular > tolerance) & (torch.arange(len(singular), device=means.device) < len(means) - 1)
    return right[keep].T, singular[keep].square() / len(means)


def class_distance_variance(means: Tensor, variances: Tensor) -> float:
    """Class-distance normalised variance, CDNV (Galanti et al.), a mean over pairs of classes.

        mean over a < b of (V_a + V_b) / (2 |mu_a - mu_b|^2)

    Args:
        means: `[k, d]`, mu.
        variances: `[k]`, V, the mean squared distance of the rows of a class to its mean.

    Returns:
        0 if each class is one point; infinite if two means coincide and their classes do not; NaN for one class.

    Examples:
        >>> class_distance_variance(torch.eye(3, dtype=torch.float64), torch.tensor([0.5, 0.5, 0.5]).double())
        0.25
    """
    if len(means) < 2:
        return math.nan
    k, centred = len(means), means - means.mean(0)
    lengths, columns = centred.square().sum(1), torch.arange(k, device=means.device)
    step, total = max(1, _PRODUCTS // k), 0.0
    for start in range(0, k, step):
        here = slice(start, start + step)
        both = lengths[here, None] + lengths
        apart = both - 2 * (centred[here] @ centred.T)
        later = columns > columns[here, None]
        rows, others = (later & (apart < _NEAR * both)).nonzero(as_tuple=True)
        for a, b in zip(torch.split(rows, _PAIRS), torch.split(others, _PAIRS), strict=True):
            apart[a, b] = (means[start + a] - means[b]).square().sum(1)
        total += float(((variances[here, None] + variances) / (2 * apart))[later].sum())
    return total / (k * (k - 1) / 2)


def _squares(rows: Tensor) -> Tensor:
    """The product rows' rows; only blocks on and above the diagonal are multiplied, because it is symmetric."""
    dim = rows.shape[1]
    step = max(64, -(-dim // 4))
    result = rows.new_empty(dim, dim)
    for start in range(0, dim, step):
        stop = min(start + step, dim)
        torch.mm(rows[:, start:stop].T, rows[:, start:], out=result[start:stop, start:])
        result[stop:, start:stop] = result[start:stop, stop:].T
    return result
