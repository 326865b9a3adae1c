"""The table of readers, one for each kind of data; the formats of the benchmark sets, and arrays of numpy."""

import gzip
import math
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from orthoframe._arrays import ArrayArchive, StoredArray, labelled_parts
from orthoframe.data._images import LabelledImages
from orthoframe.data._listing import Columns, Listing, list_folder, list_table
from orthoframe.data._sources import SOURCES, Progress, data_folder, fetch, unreported
from orthoframe.errors import DataError, brief, reason_of
from orthoframe.files import LARGEST_FILE, open_file, read_small, read_up_to, reading
from orthoframe.options import Fit

_MEND = "delete it, and it is downloaded again"
_SHAPE = (3, 32, 32)  # of a CIFAR image


@dataclass(frozen=True, kw_only=True)
class DataRequest:
    """The arguments of `load_data`, for a reader."""

    name: str
    path: Path  # the part of the name after the colon
    folder: str | os.PathLike[str] | None = None
    size: tuple[int, int] | None = None
    largest: int | None = None
    channels: int | None = None
    fit: Fit = "pad"
    columns: Columns = field(default=Columns())
    memory: float | None = None
    workers: int | None = None
    group_by: str | None = None
    download: bool = True
    progress: Progress = unreported


@dataclass(frozen=True, kw_only=True, eq=False)
class DataParts:
    """The images that a reader returns."""

    parts: Mapping[str, LabelledImages]  # `train`, and perhaps `test` and `validation`
    # [n], the training images that stay together when some are held out; None if each stands alone.
    groups: NDArray[Any] | None = None
    left_out: tuple[str, ...] = ()  # files in a folder that are not images of a class
    files: tuple[Path, ...] = ()  # of the images, by their places
    test_fraction: float = 0.2  # the fraction of each class to hold out if there are no test images


def _read_digits(request: DataRequest) -> DataParts:
    table = _digits_table()
    pixels = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)  # they go from 0 to 16
    images = _labelled(pixels, table[:, -1], tuple("0123456789"))
    # They are few: 20 % would leave 36 test images per class.
    return DataParts(parts={"train": images}, test_fraction=0.25)


def _labelled(pixels: NDArray[np.uint8], labels: NDArray[Any], classes: tuple[str, ...]) -> LabelledImages:
    numbers = torch.from_numpy(labels.astype(np.int64))
    return LabelledImages(pixels=torch.from_numpy(pixels), labels=numbers, classes=classes)


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
        with reading(path, "an idx file", DataError):
            open_file(path).close()
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
        raise DataError(f"{path}: {reason_of(error)}") from None
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
    return _labelled(pixels[:, None], numbers, classes)


def read_cifar(paths: Sequence[Path], classes: tuple[str, ...], coarse_classes: int = 0) -> LabelledImages:
    """Images and labels from binary files of records: a label, then the red, green and blue pixels.

    CIFAR-100 has a coarse label before each label; coarse labels are checked and dropped.
    """
    limits = [coarse_classes, len(classes)] if coarse_classes else [len(classes)]
    record = len(limits) + math.prod(_SHAPE)
    parts = []
    for path in paths:
        with reading(path, "a file of records", DataError):
            data = np.frombuffer(read_small(path, LARGEST_FILE), np.uint8)
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
    return _labelled(pixels, np.concatenate([part[:, len(limits) - 1] for part in parts]), classes)


def read_npz(path: Path) -> DataParts:
    """Training and test images from an `.npz` file, or all images if it has no test images.

    The arrays are `x_train`, `y_train`, `x_test` and `y_test`, or `x` and `y`. Images are uint8, [n, height, width] for
    grey ones or [n, height, width, channels] with 1 or 3 channels; labels are integers or strings, [n]. Classes are the
    distinct training labels, sorted; their names are in `classes`, if that is there, in the order of labels from 0.
    """
    with reading(path, "an .npz file of plain arrays", DataError):
        with open_file(path) as file:
            start = file.read(6)
        if start == b"\x93NUMPY":
            raise DataError(f"{path}: one array, and an .npz file was expected; save it with numpy.savez")
        if not start.startswith(b"PK"):
            raise DataError(f"{path}: not an .npz file; save one with numpy.savez")
        archive = ArrayArchive(path)
        stored = labelled_parts(archive, ("train", "test"))
        labelled = {part: (x, y) for part, (x, y) in stored.items() if y is not None}
        if not stored or len(labelled) < len(stored):
            raise DataError(
                f"{path}: it has the members {brief(', '.join(archive.members)) or 'none'}, not x_train.npy, "
                "y_train.npy, x_test.npy, y_test.npy, or x.npy, y.npy; save it with numpy.savez"
            )
        arrays = {part or "train": _read_part(path, part and f"_{part}", *pair) for part, pair in labelled.items()}
        names = _read_names(path, archive) if "classes" in archive.names else None
    if names is not None:
        classes = tuple(map(str, names))
        numbers = {part: _check_range(path, labels, len(classes)) for part, (_, labels) in arrays.items()}
    else:
        distinct = np.unique(arrays["train"][1])
        classes = tuple(map(str, distinct))
        numbers = {part: _positions(path, labels, distinct) for part, (_, labels) in arrays.items()}
    return DataParts(parts={part: _labelled(arrays[part][0], numbers[part], classes) for part in arrays})


def _check_range(path: Path, labels: NDArray[Any], classes: int) -> NDArray[Any]:
    """Labels that are positions in a list of names."""
    if labels.dtype.kind == "U" or (len(labels) and not 0 <= labels.min() <= labels.max() < classes):
        raise DataError(f"{path}: with {classes} names in classes, labels must be integers from 0 to {classes - 1}")
    return labels


def _positions(path: Path, labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """The positions of labels among the sorted labels of the training images."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise DataError(f"{path}: y_test has the label {brief(unknown[0])}, which y_train does not have")
    return np.searchsorted(classes, labels)


def _read_names(path: Path, archive: ArrayArchive) -> NDArray[Any]:
    names = archive["classes"]
    if len(names.shape) != 1 or names.dtype.kind != "U" or not names.shape[0]:
        shape = brief(list(names.shape), 60)
        raise DataError(f"{path}: classes is {names.dtype} of shape {shape}, and names must be strings, [k]")
    classes = names.read()
    if len(np.unique(classes)) < len(classes):
        raise DataError(f"{path}: classes has the same name twice")
    return classes


def _read_part(path: Path, end: str, x: StoredArray, y: StoredArray) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    if len(y.shape) != 1 or y.dtype.kind not in "iuU":
        shape = brief(list(y.shape), 60)
        raise DataError(f"{path}: y{end} is {y.dtype} of shape {shape}, and labels must be integers or strings, [n]")
    if x.dtype != np.uint8:
        raise DataError(
            f"{path}: x{end} is {x.dtype}, and pixels must be uint8 from 0 to 255; if they go from 0 to 1, save "
            f"(x{end} * 255).round().astype('uint8')"
        )
    if len(x.shape) not in (3, 4) or (len(x.shape) == 4 and x.shape[3] not in (1, 3)):
        raise DataError(
            f"{path}: x{end} is of shape {brief(list(x.shape), 60)}, and must be [n, height, width], or "
            "[n, height, width, channels] with 1 or 3 channels, which come last"
        )
    if x.shape[0] != y.shape[0] or 0 in x.shape:
        raise DataError(
            f"{path}: x{end} has {x.shape[0]} images of {x.shape[1]} x {x.shape[2]} pixels and y{end} {y.shape[0]} "
            "labels; every image needs one label, and there must be at least one image"
        )
    pixels = x.read()
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(pixels), y.read()


def _read_benchmark(request: DataRequest) -> DataParts:
    source, folder = SOURCES[request.name], data_folder(request.folder)
    if source.missing(folder):
        fetch(request.name, source, folder, request.download, request.progress)
    paths = [folder / source.folder / file for file in source.files]
    if source.archive is None:
        train = read_idx_images(paths[0], paths[1], source.classes)
        test = read_idx_images(paths[2], paths[3], source.classes)
    else:
        train = read_cifar(paths[:-1], source.classes, source.coarse_classes)
        test = read_cifar(paths[-1:], source.classes, source.coarse_classes)
    return DataParts(parts={"train": train, "test": test})


READERS: dict[str, Callable[[DataRequest], DataParts | Listing]] = {
    "digits": _read_digits,
    **dict.fromkeys(SOURCES, _read_benchmark),
    "folder": lambda request: list_folder(request.path),
    "csv": lambda request: list_table(request.path, request.columns),
    "npz": lambda request: read_npz(request.path),
}
"""The readers by kind of data, which return images, or a list of image files.

`orthoframe.options.DATA_KINDS` says which arguments of `load_data` have an effect on each.
"""
