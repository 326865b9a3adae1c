"""Geometry and gap while something else trains: what the callbacks of Lightning and Hugging Face share."""

from orthoframe.watching._rows import at_rest, shared_rows
from orthoframe.watching._watch import Watch, Watched

__all__ = ["Watch", "Watched", "at_rest", "shared_rows"]
