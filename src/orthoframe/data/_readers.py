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
from orthoframe.data._imbalance import hold_out
from orthoframe.errors import DataError

_MEND = "delete it, and it is downloaded again"
_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_SPLIT = ("x_train", "y_train", "x_test", "y_test")
_WHOLE = ("x", "y")


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Read an array of bytes from an idx file: a magic number, the sizes, and exactly as many bytes.

    Args:
        path: Of a `.gz` file.
        dimensions: Number of dimensions: 3 for images, 1 for labels.

    Raises:
        DataError: For a file that is truncated, too long, or not an idx file.
    """
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
    """Read grey images and their labels from two idx files.

    Raises:
        DataError: For a malformed file, files of different length, or a label out of range.
    """
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
    """Read images and labels from binary files of records: a label, then the red, green and blue pixels.

    Args:
        paths: The files, in their order.
        classes: The names of the labels.
        coarse_classes: Number of coarse labels; CIFAR-100 has one before each fine label. They are checked and dropped.

    Raises:
        DataError: For a file that ends inside a record, or has a label out of range.
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


def read_npz(path: Path, held_out: float, seed: int) -> tuple[LabelledImages, LabelledImages]:
    """Read training and test images from an `.npz` file.

    It has the arrays `x_train`, `y_train`, `x_test` and `y_test`, or `x` and `y`, of which a part of each class is held
    out. Images are uint8, [n, height, width] for grey ones or [n, height, width, channels] with 1 or 3 channels; labels
    are integers or strings, [n]. Classes are the distinct training labels, sorted.

    Args:
        path: Of the file.
        held_out: Fraction of each class that becomes the test set, if the file has none.
        seed: Decides which images are held out.

    Raises:
        DataError: For a file without these arrays, or with arrays of another type or shape.
    """
    arrays = _read_arrays(path)
    inputs = {name: _pixels(path, name, array) for name, array in arrays.items() if name.startswith("x")}
    outputs = {name: _labels(path, name, array) for name, array in arrays.items() if name.startswith("y")}
    for x, y in zip(inputs, outputs, strict=True):
        if len(inputs[x]) != len(outputs[y]) or not len(inputs[x]):
            raise DataError(
                f"{path}: {x} has {len(inputs[x])} images and {y} {len(outputs[y])} labels; "
                "every image needs one label, and there must be at least one image"
            )
    names = np.unique(outputs["y" if "y" in outputs else "y_train"])
    classes = tuple(str(name) for name in names)
    parts = []
    for x, y in zip(inputs, outputs, strict=True):
        unknown = outputs[y][~np.isin(outputs[y], names)]
        if len(unknown):
            raise DataError(f"{path}: {y} has the label {unknown[0]!s}, which y_train does not have")
        numbers = np.searchsorted(names, outputs[y]).astype(np.int64)
        parts.append(LabelledImages(torch.from_numpy(inputs[x]), torch.from_numpy(numbers), classes))
    if len(parts) == 2:
        return parts[0], parts[1]
    train, test = hold_out(parts[0].labels.numpy(), held_out, seed)
    return parts[0].subset(train), parts[0].subset(test)


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with open(path, "rb") as stream:  # numpy would leave a broken file open
            start = stream.read(6)
            if not start.startswith((b"PK", b"\x93NUMPY")):  # numpy would take it for a pickle
                raise DataError(f"{path}: not an .npz file; save one with numpy.savez")
            stream.seek(0)
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, NpzFile):
                raise DataError(f"{path}: one array, and an .npz file was expected; save it with numpy.savez")
            wanted = next((group for group in (_SPLIT, _WHOLE) if set(group) <= set(file.files)), None)
            if wanted is None:
                raise DataError(
                    f"{path}: it has the arrays {', '.join(file.files) or 'none'}, not "
                    f"{', '.join(_SPLIT)}, or {', '.join(_WHOLE)}"
                )
            return {name: file[name] for name in wanted}
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


def _labels(path: Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise DataError(
            f"{path}: {name} is {array.dtype} of shape {list(array.shape)}, and labels must be integers or strings, [n]"
        )
    return array
