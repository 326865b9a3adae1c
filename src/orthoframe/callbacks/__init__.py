"""Geometry and gap of a training that something else runs: what the callbacks for Lightning and Hugging Face share."""

from orthoframe.callbacks._gap import GapListener
from orthoframe.callbacks._recorder import GeometryRecorder, evaluating, shared_rows

__all__ = ["GapListener", "GeometryRecorder", "evaluating", "shared_rows"]
