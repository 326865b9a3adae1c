"""How the features of classes are arranged: statistics, measures, targets, and the nearest class centre."""

from typing import TYPE_CHECKING, Any

from orthoframe.geometry._adjustment import fit_adjustment
from orthoframe.geometry._calibration import Calibration, calibration_error
from orthoframe.geometry._centres import Accuracy, NearestCentre, accuracy_of
from orthoframe.geometry._collapse import LinearClassifier
from orthoframe.geometry._confusion import Confusion
from orthoframe.geometry._geometry import (
    COLLAPSE,
    FRAME_DISTANCE,
    Arrangement,
    Geometry,
    distance_to_gram,
    etf_gram,
    frame_gram,
    geometry_of,
)
from orthoframe.geometry._measure import measure, measure_parts
from orthoframe.geometry._ownership import Explanation, Ownership, explain
from orthoframe.geometry._statistics import ClassStatistics

if TYPE_CHECKING:
    from orthoframe.geometry._metric import GeometryMetric

__all__ = [
    "measure",
    "measure_parts",
    "Geometry",
    "geometry_of",
    "Arrangement",
    "FRAME_DISTANCE",
    "COLLAPSE",
    "NearestCentre",
    "fit_adjustment",
    "LinearClassifier",
    "Accuracy",
    "accuracy_of",
    "Calibration",
    "calibration_error",
    "Confusion",
    "Ownership",
    "explain",
    "Explanation",
    "ClassStatistics",
    "GeometryMetric",
    "distance_to_gram",
    "frame_gram",
    "etf_gram",
]


def __getattr__(name: str) -> Any:
    if name == "GeometryMetric":  # the only one that needs torchmetrics
        from orthoframe.geometry._metric import GeometryMetric

        return GeometryMetric
    raise AttributeError(f"module 'orthoframe.geometry' has no attribute {name!r}")
