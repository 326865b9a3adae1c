"""The geometry as a torchmetrics metric."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import feature_tensor
from orthoframe._torchmetrics import import_metric
from orthoframe.geometry._geometry import Geometry, geometry_of
from orthoframe.geometry._statistics import ClassStatistics, Rows, add_rows

import_metric()
# isort: split
from torchmetrics.metric import Metric  # noqa: E402

_MOMENTS = ("counts", "means", "spreads", "within")


class GeometryMetric(Metric):
    """Geometry of all features since the last reset, over all processes.

    `compute` returns numbers for a logger, `geometry` the whole `Geometry`. Moments are merged by Chan's formula rather
    than added up, because sums would lose the spread of collapsed features.

    Args:
        num_classes: k; labels are 0..k-1.
        dim: d.
        normalize: Whether to divide each row by its norm first, as the loss does.

    Examples:
        >>> metric = GeometryMetric(num_classes=2, dim=4)
        >>> metric.update(torch.eye(2, 4), torch.tensor([0, 1]))
        >>> sorted(metric.compute())
        ['beta_nc', 'delta_etf', 'delta_of', 'max_cosine', 'mean_cosine']
    """

    full_state_update = True
    is_differentiable = False
    higher_is_better = False

    def __init__(self, num_classes: int, dim: int, *, normalize: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.num_classes, self.dim, self.normalize = num_classes, dim, normalize
        empty = ClassStatistics(num_classes, dim)
        # Without a reduction the states of all processes arrive stacked, and compute merges them.
        for name in _MOMENTS:
            self.add_state(name, getattr(empty, name), dist_reduce_fx=None)
        self.add_state("dead_rows", torch.tensor(0), dist_reduce_fx=None)

    def update(self, features: Rows, labels: Tensor | NDArray[Any] | Sequence[int]) -> None:
        """Add rows `[rows, dim]` with their labels `[rows]`: tensors, arrays or lists."""
        (statistics,) = self._statistics()
        add_rows(statistics, feature_tensor(features), labels, self.normalize)
        for name in _MOMENTS:
            setattr(self, name, getattr(statistics, name))
        self.dead_rows = torch.tensor(statistics.dead_rows, device=self.device)

    def compute(self) -> dict[str, Tensor]:
        """`delta_of`, `delta_etf`, `beta_nc`, `mean_cosine`, `max_cosine`."""
        first, *others = self._statistics()
        for other in others:
            first.merge(other)
        self._geometry = geometry_of(first)
        names = ("delta_of", "delta_etf", "beta_nc", "mean_cosine", "max_cosine")
        values = {name: getattr(self._geometry, name) for name in names}
        return {name: torch.tensor(value, dtype=torch.float64, device=self.device) for name, value in values.items()}

    def geometry(self) -> Geometry:
        """Everything that `measure` returns except the accuracy, which needs a second pass over the rows."""
        self.compute()
        return self._geometry

    def _statistics(self) -> list[ClassStatistics]:
        """The moments of each process, or only of this one before states have been exchanged."""
        states = [getattr(self, name) for name in (*_MOMENTS, "dead_rows")]
        found = []
        for *moments, dead_rows in zip(*states, strict=True) if states[0].ndim == 2 else [states]:
            statistics = ClassStatistics(self.num_classes, self.dim)
            for name, value in zip(_MOMENTS, moments, strict=True):
                # In float64, even if the states were cast to another dtype.
                setattr(statistics, name, value.double().clone())
            statistics.dead_rows = int(dead_rows)
            found.append(statistics)
        return found
