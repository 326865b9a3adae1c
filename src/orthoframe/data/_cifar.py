"""The binary files of CIFAR."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from orthoframe.data._images import LabelledImages
from orthoframe.errors import DataError

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32


def read_cifar(paths: Sequence[Path], classes: tuple[str, ...], coarse_classes: int = 0) -> LabelledImages:
    """Images and labels from binary files, one record after the other: the label, then red, green and blue.

    Args:
        paths: The files, in their order.
        classes: The names of the labels.
        coarse_classes: CIFAR-100 has a coarse label before the fine one, of so many; it is checked and left out.

    Raises:
        DataError: For a file that does not end with a record, or has a label that is not one of the classes.
    """
    limits = [coarse_classes, len(classes)] if coarse_classes else [len(classes)]
    record = len(limits) + _PIXELS
    parts = []
    for path in paths:
        try:
            data = np.fromfile(path, np.uint8)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from None
        if len(data) == 0 or len(data) % record:
            raise DataError(
                f"{path}: it has {len(data)} bytes, and a whole number of records of {record} bytes was expected; "
                "delete it, and it is downloaded again"
            )
        part = data.reshape(-1, record)
        for column, limit in enumerate(limits):
            wrong = np.flatnonzero(part[:, column] >= limit)
            if len(wrong):
                raise DataError(
                    f"{path}: record {wrong[0]} has the label {part[wrong[0], column]}, "
                    f"and labels go from 0 to {limit - 1}"
                )
        parts.append(part)
    records = np.concatenate(parts)
    pixels = np.ascontiguousarray(records[:, len(limits) :]).reshape(-1, *_SHAPE)
    labels = records[:, len(limits) - 1].astype(np.int64)
    return LabelledImages(torch.from_numpy(pixels), torch.from_numpy(labels), classes)
