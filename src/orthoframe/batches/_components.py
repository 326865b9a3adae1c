"""Which samples are known to coincide: a union-find over all samples, many unions at a time."""

import numpy as np

from orthoframe.batches._labels import Integers


class Components:
    """Sets of samples, each within one class.

    A parent always has a smaller number than its child, so unions of many groups at once need no order and make no
    cycle. Numbers 0..k-1 are hubs, one for each class, ahead of all samples: the first group of a class joins its hub,
    and what meets it later hangs directly below it.

    Args:
        classes: `[samples]`, the class of each sample, 0..k-1.
        num_classes: k.
    """

    def __init__(self, classes: Integers, num_classes: int) -> None:
        self._classes = classes
        self._hubs = num_classes
        total = num_classes + len(classes)
        self._parents = np.arange(total, dtype=np.int32 if total < 2**31 else np.int64)
        self._without_hub = np.ones(num_classes, dtype=bool)

    def join(self, samples: Integers, groups: Integers, num_groups: int) -> None:
        """Unite the samples that have the same group number; a group lies within one class."""
        nodes = samples + self._hubs
        if self._without_hub.any():
            nodes, groups = self._with_hubs(nodes, groups)
        parents = self._parents
        while len(nodes):
            roots = self._roots(nodes)
            lowest = np.full(num_groups, len(parents), dtype=parents.dtype)
            np.minimum.at(lowest, groups, roots)
            targets = lowest[groups]
            lower = targets < roots
            if not lower.any():
                return
            # A root that is in two groups takes the lower of their targets; the other group is looked at again.
            np.minimum.at(parents, roots[lower], targets[lower])
            again = np.zeros(num_groups, dtype=bool)
            again[groups[lower]] = True
            rest = again[groups]
            nodes, groups = nodes[rest], groups[rest]

    def roots(self, samples: Integers | None = None) -> Integers:
        """A number for each sample (default: all), equal for samples in one component."""
        if samples is None:
            samples = np.arange(len(self._classes), dtype=self._parents.dtype)
        return self._roots(samples + self._hubs)

    def pieces(self) -> Integers:
        """Number of components of each class."""
        used = np.zeros(len(self._parents), dtype=bool)
        used[self.roots()] = True
        hubs, others = used[: self._hubs].astype(np.int64), np.flatnonzero(used[self._hubs :])
        return hubs + np.bincount(self._classes[others], minlength=self._hubs)

    def copy(self) -> "Components":
        """An independent copy."""
        other = Components(self._classes, self._hubs)
        other._parents, other._without_hub = self._parents.copy(), self._without_hub.copy()
        return other

    def _with_hubs(self, nodes: Integers, groups: Integers) -> tuple[Integers, Integers]:
        """Add the hub of each class that has none yet to the first of its groups."""
        first = np.full(self._hubs, -1)
        first[self._classes[nodes[::-1] - self._hubs]] = np.arange(len(nodes))[::-1]  # the last write wins
        found = np.flatnonzero(self._without_hub & (first >= 0))
        self._without_hub[found] = False
        return np.concatenate([nodes, found]), np.concatenate([groups, groups[first[found]]])

    def _roots(self, nodes: Integers) -> Integers:
        parents = self._parents
        roots: Integers = parents[nodes]
        above = parents[roots]
        if np.array_equal(roots, above):
            return roots
        while True:
            roots, above = above, parents[above]
            if np.array_equal(roots, above):
                parents[nodes] = roots  # the next look is one step
                return roots
