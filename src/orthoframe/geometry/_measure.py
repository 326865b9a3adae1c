"""Measure features in memory, or features that come in parts."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import AnyLabels, Labels, Rows, Weights, feature_tensor, label_array, label_tensor
from orthoframe.errors import brief
from orthoframe.geometry._accuracy import accuracy_from, class_sums
from orthoframe.geometry._arrangement import classifier_distance
from orthoframe.geometry._classifiers import LinearClassifier, NearestCentre
from orthoframe.geometry._geometry import Geometry, geometry_of
from orthoframe.geometry._statistics import (
    CHUNK,
    ClassStatistics,
    add_rows,
    between_directions,
    check_range,
    prepared,
)
from orthoframe.options import check_size

Part = tuple[Tensor | NDArray[Any], Tensor] | tuple[Tensor | NDArray[Any], Tensor, Tensor]
# Wider features have no d x d scatter in memory; the collapse is measured in the second pass instead.
WIDE = 4096


def measure(
    features: Rows,
    labels: AnyLabels,
    *,
    num_classes: int | None = None,
    weights: Weights | None = None,
    classifier: Rows | None = None,
    bias: Weights | None = None,
    normalize: bool = True,
) -> Geometry:
    """Measure how the features of classes are arranged.

    Args:
        features: `[rows, dim]`, a tensor on any device, an array, which may be mapped from a file, or nested lists.
        labels: `[rows]`, integers or strings. Integers are taken as they are if `num_classes` is given.
        num_classes: Expected classes, 0..num_classes-1; those without rows are reported as missing. By default the
            classes that occur.
        weights: `[rows]`, positive: how much a row counts in the means, spreads and accuracy of its class, relative to
            the other rows of the class. Classes count by their rows as before.
        classifier: `[k, dim]`, the weights of a linear classifier, one row per class in the order of `names` (with
            `num_classes`: of all classes), for `nc3` and `nc4`. It gets the features as they are given.
        bias: `[k]`, of the classifier; zero by default.
        normalize: Whether to divide each row by its norm first, as the loss does; a row that is not longer than 1e-12
            counts as zero.

    Raises:
        ValueError: For wrong shapes, labels out of range, a value that is not finite (with its position), no rows.
        TypeError: For wrong dtypes.

    Examples:
        >>> labels = torch.arange(3).repeat_interleave(5)
        >>> geometry = measure(torch.eye(3)[labels], labels)
        >>> round(geometry.delta_of, 12), round(geometry.accuracy.balanced, 3)
        (0.0, 1.0)
        >>> print(geometry.verdict())
        Class means form an orthogonal frame, and classes have collapsed.
    """
    # What is mapped from a file is not read here.
    rows = features if isinstance(features, np.ndarray) else feature_tensor(features).detach()
    if rows.ndim != 2:
        raise ValueError(f"features must have shape [rows, dim], not {list(rows.shape)}")
    classes, names = _numbered(labels, num_classes)
    if len(classes) != len(rows):
        raise ValueError(f"features have {len(rows)} rows and labels {len(classes)}; they must agree")
    part = (rows, classes) if weights is None else (rows, classes, _relative(weights, classes))
    if bias is not None and classifier is None:
        raise ValueError("bias belongs to a classifier; give its weights too, as classifier")
    dim = int(rows.shape[1])
    linear = None if classifier is None else LinearClassifier.of(classifier, bias, len(names), dim)
    return measure_parts(lambda: [part], dim, names, classifier=linear, normalize=normalize)


def measure_parts(
    parts: Callable[[], Iterable[Part]],
    dim: int,
    names: tuple[int | str, ...],
    *,
    classifier: LinearClassifier | None = None,
    normalize: bool = True,
) -> Geometry:
    """`measure` for features that do not fit into memory.

    Args:
        parts: Called twice; yields features and class numbers of consecutive rows, from the start each time, and
            weights where rows have any, whose mean over the rows of each class must be 1.
        dim: d.
        names: `[k]`, names of the classes.
        classifier: Of the features as they are given, for `nc3` and `nc4`.
        normalize: As in `measure`.
    """
    statistics = ClassStatistics(len(names), dim, scatter=dim <= WIDE)
    start = 0
    # Float64 copies stay in the cache, unless the means are larger.
    for features, labels, weights in _small(parts(), max(CHUNK // dim, len(names))):
        add_rows(statistics, features, labels, normalize, start, weights)
        start += len(features)
    if not start:
        raise ValueError("there are no rows to measure")
    present = statistics.counts > 0
    nearest = NearestCentre(torch.where(present[:, None], statistics.means, torch.nan))
    axes = between_directions(statistics.means[present]) if statistics.within is None else None
    sums, scattered, different = statistics.means.new_zeros(3, len(names)), 0.0, 0.0
    for features, labels, weights in _small(parts(), CHUNK // max(dim, len(names))):
        rows = prepared(features, normalize)
        scores = nearest.scores(rows)
        sums += class_sums(scores, labels, len(names), weights)
        if classifier is not None:
            differs = (classifier.predict(features) != scores.argmax(1)).double()
            different += float((differs if weights is None else differs * weights).sum())
        if axes is not None:
            directions, scale = axes
            apart = ((rows.double() - statistics.means.index_select(0, labels)) @ directions).square() / scale
            scattered += float((apart if weights is None else apart * weights[:, None]).sum())
    trace = scattered / start if axes is not None and len(axes[1]) else None
    accuracy = accuracy_from(
        sums[:, present], [name for name, here in zip(names, present.tolist(), strict=True) if here]
    )
    geometry = geometry_of(statistics, names, trace=trace, accuracy=accuracy)
    if classifier is None:
        return geometry
    nc3 = classifier_distance(classifier.weights.cpu()[present.cpu()], geometry.means)
    return replace(geometry, nc3=nc3, nc4=different / start)


def _small(parts: Iterable[Part], most: int) -> Iterable[tuple[Tensor, Tensor, Tensor | None]]:
    """The same rows as tensors, at most so many at once."""
    step = max(1, most)
    for features, labels, *weights in parts:
        for start in range(0, len(features), step):
            part = slice(start, start + step)
            rows = feature_tensor(features[part])
            yield rows, labels[part].to(rows.device), weights[0][part].to(rows.device) if weights else None


def _relative(weights: Any, classes: Tensor) -> Tensor:
    """Weights whose mean over the rows of each class is 1, so that their sums are the numbers of rows."""
    try:
        rows = torch.as_tensor(weights, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise TypeError(f"weights must be an array of numbers, not {brief(type(weights).__name__)}") from None
    if rows.shape != classes.shape:
        raise ValueError(f"weights must have shape {list(classes.shape)}, not {list(rows.shape)}")
    wrong = (~((rows > 0) & rows.isfinite())).nonzero()
    if len(wrong):
        row = int(wrong[0, 0])
        raise ValueError(f"weights[{row}] is {float(rows[row])}; weights must be positive and finite")
    largest = rows.new_zeros(int(classes.max()) + 1).scatter_reduce(0, classes, rows, "amax")
    rows = rows / largest[classes]  # or sums might overflow
    return rows * (torch.bincount(classes) / torch.bincount(classes, rows))[classes]


def _numbered(labels: Any, num_classes: int | None) -> tuple[Tensor, tuple[int | str, ...]]:
    """The class number of each row, and the class names."""
    array = label_array(labels)
    if len(array) == 0:
        raise ValueError("there are no rows to measure")
    if num_classes is None:
        numbered = Labels.of(array)
        return torch.from_numpy(numbered.classes).long(), numbered.names
    if array.dtype.kind == "U":
        raise TypeError("num_classes is for integer labels 0..num_classes-1, and these are strings")
    classes, num_classes = label_tensor(array, torch.device("cpu")), check_size("num_classes", num_classes)
    check_range(classes, num_classes)  # here, where positions are those in the whole
    return classes, tuple(range(num_classes))
