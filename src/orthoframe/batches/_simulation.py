"""Epochs of reshuffling, drawn many times over, and the number of runs that certify."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orthoframe._rows import Integers
from orthoframe.batches._scan import Components, close_rows

_TOGETHER = 2_000_000  # rows that are simulated side by side


@dataclass
class RunCounts:
    """Numbers of simulated runs."""

    certified: int  # that certify
    as_stated: int  # that satisfy the condition as stated in the paper
    disconnected: NDArray[np.int64]  # [k], in which each class is disconnected
    unmet: NDArray[np.int64]  # [k, k], in which no batch pushes each pair of classes apart


def simulate(counts: Integers, batch_size: int, epochs: int, runs: int, seed: int) -> RunCounts:
    """Draw runs of epochs, and apply the exact condition and that of the paper to each."""
    k, random = len(counts), np.random.default_rng(seed)
    total = RunCounts(0, 0, np.zeros(k, np.int64), np.zeros((k, k), np.int64))
    together = max(1, _TOGETHER // int(counts.sum()))
    for first in range(0, runs, together):
        part = _Runs(counts, batch_size, min(together, runs - first))
        for _ in range(epochs):
            part.draw(random)
        part.close()
        pieces, as_stated = part.pieces(part.components), part.pieces(part.as_stated)
        total.certified += int(((pieces == 1).all(1) & part.met.all((1, 2))).sum())
        total.as_stated += int(((as_stated == 1).all(1) & part.touched.all((1, 2))).sum())
        total.disconnected += (pieces > 1).sum(0)
        total.unmet += (~part.met).sum(0)
    return total


class _Runs:
    """Several runs side by side: a class of one run is a class of its own."""

    def __init__(self, counts: Integers, batch_size: int, runs: int) -> None:
        self._labels, self._k, self._runs = np.repeat(np.arange(len(counts)), counts), len(counts), runs
        self._samples = len(self._labels)
        self._batches = -(-self._samples // batch_size)  # in an epoch
        run = np.arange(runs)[:, None]
        self._places = (np.arange(self._samples) // batch_size + run * self._batches).ravel()  # the batch of each
        classes = (self._labels + run * self._k).ravel()
        self.components, self.as_stated = Components(classes, runs * self._k), Components(classes, runs * self._k)
        self.met = np.broadcast_to(np.eye(self._k, dtype=bool), (runs, self._k, self._k)).copy()
        self.touched = self.met.copy()
        self._single: list[tuple[Integers, Integers]] = []  # batches of a single class: samples, and their batches

    def draw(self, random: np.random.Generator) -> None:
        """One more epoch of every run."""
        order = np.argsort(random.random((self._runs, self._samples)), axis=1)
        samples = (order + np.arange(self._runs)[:, None] * self._samples).ravel()
        groups = self._places * self._k + self._labels[order].ravel()  # the rows of one class in one batch
        number = self._runs * self._batches * self._k
        counts = np.bincount(groups, minlength=number)
        by_batch = counts.reshape(-1, self._k)
        mixed = ((by_batch > 0).sum(1) > 1)[self._places]
        several = counts[groups] > 1
        self.as_stated.join(samples[several], groups[several], number)
        self.components.join(samples[several & mixed], groups[several & mixed], number)
        single = ~mixed & (counts[groups] > 2)  # two rows are free
        self._single.append((samples[single], self._places[single] + len(self._single) * self._runs * self._batches))
        by_run = by_batch.reshape(self._runs, self._batches, self._k)
        present, several_rows = ((by_run > least).astype(np.float32) for least in (0, 1))
        pushed = np.matmul(several_rows.transpose(0, 2, 1), present) > 0
        self.met |= pushed | pushed.transpose(0, 2, 1)
        self.touched |= np.matmul(present.transpose(0, 2, 1), present) > 0

    def close(self) -> None:
        """Join the rows of single-class batches in which two coincide, until there are no more."""
        samples, batches = (np.concatenate(parts) for parts in zip(*self._single, strict=True))
        close_rows(self.components, samples, batches)

    def pieces(self, components: Components) -> Integers:
        """`[runs, k]`, number of components of each class."""
        return components.pieces().reshape(self._runs, self._k)
