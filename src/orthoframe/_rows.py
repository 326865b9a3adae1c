"""Rows and their classes: unit rows, labels as numbers, and the members of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Integers = NDArray[Any]  # of any integer dtype
Rows = Tensor | NDArray[Any] | Sequence[Sequence[float]]  # [rows, dim]
RowLabels = Tensor | NDArray[Any] | Sequence[int]  # [rows]
AnyLabels = Tensor | NDArray[Any] | Sequence[Any]  # [rows], integers or strings
Counts = Tensor | NDArray[Any] | Sequence[int]  # rows of each class
Weights = Tensor | NDArray[Any] | Sequence[float]  # one number per class or row

SMALLEST_NORM = 1e-12
"""A row or class mean that is not longer than this counts as zero, everywhere: it has no direction, and no gradient."""
# Squares of larger values leave the range of float64.
_LARGE = 1e100
_LONGEST = torch.finfo(torch.float16).max
_MOST_ROWS = 2**53  # in all classes together; float64 rounds larger numbers


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


def widened(rows: Tensor) -> Tensor:
    """Rows of 16 bits as float32, others as they are."""
    if rows.dtype == torch.float16:
        rows = _Float16.apply(rows)  # type: ignore[no-untyped-call]
    return rows.float() if rows.dtype == torch.bfloat16 else rows


class _Float16(torch.autograd.Function):
    """As float32; the gradient of a very short row leaves the range, keeps its direction, and is as long as it can.

    If that of a unit row left the range too, the loss was scaled by too much, and its scaler has to see it.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor) -> Tensor:
        return rows.float()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        length, norm = (
            torch.linalg.vector_norm(each, dim=-1, keepdim=True, dtype=torch.float64)
            for each in (grad, *ctx.saved_tensors)
        )
        too_long = length * norm.clamp(max=1.0) > _LONGEST
        factor = (_LONGEST / length.clamp(min=_LONGEST)).masked_fill(too_long, 1.0)
        narrow: Tensor = (grad * factor).half()
        return narrow


@dataclass(frozen=True)
class Labels:
    """Classes numbered 0..k-1, with the names that the user gave them."""

    classes: Integers  # [rows], the number of each row's class
    names: tuple[Any, ...]  # [k], integers or strings, sorted

    @classmethod
    def of(cls, labels: "AnyLabels | Labels") -> "Labels":
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
            array = array.astype(np.int64, copy=False)
            present = np.bincount(array) > 0  # small integers need no sorting
            names = np.flatnonzero(present)
            return cls((np.cumsum(present, dtype=np.int32) - 1)[array], tuple(names.tolist()))
        names, classes = np.unique(array, return_inverse=True)
        return cls(classes.astype(np.int32), tuple(names.tolist()))

    @property
    def counts(self) -> Integers:
        """`[k]`, rows of each class."""
        return np.bincount(self.classes, minlength=len(self.names))

    def members(self) -> list[Integers]:
        """The rows of each class."""
        return class_members(self.classes, len(self.names))


def label_array(labels: AnyLabels, name: str = "labels") -> NDArray[Any]:
    """Labels as a one-dimensional array of integers or strings, whatever they came as.

    Raises:
        ValueError: For labels that are not one-dimensional, or integers of more than 64 bits.
        TypeError: For labels that are neither integers nor strings.
    """
    array = _array(labels, name)
    # Of 1 and "1" numpy would make one class.
    if array.dtype.kind in "UO" and len({isinstance(label, str) for label in labels}) > 1:
        raise TypeError(f"{name} must be all integers or all strings, not a mixture of them")
    # Of "a" and "a\0", too, because it drops zeros at the end.
    if array.dtype.kind in "UO" and not isinstance(labels, np.ndarray) and any(map(_ends_in_zero, labels)):
        raise ValueError(f"{name} must not end in a zero character, which numpy would drop")
    if array.size and array.dtype.kind not in "biuU":
        raise TypeError(f"{name} must be integers or strings, not {_kind(array)}")
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {list(array.shape)}")
    return array


def _ends_in_zero(label: object) -> bool:
    return isinstance(label, str) and label.endswith("\0")


def label_tensor(labels: AnyLabels, device: torch.device, name: str = "labels") -> Tensor:
    """Integer labels as int64 on a device, whatever they came as.

    Raises:
        ValueError: For labels that int64 does not hold.
        TypeError: For labels that are not integers.
    """
    if isinstance(labels, Tensor):
        if (labels.is_floating_point() or labels.is_complex()) and labels.numel():
            raise TypeError(f"{name} must be integers, not {labels.dtype}; convert them with {name}.long()")
        if labels.dtype != torch.uint64:
            return labels.to(device, torch.int64)
    array = _array(labels, name)
    advice = f"number the classes, as np.unique({name}, return_inverse=True)[1] does"
    if array.size and array.dtype.kind not in "biu":
        raise TypeError(f"{name} must be integers, not {_kind(array)}; {advice}")
    if array.dtype.kind == "u" and array.max(initial=0) >= 2**63:
        raise ValueError(f"{name} must be integers of at most 64 bits with a sign, below 2^63; {advice}")
    return torch.from_numpy(array.astype(np.int64)).to(device)


def feature_tensor(features: Tensor | NDArray[Any] | Sequence[Any], name: str = "features") -> Tensor:
    """Features as a tensor: a tensor as it is, and a copy of an array or of nested lists, which has no gradient.

    Raises:
        ValueError: For lists of different lengths.
        TypeError: For arrays that are not of float64, float32 or float16, as integers are not converted; and for
            sparse tensors.

    Examples:
        >>> feature_tensor(np.array([[3.0, 4.0]], dtype=">f4"))
        tensor([[3., 4.]])
    """
    if isinstance(features, Tensor):
        if features.layout is not torch.strided:
            raise TypeError(f"{name} must be dense, not {features.layout}")
        return features
    array = _array(features, name)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise TypeError(f"{name} must be float64, float32, float16 or bfloat16, not {array.dtype}")
    # A copy, because the array may be read-only, and torch takes neither other byte orders nor negative strides.
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def count_array(counts: Counts, name: str = "class_counts") -> Integers:
    """Counts, one per class, as int64.

    Raises:
        ValueError: For counts that are negative, not one-dimensional, or of more than 2^53 rows together.
        TypeError: For counts that are not integers.
    """
    array = _array(counts, name)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, not {_kind(array)}")
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {list(array.shape)}")
    if array.size and array.min() < 0:
        raise ValueError(f"{name} must not be negative, not {array.min()}")
    if array.sum(dtype=np.float64) > _MOST_ROWS:
        raise ValueError(f"{name} must be of at most 2^53 rows together, because float64 rounds larger numbers")
    return array.astype(np.int64)


def positive_array(values: Weights, name: str) -> NDArray[np.float64]:
    """Positive, finite numbers, one per class, as float64."""
    numbers = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else values
    array = np.array(numbers, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, one number per class, not of shape {list(array.shape)}")
    if not (np.isfinite(array) & (array > 0)).all():
        raise ValueError(f"{name} must be positive and finite")
    return array


def per_class(values: Weights | None, num_classes: int, name: str) -> Tensor:
    """Positive, finite numbers, one per class, as float64 `[k]`; 1 where there are none."""
    if values is None:
        return torch.ones(num_classes, dtype=torch.float64)
    array = positive_array(values, name)
    if len(array) != num_classes:
        raise ValueError(f"{name} must have shape [{num_classes}], one per class, not [{len(array)}]")
    return torch.from_numpy(array)


def all_but_own(values: Tensor) -> Tensor:
    """For each entry of `[k]`, the sum of the others: of what is before and behind it, so that nothing cancels.

    Examples:
        >>> all_but_own(torch.tensor([1e20, 1.0, 2.0], dtype=torch.float64))[0]
        tensor(3., dtype=torch.float64)
    """
    nothing = values.new_zeros(1)
    before, behind = values.cumsum(0), values.flip(0).cumsum(0).flip(0)
    return torch.cat([nothing, before[:-1]]) + torch.cat([behind[1:], nothing]) if len(values) else values


def _array(values: Any, name: str) -> NDArray[Any]:
    """Any sequence as an array; objects, as a column of a data frame has, as strings or integers if all are."""
    try:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        if array.dtype.kind == "S":
            return np.char.decode(array, "utf-8")
        if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat):
            return array.astype(str)
        if array.dtype.kind == "O" and all(isinstance(value, int | np.integer) for value in array.flat):
            return array.astype(np.int64)
    except (TypeError, ValueError, RuntimeError):  # nested lists of different lengths, bfloat16
        raise ValueError(f"{name} must be an array, or lists of equal lengths of numbers") from None
    except OverflowError:
        raise ValueError(f"{name} must be integers of at most 64 bits with a sign, below 2^63") from None
    return array


def _kind(array: NDArray[Any]) -> str:
    """What an error calls the values."""
    if array.dtype.kind == "O":
        odd = (value for value in array.flat if not isinstance(value, int | np.integer))
        return type(next(odd, array.flat[0])).__name__
    return "strings" if array.dtype.kind == "U" else str(array.dtype)


def class_members(classes: Integers, num_classes: int) -> list[Integers]:
    """The rows of each class, in their order.

    Examples:
        >>> [rows.tolist() for rows in class_members(np.array([1, 0, 1]), 3)]
        [[1], [0, 2], []]
    """
    order = np.argsort(classes, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(np.bincount(classes, minlength=num_classes))[:-1])[:num_classes]
