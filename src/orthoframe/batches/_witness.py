"""Features that reach the loss floor on every batch without being an orthogonal frame."""

import math

import numpy as np
from numpy.typing import NDArray

from orthoframe.batches._labels import Integers
from orthoframe.batches._scan import Scan

# The angle of what is out of place: far from both 0 and a right angle.
_COSINE = 0.8
_SINE = math.sqrt(1 - _COSINE**2)


def witness(found: Scan) -> NDArray[np.float64]:
    """Each class on its own axis, but for what the batches leave free.

    Two classes that no batch pushes apart may lean towards each other. Of a class in several pieces one piece may lean
    into a dimension of its own; pieces that share a batch of that class alone must stay equiangular, and so lean
    together, each into a dimension of its own.

    Args:
        found: A scan that does not certify.

    Returns:
        `[samples, dim]`, dim the number of classes and of leaning pieces.
    """
    classes, k = found.labels.classes, len(found.labels.names)
    apart = np.argwhere(np.triu(~found.met))
    if len(apart):
        axes = np.eye(k)
        a, b = apart[0]
        axes[b] = _COSINE * axes[a] + _SINE * axes[b]
        return axes[classes]

    roots = found.components.roots()
    leaning = _leaning_pieces(found, roots)
    features = np.zeros((len(classes), k + len(leaning)))
    features[np.arange(len(classes)), classes] = 1.0
    for extra, piece in enumerate(leaning):
        members = roots == piece
        features[members, classes[members]] = _COSINE
        features[members, k + extra] = _SINE
    return features


def _leaning_pieces(found: Scan, roots: Integers) -> list[int]:
    """Pieces of a broken class that lean: the fewest that are not tied to others by batches of that class alone."""
    classes = found.labels.classes
    number, first = np.unique(roots, return_index=True)
    piece_class = classes[first]
    broken = np.bincount(piece_class, minlength=len(found.labels.names)) > 1
    tied = {int(piece): {int(piece)} for piece in number[broken[piece_class]]}
    for batch in found.single:
        if len(batch.samples) < 3:
            continue  # two rows are free
        together: set[int] = set().union(*(tied[int(root)] for root in np.unique(roots[batch.samples])))
        for piece in together:
            tied[piece] = together
    smallest: set[int] = min(tied.values(), key=len)
    return sorted(smallest)
