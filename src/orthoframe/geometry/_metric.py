"""The geometry as a torchmetrics metric."""

from typing import Any

import torch
from torch import Tensor
from torchmetrics.metric import Metric

from orthoframe.geometry._geometry import Geometry, geometry_of
from orthoframe.geometry._statistics import ClassStatistics, prepared, with_position


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
        assert empty.within is not None
        for name, value in (
            ("counts", empty.counts),
            ("means", empty.means),
            ("spreads", empty.spreads),
            ("within", empty.within),
            ("dead_rows", torch.tensor(0)),
        ):
            # Without a reduction the states of all processes arrive stacked, and compute merges them.
            self.add_state(name, value, dist_reduce_fx=None)

    def update(self, features: Tensor, labels: Tensor) -> None:
        """Add rows `[rows, dim]` with their labels `[rows]`."""
        (statistics,) = self._statistics()
        try:
            statistics.update(prepared(features, self.normalize), labels)
        except ValueError as error:
            raise with_position(error, features) from None
        self.counts, self.means, self.spreads = statistics.counts, statistics.means, statistics.spreads
        assert statistics.within is not None
        self.within, self.dead_rows = statistics.within, torch.tensor(statistics.dead_rows, device=self.device)

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
        states = (self.counts, self.means, self.spreads, self.within, self.dead_rows)
        stacked = self.counts.ndim == 2
        found = []
        for values in zip(*states, strict=True) if stacked else [states]:
            statistics = ClassStatistics(self.num_classes, self.dim)
            counts, means, spreads, within, dead_rows = values
            # In float64, even if the states were cast to another dtype.
            statistics.counts, statistics.means = counts.double().clone(), means.double().clone()
            statistics.spreads, statistics.within = spreads.double().clone(), within.double().clone()
            statistics.dead_rows = int(dead_rows)
            found.append(statistics)
        return found
