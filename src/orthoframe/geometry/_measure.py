"""Measure features in memory, or features that come in parts."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Labels, feature_tensor, label_array, label_tensor
from orthoframe.geometry._centres import NearestCentre, accuracy_from, class_sums
from orthoframe.geometry._geometry import Geometry, geometry_of
from orthoframe.geometry._statistics import (
    CHUNK,
    ClassStatistics,
    Rows,
    add_rows,
    between_directions,
    check_range,
    prepared,
)
from orthoframe.options import check_size

Part = tuple[Tensor | NDArray[Any], Tensor]
# Wider features have no d x d scatter in memory; the collapse is measured in the second pass instead.
WIDE = 4096


def measure(
    features: Rows,
    labels: Tensor | NDArray[Any] | Sequence[Any],
    *,
    num_classes: int | None = None,
    normalize: bool = True,
) -> Geometry:
    """Measure how the features of classes are arranged.

    Args:
        features: `[rows, dim]`, a tensor on any device, an array, which may be mapped from a file, or nested lists.
        labels: `[rows]`, integers or strings. Integers are taken as they are if `num_classes` is given.
        num_classes: Expected classes, 0..num_classes-1; those without rows are reported as missing. By default the
            classes that occur.
        normalize: Whether to divide each row by its norm first, as the loss does; a row that is not longer than 1e-12
            counts as zero.

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
    # What is mapped from a file is not read here.
    rows = features if isinstance(features, np.ndarray) else feature_tensor(features)
    if rows.ndim != 2:
        raise ValueError(f"features must have shape [rows, dim], not {list(rows.shape)}")
    classes, names = _numbered(labels, num_classes)
    if len(classes) != len(rows):
        raise ValueError(f"features have {len(rows)} rows and labels {len(classes)}; they must agree")
    return measure_parts(lambda: [(rows, classes)], int(rows.shape[1]), names, normalize=normalize)


def measure_parts(
    parts: Callable[[], Iterable[Part]], dim: int, names: tuple[int | str, ...], *, normalize: bool = True
) -> Geometry:
    """`measure` for features that do not fit into memory.

    Args:
        parts: Called twice; yields features and class numbers of consecutive rows, from the start each time.
        dim: d.
        names: `[k]`, names of the classes.
        normalize: As in `measure`.
    """
    statistics = ClassStatistics(len(names), dim, scatter=dim <= WIDE)
    start = 0
    for features, labels in _small(parts(), dim):
        add_rows(statistics, features, labels, normalize, start)
        start += len(features)
    if not start:
        raise ValueError("there are no rows to measure")
    present = statistics.counts > 0
    classifier = NearestCentre(torch.where(present[:, None], statistics.means, torch.nan))
    directions, scale = between_directions(statistics.means[present])
    sums, scattered = statistics.means.new_zeros(3, len(names)), 0.0
    for features, labels in _small(parts(), dim):
        rows = prepared(features, normalize)
        sums += class_sums(classifier.scores(rows), labels, len(names))
        if statistics.within is None:
            apart = (rows.double() - statistics.means.index_select(0, labels)) @ directions
            scattered += float((apart.square() / scale).sum())
    trace = scattered / start if len(scale) else math.nan
    seen = [name for name, here in zip(names, present.tolist(), strict=True) if here]
    return geometry_of(statistics, names, trace=trace, accuracy=accuracy_from(sums[:, present], seen))


def _small(parts: Iterable[Part], dim: int) -> Iterable[tuple[Tensor, Tensor]]:
    """The same rows as tensors, in parts whose float64 copies stay in the cache."""
    step = max(1, CHUNK // dim)
    for features, labels in parts:
        for start in range(0, len(features), step):
            rows = feature_tensor(features[start : start + step])
            yield rows, labels[start : start + step].to(rows.device)


def _numbered(labels: Any, num_classes: int | None) -> tuple[Tensor, tuple[int | str, ...]]:
    """The class number of each row, and the class names."""
    array = label_array(labels)
    if len(array) == 0:
        raise ValueError("there are no rows to measure")
    if num_classes is None:
        found = Labels.of(array)
        return torch.from_numpy(found.classes).long(), found.names
    if array.dtype.kind == "U":
        raise TypeError("num_classes is for integer labels 0..num_classes-1, and these are strings")
    classes, num_classes = label_tensor(array, torch.device("cpu")), check_size("num_classes", num_classes)
    check_range(classes, num_classes)  # here, where positions are those in the whole
    return classes, tuple(range(num_classes))
