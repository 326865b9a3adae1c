"""A scikit-learn classifier for tables and embeddings whose classes end in an orthogonal frame."""

from orthoframe.errors import needs_extra

with needs_extra("orthoframe.sklearn", "sklearn"):
    from orthoframe.sklearn._classifier import FrameClassifier
    from orthoframe.sklearn._fit import StopReason

__all__ = ["FrameClassifier", "StopReason"]
