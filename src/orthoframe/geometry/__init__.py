"""Class statistics, measures, targets: how the features of classes are arranged."""

from typing import TYPE_CHECKING, Any

from orthoframe.geometry._centres import NearestCentre
from orthoframe.geometry._explain import Explanation, explain
from orthoframe.geometry._geometry import Accuracy, Geometry, geometry_of
from orthoframe.geometry._measure import measure, measure_parts, number_labels
from orthoframe.geometry._measures import distance_to_gram, etf_gram, frame_gram
from orthoframe.geometry._ownership import Ownership, ownership
from orthoframe.geometry._statistics import ClassStatistics

if TYPE_CHECKING:
    from orthoframe.geometry._metric import GeometryMetric

__all__ = [
    "measure",
    "measure_parts",
    "number_labels",
    "Geometry",
    "geometry_of",
    "Accuracy",
    "Ownership",
    "ownership",
    "explain",
    "Explanation",
    "ClassStatistics",
    "GeometryMetric",
    "NearestCentre",
    "distance_to_gram",
    "frame_gram",
    "etf_gram",
]


def __getattr__(name: str) -> Any:
    if name == "GeometryMetric":  # the only one that needs torchmetrics, which is slow to import
        from orthoframe.geometry._metric import GeometryMetric

        return GeometryMetric
    raise AttributeError(f"module 'orthoframe.geometry' has no attribute {name!r}")
