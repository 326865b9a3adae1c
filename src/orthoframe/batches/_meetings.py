"""How often classes meet."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from orthoframe.batches._labels import Integers, Labels, chunks


def meeting_counts(labels: Sequence[Any] | NDArray[Any], batches: Iterable[Any]) -> Integers:
    """Number of batches that each two classes share.

    Args:
        labels: `[samples]`, integers or strings.
        batches: Lists of sample indices.

    Returns:
        `[k, k]`, classes in the order of their names; on the diagonal the batches that hold the class.

    Examples:
        >>> meeting_counts(["a", "a", "b"], [[0, 2], [1, 2], [0, 1]])
        array([[3, 2],
               [2, 2]])
    """
    numbered = Labels.of(labels)
    k = len(numbered.names)
    counts = np.zeros((k, k), dtype=np.int64)
    for chunk in chunks(batches, len(numbered.classes)):
        pairs = np.unique(chunk.batches.astype(np.int64) * k + numbered.classes[chunk.samples])
        here = csr_array((np.ones(len(pairs), np.int64), np.divmod(pairs, k)), shape=(chunk.num_batches, k))
        counts += (here.T @ here).toarray()
    return counts
