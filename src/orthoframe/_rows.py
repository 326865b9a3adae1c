"""Rows and their classes: unit rows, labels as numbers, members of classes, and which process has which rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[Any]  # of any integer dtype

SMALLEST_NORM = 1e-12
"""A row that is not longer than this counts as zero: it has no direction, and gets no gradient."""
# Squares of larger values leave the range of float64.
_LARGE = 1e100


def unit_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Divide rows `[rows, dim]`, float32 or float64, by their norms; also returns the inverse norms `[rows, 1]`.

    A row that is not longer than `SMALLEST_NORM` becomes zero, and so does its inverse norm. Can be differentiated; a
    zero row gets a gradient of zero.

    Examples:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))[0]
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    scale = None
    if rows.dtype == torch.float64 and rows.shape[1]:
        largest = rows.detach().abs().amax(1, keepdim=True)
        scale = torch.where(largest > _LARGE, largest, 1.0)
        rows = rows / scale
    # In float64: the squares of long rows would leave the range of float32.
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
    # The inverse of infinity, and not a choice between two results: behind a choice the gradient of 1/0 is NaN.
    in_place = not norm.requires_grad  # small batches feel each allocation
    finite = (torch.threshold_ if in_place else torch.threshold)(norm, SMALLEST_NORM, torch.inf)
    inverse = (finite.reciprocal_() if in_place else finite.reciprocal()).to(rows.dtype)
    return rows * inverse, inverse if scale is None else inverse / scale


@dataclass(frozen=True)
class Labels:
    """Classes numbered 0..k-1, with the names that the user gave them."""

    classes: Integers  # [rows], the number of each row's class
    names: tuple[Any, ...]  # [k], integers or strings, sorted

    @classmethod
    def of(cls, labels: "Sequence[Any] | NDArray[Any] | Tensor | Labels") -> "Labels":
        """Number any integer or string labels, unless they are numbered; others are refused as by `label_array`.

        Examples:
            >>> Labels.of(["b", "a", "b"]).names
            ('a', 'b')
        """
        if isinstance(labels, Labels):
            return labels
        array = label_array(labels)
        if len(array) == 0:
            return cls(np.empty(0, np.int32), ())
        if array.dtype.kind in "iu" and array.min() >= 0 and array.max() < max(1024, len(array)):
            present = np.bincount(array) > 0  # small integers need no sorting
            names = np.flatnonzero(present)
            return cls((np.cumsum(present, dtype=np.int32) - 1)[array], tuple(names.tolist()))
        found, inverse = np.unique(array, return_inverse=True)
        return cls(inverse.astype(np.int32), tuple(found.tolist()))

    @property
    def counts(self) -> Integers:
        """`[k]`, rows of each class."""
        return np.bincount(self.classes, minlength=len(self.names))

    def members(self) -> list[Integers]:
        """The rows of each class."""
        return class_members(self.classes, len(self.names))


def label_array(labels: Sequence[Any] | NDArray[Any] | Tensor) -> NDArray[Any]:
    """Labels as a one-dimensional array of integers or strings, whatever they came as.

    Raises:
        ValueError: For labels that are not one-dimensional.
        TypeError: For labels that are neither integers nor strings.
    """
    array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    elif array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat):  # a column of a data frame
        array = array.astype(str)
    elif array.dtype.kind == "O" and all(isinstance(value, int | np.integer) for value in array.flat):
        array = array.astype(np.int64)
    if array.ndim != 1:
        raise ValueError(f"labels must be one-dimensional, not of shape {list(array.shape)}")
    if len(array) and array.dtype.kind not in "biuU":
        raise TypeError(f"labels must be integers or strings, not {array.dtype}")
    return array


def class_members(classes: Integers, num_classes: int) -> list[Integers]:
    """The rows of each class, in their order.

    Examples:
        >>> [rows.tolist() for rows in class_members(np.array([1, 0, 1]), 3)]
        [[1], [0, 2], []]
    """
    order = np.argsort(classes, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(np.bincount(classes, minlength=num_classes))[:-1])[:num_classes]


def rank_and_world_size() -> tuple[int, int]:
    """The number of this process and how many there are; (0, 1) without `torch.distributed`."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1
