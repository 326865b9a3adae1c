"""Images and labels from files: idx (MNIST), binary records (CIFAR), and arrays of numpy."""

import gzip
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from orthoframe.data._images import LabelledImages
from orthoframe.errors import DataError

_MEND = "delete it, and it is downloaded again"
_SHAPE = (3, 32, 32)  # of a CIFAR image


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array in an idx file (`.gz`): a magic number, the sizes, and exactly as many bytes."""
    try:
        with gzip.open(path) as file:
            head = file.read(4 + 4 * dimensions)
            magic = bytes([0, 0, 8, dimensions])  # 8 stands for unsigned bytes
            if head[:4] != magic:
                raise DataError(
                    f"{path}: not an idx file of bytes with {dimensions} dimensions: it starts with "
                    f"0x{head[:4].hex()}, and 0x{magic.hex()} was expected"
                )
            if len(head) < 4 + 4 * dimensions:
                raise DataError(f"{path}: truncated: the head has {len(head)} bytes of {4 + 4 * dimensions}; {_MEND}")
            shape = [int(size) for size in np.frombuffer(head, ">u4", offset=4)]
            data = file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); {_MEND}") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    expected = math.prod(shape)
    if len(data) != expected:
        fault = "truncated" if len(data) < expected else "too long"
        raise DataError(
            f"{path}: {fault}: {len(data)} bytes after the head, and the shape {shape} needs {expected}; {_MEND}"
        )
    return np.frombuffer(data, np.uint8).reshape(shape).copy()  # torch shares its memory, which must be writable


def read_idx_images(images: Path, labels: Path, classes: tuple[str, ...]) -> LabelledImages:
    """Grey images and their labels from two idx files."""
    pixels, numbers = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(numbers) or pixels.size == 0:
        raise DataError(
            f"{images} has {len(pixels)} images of {pixels.shape[1]} x {pixels.shape[2]} pixels, and {labels.name} has "
            f"{len(numbers)} labels; every image needs one label, and there must be at least one image"
        )
    if numbers.max() >= len(classes):
        place = int(np.argmax(numbers >= len(classes)))
        raise DataError(f"{labels}: label {place} is {numbers[place]}, and labels go from 0 to {len(classes) - 1}")
    return LabelledImages(torch.from_numpy(pixels)[:, None], torch.from_numpy(numbers.astype(np.int64)), classes)


def read_cifar(paths: Sequence[Path], classes: tuple[str, ...], coarse_classes: int = 0) -> LabelledImages:
    """Images and labels from binary files of records: a label, then the red, green and blue pixels.

    CIFAR-100 has a coarse label before each label; coarse labels are checked and dropped.
    """
    limits = [coarse_classes, len(classes)] if coarse_classes else [len(classes)]
    record = len(limits) + math.prod(_SHAPE)
    parts = []
    for path in paths:
        try:
            data = np.fromfile(path, np.uint8)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from None
        if len(data) == 0 or len(data) % record:
            raise DataError(
                f"{path}: it has {len(data)} bytes, and a whole number of records of {record} bytes was expected; "
                f"{_MEND}"
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


def read_npz(path: Path) -> list[LabelledImages]:
    """Training and test images from an `.npz` file, or all images if it does not tell them apart.

    The arrays are `x_train`, `y_train`, `x_test` and `y_test`, or `x` and `y`. Images are uint8, [n, height, width] for
    grey ones or [n, height, width, channels] with 1 or 3 channels; labels are integers or strings, [n]. Classes are the
    distinct training labels, sorted.
    """
    parts = []
    for end, x, y in _read_arrays(path):
        if y.ndim != 1 or y.dtype.kind not in "iuU":
            raise DataError(
                f"{path}: y{end} is {y.dtype} of shape {list(y.shape)}, and labels must be integers or strings, [n]"
            )
        pixels = _pixels(path, f"x{end}", x)
        if len(pixels) != len(y) or not len(y):
            raise DataError(
                f"{path}: x{end} has {len(pixels)} images and y{end} {len(y)} labels; "
                "every image needs one label, and there must be at least one image"
            )
        parts.append((pixels, y))
    names = np.unique(parts[0][1])
    unknown = np.setdiff1d(parts[-1][1], names)
    if len(unknown):
        raise DataError(f"{path}: y_test has the label {unknown[0]!s}, which y_train does not have")
    images = []
    for pixels, labels in parts:
        numbers = np.searchsorted(names, labels).astype(np.int64)
        images.append(LabelledImages(torch.from_numpy(pixels), torch.from_numpy(numbers), tuple(map(str, names))))
    return images


def _read_arrays(path: Path) -> list[tuple[str, NDArray[Any], NDArray[Any]]]:
    """The ending of their names, images and labels of each part."""
    try:
        with open(path, "rb") as stream:  # numpy would leave a broken file open
            start = stream.read(6)
            if not start.startswith((b"PK", b"\x93NUMPY")):  # numpy would take it for a pickle
                raise DataError(f"{path}: not an .npz file; save one with numpy.savez")
            stream.seek(0)
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, NpzFile):
                raise DataError(f"{path}: one array, and an .npz file was expected; save it with numpy.savez")
            for endings in (("_train", "_test"), ("",)):
                if all(axis + end in file.files for axis in "xy" for end in endings):
                    return [(end, file[f"x{end}"], file[f"y{end}"]) for end in endings]
            raise DataError(
                f"{path}: it has the arrays {', '.join(file.files) or 'none'}, not x_train, y_train, x_test, y_test, "
                "or x, y"
            )
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: not an .npz file of plain arrays ({error})") from None


def _pixels(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype != np.uint8:
        raise DataError(
            f"{path}: {name} is {array.dtype}, and pixels must be uint8 from 0 to 255; if they go from 0 to 1, save "
            f"({name} * 255).round().astype('uint8')"
        )
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise DataError(
            f"{path}: {name} is of shape {list(array.shape)}, and must be [n, height, width], or "
            "[n, height, width, channels] with 1 or 3 channels, which come last"
        )
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))
