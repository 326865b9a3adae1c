"""The geometry as a torchmetrics metric."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

from orthoframe._rows import RowLabels, Rows, feature_tensor
from orthoframe.geometry._geometry import MEASURES, Geometry, geometry_of
from orthoframe.geometry._statistics import ClassStatistics, add_rows


class GeometryMetric(Metric):
    """Geometry of all features since the last reset, over all processes.

    `compute` returns numbers for a logger, `geometry` the whole `Geometry`; calling the metric returns the numbers of
    the batch. Moments are merged by Chan's formula rather than added up, because sums would lose the spread of
    collapsed features.

    Args:
        num_classes: k; labels are 0..k-1.
        dim: d.
        normalize: Whether to divide each row by its norm first, as the loss does.

    Examples:
        >>> metric = GeometryMetric(num_classes=2, dim=4)
        >>> metric.update(torch.eye(2, 4), torch.tensor([0, 1]))
        >>> float(metric.compute()["delta_of"])
        0.0
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False
    moments: Tensor

    def __init__(self, num_classes: int, dim: int, *, normalize: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.num_classes, self.dim, self.normalize = num_classes, dim, normalize
        # One vector, so that torchmetrics can reduce all moments together, and processes exchange one tensor.
        merge = partial(_merged, num_classes=num_classes, dim=dim)
        self.add_state("moments", _packed(ClassStatistics(num_classes, dim)), dist_reduce_fx=merge)

    def update(self, features: Rows, labels: RowLabels) -> None:
        """Add rows `[rows, dim]` with their labels `[rows]`: tensors, arrays or lists."""
        statistics = _unpacked(self.moments, self.num_classes, self.dim)
        add_rows(statistics, feature_tensor(features), labels, self.normalize)
        self.moments = _packed(statistics)

    def compute(self) -> dict[str, Tensor]:
        """The measures of a `Geometry` that are single numbers, by their names; NaN without rows."""
        statistics = _unpacked(self.moments, self.num_classes, self.dim)
        self._geometry = geometry_of(statistics) if statistics.counts.any() else None
        values = {name: getattr(self._geometry, name, math.nan) for name in MEASURES}
        return {name: torch.tensor(value, dtype=torch.float64, device=self.device) for name, value in values.items()}

    def geometry(self) -> Geometry:
        """Everything that `measure` returns except the accuracy, which needs a second pass over the rows.

        Raises:
            ValueError: If there are no rows.
        """
        self.compute()
        if self._geometry is None:
            raise ValueError("there are no rows to measure")
        return self._geometry

    def merge_state(self, incoming_state: "dict[str, Any] | Metric") -> None:
        """Add what another metric has seen, or its `metric_state`.

        Raises:
            ValueError: For a metric of another kind, or of other classes, dimensions or normalisation.
        """
        if isinstance(incoming_state, GeometryMetric):
            mine, theirs = ((each.num_classes, each.dim, each.normalize) for each in (self, incoming_state))
            if mine != theirs:
                names = "num_classes, dim and normalize must agree to merge"
                raise ValueError(f"{names}: they are {mine} here and {theirs} there")
        super().merge_state(incoming_state)
        # Or compute would return what it returned before, and warn that there was no update.
        self._computed = None
        self._update_count += getattr(incoming_state, "update_count", 1)


def _packed(statistics: ClassStatistics) -> Tensor:
    """All moments as a vector."""
    counts, within = statistics.counts, statistics.within
    assert within is not None
    dead = counts.new_tensor([statistics.dead_rows])
    return torch.cat([counts, statistics.means.flatten(), statistics.spreads, within.flatten(), dead])


def _unpacked(moments: Tensor, num_classes: int, dim: int) -> ClassStatistics:
    statistics = ClassStatistics(num_classes, dim)
    # In float64, even if the state was cast to another dtype.
    sizes = [num_classes, num_classes * dim, num_classes, dim * dim, 1]
    statistics.counts, means, statistics.spreads, within, dead = torch.split(moments.double().clone(), sizes)
    statistics.means, statistics.within = means.view(num_classes, dim), within.view(dim, dim)
    statistics.dead_rows = int(dead)
    return statistics


def _merged(states: Tensor, num_classes: int, dim: int) -> Tensor:
    """The moments of several states `[states, moments]` together."""
    first, *others = (_unpacked(state, num_classes, dim) for state in states)
    for other in others:
        first.merge(other)
    return _packed(first)
