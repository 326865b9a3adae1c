"""Images and labels from files: the digits, idx (MNIST), binary records (CIFAR), and arrays of numpy."""

import gzip
import math
import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from orthoframe._arrays import ArrayArchive, StoredArray
from orthoframe._files import read_up_to, reading
from orthoframe.data._images import LabelledImages
from orthoframe.errors import DataError, brief

_MEND = "delete it, and it is downloaded again"
_SHAPE = (3, 32, 32)  # of a CIFAR image


def read_digits() -> LabelledImages:
    """The digits that come with scikit-learn."""
    table = _digits_table()
    pixels = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)  # they go from 0 to 16
    labels = torch.from_numpy(table[:, -1].astype(np.int64))
    return LabelledImages(torch.from_numpy(pixels), labels, tuple("0123456789"))


def _digits_table() -> NDArray[np.float64]:
    """64 pixels and the class per row, from the file of scikit-learn: importing it takes seconds."""
    package = find_spec("sklearn")
    folders = [] if package is None else package.submodule_search_locations or []
    files = [path for folder in folders if (path := Path(folder, "datasets", "data", "digits.csv.gz")).exists()]
    if files:
        with gzip.open(files[0]) as lines:
            return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.column_stack([digits.data, digits.target])


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
            expected = math.prod(shape)
            data = read_up_to(file, expected + 1)  # one more tells a file that is too long
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); {_MEND}") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    if len(data) != expected:
        problem = f"truncated: {len(data)} bytes" if len(data) < expected else "too long: more bytes"
        raise DataError(f"{path}: {problem} after the head, and the shape {shape} needs {expected}; {_MEND}")
    try:
        return np.frombuffer(data, np.uint8).reshape(shape)
    except ValueError:  # no entries, but sizes whose product is out of range
        raise DataError(f"{path}: no array has the shape {shape}; {_MEND}") from None


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
        with reading(path, "a file of records", DataError):
            data = np.fromfile(path, np.uint8)
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
    pixels = np.concatenate([part[:, len(limits) :] for part in parts]).reshape(-1, *_SHAPE)
    labels = np.concatenate([part[:, len(limits) - 1] for part in parts]).astype(np.int64)
    return LabelledImages(torch.from_numpy(pixels), torch.from_numpy(labels), classes)


def read_npz(path: Path) -> list[LabelledImages]:
    """Training and test images from an `.npz` file, or all images if it has no test images.

    The arrays are `x_train`, `y_train`, `x_test` and `y_test`, or `x` and `y`. Images are uint8, [n, height, width] for
    grey ones or [n, height, width, channels] with 1 or 3 channels; labels are integers or strings, [n]. Classes are the
    distinct training labels, sorted; their names are in `classes`, if that is there, in the order of labels from 0.
    """
    parts, classes = _read_parts(path)
    if classes is not None:
        return [_named(path, pixels, labels, classes) for pixels, labels in parts]
    names = np.unique(parts[0][1])
    unknown = np.setdiff1d(parts[-1][1], names)
    if len(unknown):
        raise DataError(f"{path}: y_test has the label {brief(unknown[0])}, which y_train does not have")
    images = []
    for pixels, labels in parts:
        numbers = np.searchsorted(names, labels).astype(np.int64)
        images.append(LabelledImages(torch.from_numpy(pixels), torch.from_numpy(numbers), tuple(map(str, names))))
    return images


def _named(path: Path, pixels: NDArray[np.uint8], labels: NDArray[Any], classes: NDArray[Any]) -> LabelledImages:
    """Images whose labels are positions in a list of names."""
    if labels.dtype.kind == "U" or (len(labels) and not 0 <= labels.min() <= labels.max() < len(classes)):
        raise DataError(
            f"{path}: with {len(classes)} names in classes, labels must be integers from 0 to {len(classes) - 1}"
        )
    names = tuple(map(str, classes))
    if len(set(names)) < len(names):
        raise DataError(f"{path}: classes has the same name twice")
    return LabelledImages(torch.from_numpy(pixels), torch.from_numpy(labels.astype(np.int64)), names)


def _read_parts(path: Path) -> tuple[list[tuple[NDArray[np.uint8], NDArray[Any]]], NDArray[Any] | None]:
    """Pixels and labels of each part, and names; headers are checked before arrays are read."""
    with reading(path, "an .npz file of plain arrays", DataError):
        with open(path, "rb") as file:
            start = file.read(6)
        if start == b"\x93NUMPY":
            raise DataError(f"{path}: one array, and an .npz file was expected; save it with numpy.savez")
        if not start.startswith(b"PK"):
            raise DataError(f"{path}: not an .npz file; save one with numpy.savez")
        archive = ArrayArchive(path)
        for endings in (("_train", "_test"), ("",)):
            if all(axis + end in archive.names for axis in "xy" for end in endings):
                return [_read_part(path, archive, end) for end in endings], _read_names(path, archive)
        raise DataError(
            f"{path}: it has the members {brief(', '.join(archive.members)) or 'none'}, not x_train.npy, "
            "y_train.npy, x_test.npy, y_test.npy, or x.npy, y.npy; save it with numpy.savez"
        )


def _read_names(path: Path, archive: ArrayArchive) -> NDArray[Any] | None:
    if "classes" not in archive.names:
        return None
    names = archive["classes"]
    if len(names.shape) != 1 or names.dtype.kind != "U" or not names.shape[0]:
        shape = brief(list(names.shape), 60)
        raise DataError(f"{path}: classes is {names.dtype} of shape {shape}, and names must be strings, [k]")
    return names.read()


def _read_part(path: Path, archive: ArrayArchive, end: str) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    x, y = archive[f"x{end}"], archive[f"y{end}"]
    if len(y.shape) != 1 or y.dtype.kind not in "iuU":
        shape = brief(list(y.shape), 60)
        raise DataError(f"{path}: y{end} is {y.dtype} of shape {shape}, and labels must be integers or strings, [n]")
    _check_pixels(path, f"x{end}", x)
    if x.shape[0] != y.shape[0] or 0 in x.shape:
        raise DataError(
            f"{path}: x{end} has {x.shape[0]} images of {x.shape[1]} x {x.shape[2]} pixels and y{end} {y.shape[0]} "
            "labels; every image needs one label, and there must be at least one image"
        )
    pixels = x.read()
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(pixels), y.read()


def _check_pixels(path: Path, name: str, array: StoredArray) -> None:
    if array.dtype != np.uint8:
        raise DataError(
            f"{path}: {name} is {array.dtype}, and pixels must be uint8 from 0 to 255; if they go from 0 to 1, save "
            f"({name} * 255).round().astype('uint8')"
        )
    shape = array.shape
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3)):
        raise DataError(
            f"{path}: {name} is of shape {brief(list(shape), 60)}, and must be [n, height, width], or "
            "[n, height, width, channels] with 1 or 3 channels, which come last"
        )
