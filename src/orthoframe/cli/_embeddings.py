"""Embeddings with their labels, as `fit` takes them: a folder of shards, an archive of arrays, or two files."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orthoframe.cli._files import open_features, read_arrays, read_labels
from orthoframe.errors import InputError, brief

_PARTS = ("train", "validation", "test")
# Names of features and labels in an archive: all rows together, or in parts.
_TOGETHER = (("x", "y"), ("features", "labels"))
_IN_PARTS = tuple((f"x_{part}", f"y_{part}") for part in _PARTS)


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """Rows of features with their labels.

    Attributes:
        rows: float32 or float64, [n, dim].
        labels: [n], numbers or names; None without labels.
        names: [n], the path of each row; None where rows are numbered.
        splits: [n], `train`, `test` or `validation`; None if rows are not divided.
    """

    rows: NDArray[Any]
    labels: NDArray[Any] | None
    names: NDArray[Any] | None = None
    splits: NDArray[Any] | None = None


def read_table(
    features: Path, labels: Path | None = None, *, key: str | None = None, column: str | None = None
) -> EmbeddingTable:
    """Read features, with labels from a file of their own or from the same place."""
    if os.path.isdir(features):  # a name may be too long for a file
        for option in (labels, key, column):
            if option is not None:
                raise InputError(f"{features} is a folder of features with labels of its own; leave {option} out")
        return _read_shards(features)
    if labels is None and features.suffix == ".npz" and key is None:
        return _read_archive(features)
    parts = open_features(features, key).parts()
    rows = np.concatenate([part.numpy() if part.element_size() > 2 else part.float().numpy() for part in parts])
    return _checked(features, rows, None if labels is None else read_labels(labels, column))


def _read_shards(folder: Path) -> EmbeddingTable:
    from orthoframe.embedding import read_embedding

    embedding = read_embedding(folder)
    labels = None if embedding.labels is None else np.array(embedding.classes, dtype=str)[embedding.labels]
    return EmbeddingTable(embedding.features, labels, embedding.paths, embedding.splits)


def _read_archive(path: Path) -> EmbeddingTable:
    """Rows of an `.npz` file; labels that are numbers become names if it has `classes`."""
    pairs = (*_TOGETHER, *_IN_PARTS)
    arrays = read_arrays(path, (*(name for pair in pairs for name in pair), "classes", "splits", "paths"))
    tables = {}
    for x, y in pairs:
        if x in arrays:
            labels = arrays.get(y)
            if labels is not None and "classes" in arrays:
                labels = _named(path, y, labels, arrays["classes"])
            tables[x] = _checked(path, arrays[x], labels)
    if "x_train" in tables:
        return _joined(path, [(part, tables[f"x_{part}"]) for part in _PARTS if f"x_{part}" in tables])
    for x, _ in _TOGETHER:
        if x in tables:
            rows, names, splits = tables[x].rows, arrays.get("paths"), arrays.get("splits")
            fitting = [
                array if array is not None and array.shape == (len(rows),) else None for array in (names, splits)
            ]
            return EmbeddingTable(rows, tables[x].labels, *fitting)
    needed = "x and y, or x_train, y_train, x_test and y_test, or features and labels"
    raise InputError(f"{path}: it needs the arrays {needed}; it has {brief(', '.join(arrays)) or 'none of them'}")


def _named(path: Path, name: str, labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Labels as names of classes, if they are numbers."""
    if classes.ndim != 1 or labels.dtype.kind not in "iu":
        return labels
    k = len(classes)
    if labels.size and not 0 <= labels.min() <= labels.max() < k:
        raise InputError(f"{path}: {name} must be from 0 to {k - 1}, because there are {k} classes")
    return np.asarray(classes[labels])


def _joined(path: Path, parts: list[tuple[str, EmbeddingTable]]) -> EmbeddingTable:
    labels = [table.labels for _, table in parts if table.labels is not None]
    if len({table.rows.shape[1] for _, table in parts}) > 1 or len(labels) < len(parts):
        raise InputError(f"{path}: x_train, x_test and so on must have as many columns, and y_train, y_test labels")
    rows = np.concatenate([table.rows for _, table in parts])
    splits = np.concatenate([np.full(len(table.rows), part) for part, table in parts])
    return EmbeddingTable(rows, np.concatenate(labels), splits=splits)


def _checked(path: Path, rows: NDArray[Any], labels: NDArray[Any] | None) -> EmbeddingTable:
    from orthoframe._rows import label_array

    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or 0 in rows.shape:
        actual = f"{rows.dtype} of shape {brief(list(rows.shape), 60)}"
        raise InputError(f"{path}: features must be numbers of shape [rows, dim], not {actual}")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64 if rows.dtype.itemsize > 2 else np.float32)
    if not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows).all(1))[0])
        raise InputError(f"{path}: row {row} has a value that is not finite")
    if labels is not None:
        if labels.shape != (len(rows),):
            raise InputError(f"{path}: there are {len(rows)} rows and labels of shape {brief(list(labels.shape), 40)}")
        try:
            labels = label_array(labels)
        except (ValueError, TypeError) as error:
            raise InputError(f"{path}: {brief(error)}") from error
    return EmbeddingTable(rows, labels)
