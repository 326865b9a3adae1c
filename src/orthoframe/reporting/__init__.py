"""Figures and reports; what they show was computed elsewhere."""

from orthoframe.reporting._certificate import certificate_figure

__all__ = ["certificate_figure"]
