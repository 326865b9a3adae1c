"""Measure features that are at hand, or that come in parts."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe.geometry._centres import NearestCentre
from orthoframe.geometry._geometry import Accuracy, Geometry, geometry_of
from orthoframe.geometry._measures import between_directions
from orthoframe.geometry._statistics import ClassStatistics

Parts = Callable[[], Iterable[tuple[Tensor, Tensor]]]
# Wider features have no d x d scatter in memory; the collapse is measured in the second pass instead.
WIDE = 4096
_ROWS = 8192


def measure(
    features: Tensor | NDArray[Any],
    labels: Tensor | NDArray[Any] | Sequence[Any],
    *,
    num_classes: int | None = None,
    normalize: bool = True,
) -> Geometry:
    """Say how the features of classes are arranged.

    Args:
        features: `[rows, dim]`, a tensor on any device or an array, also one that is mapped from a file.
        labels: `[rows]`, integers or strings. Integers are taken as they are if `num_classes` is given.
        num_classes: Classes that there should be, 0..num_classes-1; those without rows are reported as missing.
            By default the classes that occur.
        normalize: Whether to divide each row by its norm first, as the loss does.

    Returns:
        The geometry.

    Raises:
        ValueError: For wrong shapes, labels out of range, a value that is not finite (with its position), no rows.
        TypeError: For wrong dtypes.

    Examples:
        >>> geometry = measure(torch.eye(3).repeat_interleave(5, 0), [0] * 5 + [1] * 5 + [2] * 5)
        >>> round(geometry.delta_of, 12), round(geometry.accuracy.balanced, 3)
        (0.0, 1.0)
        >>> print(geometry.verdict())
        Class means form an orthogonal frame, and classes have collapsed.
    """
    if not hasattr(features, "shape") or len(features.shape) != 2:
        raise ValueError(f"features must have shape [rows, dim], not {list(getattr(features, 'shape', []))}")
    classes, names = number_labels(labels, num_classes)
    if len(classes) != len(features):
        raise ValueError(f"features have {len(features)} rows and labels {len(classes)}; they must agree")

    def parts() -> Iterable[tuple[Tensor, Tensor]]:
        for start in range(0, len(features), _ROWS):
            part = features[start : start + _ROWS]
            # A copy of an array: it may be mapped from a file that is only to be read.
            rows = part if isinstance(part, Tensor) else torch.from_numpy(np.array(part))
            yield rows, classes[start : start + _ROWS].to(rows.device)

    return measure_parts(parts, int(features.shape[1]), names, normalize=normalize)


def measure_parts(parts: Parts, dim: int, names: tuple[int | str, ...], *, normalize: bool = True) -> Geometry:
    """`measure` for features that do not fit into memory.

    Args:
        parts: Gives `(features, labels)` of consecutive rows, from the start each time it is called; it is called
            twice. Labels are numbers of classes.
        dim: d.
        names: `[k]`, names of the classes.
        normalize: As in `measure`.

    Returns:
        The geometry.
    """
    statistics = ClassStatistics(len(names), dim, scatter=dim <= WIDE)
    start = 0
    for features, labels in parts():
        try:
            statistics.update(prepared(features, normalize), labels)
        except ValueError as error:
            raise with_position(error, features, start) from None
        start += len(features)
    if not start:
        raise ValueError("there are no rows to measure")
    present = (statistics.counts > 0)[:, None]
    classifier = NearestCentre(torch.where(present, statistics.means, torch.nan))
    hits = torch.zeros_like(statistics.counts)
    directions, scale = between_directions(statistics.means[present[:, 0]])
    scattered = 0.0
    for features, labels in parts():
        rows = prepared(features, normalize)
        right = classifier.predict(rows) == labels
        hits.index_add_(0, labels, right.double())
        if statistics.within is None:
            apart = (rows.double() - statistics.means.index_select(0, labels)) @ directions
            scattered += float((apart.square() / scale).sum())
    trace = scattered / start if len(scale) else math.nan
    return geometry_of(statistics, names, trace=trace, accuracy=_accuracy(hits, statistics.counts, names))


def number_labels(labels: Any, num_classes: int | None) -> tuple[Tensor, tuple[int | str, ...]]:
    """Numbers of classes `[rows]`, and the names of the classes."""
    array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat):
        array = array.astype(str)
    if array.ndim != 1:
        raise ValueError(f"labels must be one-dimensional, not of shape {list(array.shape)}")
    if len(array) == 0:
        raise ValueError("there are no rows to measure")
    if array.dtype.kind not in "biuU":
        raise TypeError(f"labels must be integers or strings, not {array.dtype}")
    if num_classes is not None:
        if array.dtype.kind == "U":
            raise TypeError("num_classes is for integer labels 0..num_classes-1, and these are strings")
        return torch.from_numpy(array.astype(np.int64)), tuple(range(num_classes))
    names, classes = np.unique(array, return_inverse=True)
    return torch.from_numpy(classes), tuple(names.tolist())


def prepared(features: Tensor, normalize: bool) -> Tensor:
    """Rows as they are measured: in float32 or float64, and of unit norm if asked for."""
    if not features.is_floating_point():
        raise TypeError(f"features must be floating point, not {features.dtype}")
    if features.dtype in (torch.float16, torch.bfloat16):
        features = features.float()
    if not normalize:
        return features
    # Scaled by its largest value first, for the square of a very large or small one would be out of range.
    # Zero rows stay zero; what is not finite stays so, and is refused later.
    largest = torch.linalg.vector_norm(features, ord=torch.inf, dim=1, keepdim=True)
    rows = features / torch.where(largest == 0, 1.0, largest)
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(norms == 0, 1.0, norms)


def with_position(error: ValueError, features: Tensor, start: int = 0) -> ValueError:
    """The same error with the position in the whole, and the value as it was before normalising."""
    bad = (~features.isfinite()).nonzero()
    if not len(bad):
        return error
    row, column = int(bad[0, 0]), int(bad[0, 1])
    value = float(features[row, column])
    return ValueError(f"features[{start + row}, {column}] is {value}; every feature must be finite")


def _accuracy(hits: Tensor, counts: Tensor, names: tuple[int | str, ...]) -> Accuracy:
    present = counts > 0
    rates, sizes = (hits / counts)[present], counts[present]
    own = [name for name, here in zip(names, present.tolist(), strict=True) if here]
    order = torch.argsort(sizes, descending=True, stable=True)
    half = (len(order) + 1) // 2
    worst = int(rates.argmin())
    return Accuracy(
        overall=float(hits.sum() / counts.sum()),
        balanced=float(rates.mean()),
        worst=float(rates[worst]),
        worst_class=own[worst],
        majority=float(rates[order[:half]].mean()),
        minority=float(rates[order[len(order) - half :]].mean()),
        by_class=tuple(rates.tolist()),
    )
