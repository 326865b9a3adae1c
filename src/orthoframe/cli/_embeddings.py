"""Embeddings with their labels, as `fit` takes them: a folder of shards, an archive of arrays, or two files."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orthoframe.cli._files import open_features, read_arrays, read_labels
from orthoframe.errors import InputError, brief

_ROWS = (("x", "y"), ("features", "labels"))  # the names of features and labels in an archive
_PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """Rows of features, and what is known of them.

    Attributes:
        rows: float32 or float64, [n, dim].
        labels: [n], numbers or names; None if they are not known.
        names: [n], by which rows are told: paths or numbers.
        splits: [n], `train`, `test` or `validation`; None if nothing says.
    """

    rows: NDArray[Any]
    labels: NDArray[Any] | None
    names: tuple[str, ...]
    splits: NDArray[np.str_] | None = None


def read_table(
    features: Path, labels: Path | None = None, *, key: str | None = None, column: str | None = None
) -> EmbeddingTable:
    """Read features, with labels where they are given or in the same place."""
    if os.path.isdir(features):  # a name may be too long for a file
        _refuse(labels, key, column, f"{features} is a folder of features with labels of its own")
        return _read_shards(features)
    if labels is None and features.suffix == ".npz" and key is None:
        return _read_archive(features)
    found = open_features(features, key)
    rows = np.concatenate([part.numpy() if part.element_size() > 2 else part.float().numpy() for part in found.parts()])
    given = None if labels is None else read_labels(labels, column)
    return _checked(features, rows, given)


def _refuse(labels: Path | None, key: str | None, column: str | None, why: str) -> None:
    for given in (labels, key, column):
        if given is not None:
            raise InputError(f"{why}; leave {given} out")


def _read_shards(folder: Path) -> EmbeddingTable:
    from orthoframe.embedding import read_embedding

    found = read_embedding(folder)
    names = tuple(found.paths.tolist())
    labels = None if found.labels is None else np.array(found.classes, dtype=str)[found.labels]
    return EmbeddingTable(found.features, labels, names, found.splits)


def _read_archive(path: Path) -> EmbeddingTable:
    """Of an `.npz` file: `x` and `y`, or `x_train`, `y_train`, `x_test`, `y_test`; perhaps the names in `classes`."""
    pairs = [(f"x_{part}", f"y_{part}") for part in _PARTS]
    arrays = read_arrays(path, {name for pair in (*_ROWS, *pairs) for name in pair} | {"classes", "splits", "paths"})
    if "x_train" in arrays:
        there = [part for part in _PARTS if f"x_{part}" in arrays]
        tables = [_one(path, arrays, f"x_{part}", f"y_{part}") for part in there]
        if len({table.rows.shape[1] for table in tables}) > 1 or any(table.labels is None for table in tables):
            raise InputError(f"{path}: x_train, x_test and so on must have as many columns, and y_train, y_test labels")
        splits = np.repeat(np.array(there, dtype=str), [len(table.rows) for table in tables])
        labels = np.concatenate([table.labels for table in tables if table.labels is not None])
        rows = np.concatenate([table.rows for table in tables])
        return EmbeddingTable(rows, labels, tuple(map(str, range(len(rows)))), splits)
    for x, y in _ROWS:
        if x in arrays:
            return _one(path, arrays, x, y)
    wanted = "x and y, or x_train, y_train, x_test and y_test, or features and labels"
    raise InputError(f"{path}: it needs the arrays {wanted}; it has {brief(', '.join(arrays)) or 'none of them'}")


def _one(path: Path, arrays: Mapping[str, NDArray[Any]], x: str, y: str) -> EmbeddingTable:
    """Rows and labels; numbers become names where there are any."""
    labels, classes = arrays.get(y), arrays.get("classes")
    if labels is not None and classes is not None and classes.ndim == 1 and labels.dtype.kind in "iu":
        if labels.size and not 0 <= labels.min() <= labels.max() < len(classes):
            raise InputError(
                f"{path}: {y} must be from 0 to {len(classes) - 1}, because there are {len(classes)} classes"
            )
        labels = classes[labels]
    table = _checked(path, arrays[x], labels)
    names, splits = arrays.get("paths"), arrays.get("splits")
    told = tuple(map(str, names.tolist())) if names is not None and names.shape == (len(table.rows),) else table.names
    return EmbeddingTable(
        table.rows, table.labels, told, splits if splits is not None and len(splits) == len(told) else None
    )


def _checked(path: Path, rows: NDArray[Any], labels: NDArray[Any] | None) -> EmbeddingTable:
    from orthoframe._rows import label_array

    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or 0 in rows.shape:
        found = f"{rows.dtype} of shape {brief(list(rows.shape), 60)}"
        raise InputError(f"{path}: features must be numbers of shape [rows, dim], not {found}")
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
    return EmbeddingTable(rows, labels, tuple(map(str, range(len(rows)))))
