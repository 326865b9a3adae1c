"""How the features of classes are arranged: statistics, measures, targets, and the nearest class centre."""

from typing import TYPE_CHECKING, Any

from orthoframe.errors import needs_extra
from orthoframe.geometry._accuracy import Accuracy, ClassRates, Confusion, accuracy_of
from orthoframe.geometry._arrangement import (
    CLASS_COLLAPSE,
    COLLAPSE,
    Arrangement,
    distance_to_gram,
    etf_gram,
    frame_gram,
    is_frame,
    near_pairs,
)
from orthoframe.geometry._classifiers import (
    Calibration,
    LinearClassifier,
    NearestCentre,
    calibration_error,
    fit_adjustment,
    reliability,
)
from orthoframe.geometry._familiarity import Familiarity
from orthoframe.geometry._geometry import MEASURES, MOST_COSINES, Geometry, geometry_of
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
    "MEASURES",
    "MOST_COSINES",
    "Arrangement",
    "is_frame",
    "near_pairs",
    "COLLAPSE",
    "CLASS_COLLAPSE",
    "NearestCentre",
    "fit_adjustment",
    "LinearClassifier",
    "Accuracy",
    "accuracy_of",
    "ClassRates",
    "Calibration",
    "calibration_error",
    "reliability",
    "Familiarity",
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
    if name == "GeometryMetric":
        with needs_extra("GeometryMetric", "metric"):
            from orthoframe.geometry._metric import GeometryMetric

        return GeometryMetric
    raise AttributeError(f"module 'orthoframe.geometry' has no attribute {name!r}")
