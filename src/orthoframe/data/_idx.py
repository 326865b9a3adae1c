"""The files of MNIST: idx, compressed with gzip."""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from orthoframe.data._images import LabelledImages
from orthoframe.errors import DataError

_MEND = "delete it, and it is downloaded again"


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An array of bytes from an idx file: magic number, sizes, then every byte and nothing after them.

    Args:
        path: Of a `.gz` file.
        dimensions: How many the array must have: 3 for images, 1 for labels.

    Raises:
        DataError: For a file that is cut short, too long, or something else.
    """
    try:
        with gzip.open(path) as file:
            head = file.read(4 + 4 * dimensions)
            magic = bytes([0, 0, 8, dimensions])  # 8: of unsigned bytes
            if head[:4] != magic:
                raise DataError(
                    f"{path}: not an idx file of bytes with {dimensions} dimensions: it starts with "
                    f"0x{head[:4].hex()}, and 0x{magic.hex()} was expected"
                )
            if len(head) < 4 + 4 * dimensions:
                raise DataError(f"{path}: cut short: the head has {len(head)} bytes of {4 + 4 * dimensions}; {_MEND}")
            shape = [int(size) for size in np.frombuffer(head, ">u4", offset=4)]
            data = file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); {_MEND}") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    expected = math.prod(shape)
    if len(data) != expected:
        fault = "cut short" if len(data) < expected else "too long"
        raise DataError(
            f"{path}: {fault}: {len(data)} bytes after the head, and the shape {shape} needs {expected}; {_MEND}"
        )
    return np.frombuffer(data, np.uint8).reshape(shape).copy()  # what torch shares must be writable


def read_idx_images(images: Path, labels: Path, classes: tuple[str, ...]) -> LabelledImages:
    """Grey images and their labels from two idx files.

    Raises:
        DataError: For a malformed file, files of different length, or a label that is not one of the classes.
    """
    pixels, numbers = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(numbers) or pixels.size == 0:
        raise DataError(
            f"{images} has {len(pixels)} images of {pixels.shape[1]} x {pixels.shape[2]} pixels, and {labels.name} has "
            f"{len(numbers)} labels; there must be as many, and at least one"
        )
    if numbers.max() >= len(classes):
        place = int(np.argmax(numbers >= len(classes)))
        raise DataError(f"{labels}: label {place} is {numbers[place]}, and labels go from 0 to {len(classes) - 1}")
    return LabelledImages(torch.from_numpy(pixels)[:, None], torch.from_numpy(numbers.astype(np.int64)), classes)
