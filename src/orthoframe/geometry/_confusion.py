"""Which classes are taken for which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import label_tensor

_MOST = 1000  # cells that are kept: all of them up to 32 classes


@dataclass(frozen=True)
class Confusion:
    """Rows by their class and the class that was predicted.

    Attributes:
        names: Of the classes.
        rows: Of each class.
        wrong: Rows that were taken for another class.
        cells: The class, the one that it was taken for, and how many rows; most first, at most 1000 of them.
    """

    names: tuple[int | str, ...]
    rows: tuple[int, ...]
    wrong: int
    cells: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(
        cls, scores: Tensor | NDArray[Any], labels: Tensor | NDArray[Any] | Sequence[int], names: Sequence[int | str]
    ) -> "Confusion":
        """Count.

        Args:
            scores: `[rows, k]`, the largest wins; or predicted classes `[rows]`.
            labels: `[rows]`, the numbers of the true classes.
            names: `[k]`, names of the classes.

        Examples:
            >>> found = Confusion.of(torch.tensor([0, 1, 1, 1, 0]), [0, 1, 0, 0, 1], ["cat", "dog"])
            >>> found.sentences()
            ['cat as dog: 2 of 3', 'dog as cat: 1 of 2']
        """
        given, k = torch.as_tensor(scores).cpu(), len(names)
        predicted = given if given.ndim == 1 else given.argmax(1)
        true = label_tensor(labels, given.device)
        cells, counts = np.unique((true * k + predicted)[predicted != true].numpy(), return_counts=True)
        order = np.argsort(-counts, kind="stable")
        found = [
            (cell // k, cell % k, n) for cell, n in zip(cells[order].tolist(), counts[order].tolist(), strict=True)
        ]
        rows: list[int] = torch.bincount(true, minlength=k).tolist()
        return cls(tuple(names), tuple(rows), int(counts.sum()), tuple(found[:_MOST]))

    def sentences(self, most: int | None = None) -> list[str]:
        """The largest confusions, such as `shirt as t-shirt/top: 12 of 100`."""
        return [f"{self.names[a]} as {self.names[b]}: {n:,} of {self.rows[a]:,}" for a, b, n in self.cells[:most]]
