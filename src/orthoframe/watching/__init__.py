"""Geometry and gap while something else trains: what the callbacks of Lightning and Hugging Face share."""

from orthoframe.watching._rows import at_rest, shared_rows
from orthoframe.watching._watch import Watch

__all__ = ["Watch", "at_rest", "shared_rows"]
