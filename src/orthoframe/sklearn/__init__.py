"""A scikit-learn classifier for tables and embeddings whose classes end in an orthogonal frame."""

from orthoframe.sklearn._classifier import FrameClassifier

__all__ = ["FrameClassifier"]
