"""Geometry and gap of a training loop of somebody else; the callbacks for Lightning and Hugging Face share this."""

from orthoframe.callbacks._recorder import GapListener, GeometryRecorder, evaluating, shared_rows

__all__ = ["GapListener", "GeometryRecorder", "evaluating", "shared_rows"]
