"""Figures and reports; what they show was computed elsewhere."""

from orthoframe.reporting._certificate import certificate_figure
from orthoframe.reporting._geometry import geometry_figure

__all__ = ["certificate_figure", "geometry_figure"]
