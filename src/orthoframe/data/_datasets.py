"""Data by its name or from a `Dataset` of torch, and images held out for testing and validation."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orthoframe.data._images import Data, LabelledImages
from orthoframe.data._imbalance import TEST_STREAM, VALIDATION_STREAM, hold_out
from orthoframe.data._listing import (
    Columns,
    Listing,
    check_class_names,
    check_unique,
    chosen_size,
    grouped,
    sorted_classes,
)
from orthoframe.data._preparation import Preparation
from orthoframe.data._readers import READERS, DataParts, DataRequest
from orthoframe.data._sources import Progress, unreported
from orthoframe.data._stream import PreparedFiles, StreamedPixels, decoding_processes, file_stamps, fits_in_memory
from orthoframe.errors import DataError, Option, OptionError, brief
from orthoframe.options import DATA_KINDS, Fit, check_count, check_image_size, check_number


def load_data(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    validation: float = 0.0,
    size: tuple[int, int] | None = None,
    largest: int | None = None,
    channels: int | None = None,
    fit: Fit = "pad",
    columns: Columns | None = None,
    group_by: str | None = None,
    memory: float | None = None,
    workers: int | None = None,
    seed: int = 0,
    download: bool = True,
    progress: Progress | None = None,
) -> Data:
    """Load labelled images for training and testing.

    | name | what |
    |---|---|
    | `digits` | 1797 digits of 8 x 8 pixels, embedded; 25 % of each class are held out |
    | `mnist`, `fashion-mnist` | 28 x 28, from `mnist/*.gz` and `fashion-mnist/*.gz` (idx) |
    | `cifar10`, `cifar100` | 32 x 32, colour, from `cifar-10-batches-bin/*.bin` and `cifar-100-binary/*.bin` |
    | `folder:PATH` | a sub-folder of images for each class; perhaps with `train`, `test` and `validation` above them |
    | `csv:FILE` | a table with a path, a label and perhaps a split and a group for each image |
    | `npz:FILE` | the arrays `x_train`, `y_train`, `x_test`, `y_test`, or `x`, `y`; perhaps the names in `classes` |

    Pixels of arrays are uint8, [n, height, width] or [n, height, width, channels]. Image files may have any size: see
    `Preparation`. Without test images in the data, 20 % of each class are held out.

    Args:
        name: One of these.
        folder: The folder of benchmark sets (default: `ORTHOFRAME_DATA`, else one in the user's cache).
        validation: The fraction of the training images of each class to hold out for validation, unless the data has
            validation images.
        size: Height and width of image files (default: chosen from their sizes).
        largest: Side that a size that is chosen has at most (default: 224).
        channels: Channels of image files: 1 for grey, 3 for colour (default: 1 if all of them are grey).
        fit: How image files get their size.
        columns: The columns of a table, if they are not `path` and `label`.
        group_by: A regular expression that finds the group of an image file in its path, relative to the folder or the
            table: its first capturing group, or all that matches. Groups stay together when images are held out.
        memory: Hold decoded image files in memory if they fit into this many GiB; otherwise stream them (default: a
            quarter of the memory).
        workers: Processes that decode image files (default: one per core).
        seed: Decides which images are held out.
        download: Whether to download missing files from their official source.
        progress: See `Progress`.

    Returns:
        Training, validation and test images, and the name.

    Raises:
        DataError: If the name is unknown, or the data cannot be found, downloaded or read.
        OptionError: For an argument that has no effect on this kind of data.

    Examples:
        >>> data = load_data("digits")
        >>> train, test = data.train, data.test
        >>> len(train), len(test), list(train.image_shape), train.classes[:3]
        (1347, 450, [1, 8, 8], ('0', '1', '2'))
    """
    check_count("seed", seed, 0)
    _check_reading(validation, size, memory)
    kind, path = _kind_and_path(name)
    request = DataRequest(
        name=name,
        path=path,
        folder=folder,
        size=size,
        largest=largest,
        channels=channels,
        fit=fit,
        columns=columns or Columns(),
        group_by=group_by,
        memory=memory,
        workers=workers,
        download=download,
        progress=progress or unreported,
    )
    images = _read(request, kind)
    data = _divide(images, name=name, validation=validation, seed=seed, fit=fit)
    return _read_if_it_fits(data, memory, request.progress)


def load_test(name: str, **reading: Any) -> LabelledImages:
    """The images of data by which an encoder is tested that was trained on others: the test images, or else all.

    Arguments and errors are those of `load_data`.

    Examples:
        >>> len(load_test("digits"))
        1797
    """
    kind, path = _kind_and_path(name)
    images = _read(DataRequest(name=name, path=path, **reading), kind).parts
    part = images.get("test", images["train"])
    check_class_names(name, part.classes)
    return part


def as_data(
    train: Any,
    test: Any = None,
    *,
    name: str = "images",
    validation: float = 0.1,
    size: tuple[int, int] | None = None,
    fit: Fit = "pad",
    workers: int | None = None,
    memory: float | None = None,
    seed: int = 0,
) -> Data:
    """Labelled images from a `torch.utils.data.Dataset`, for `train(settings, out, data=...)`.

    Items are pairs of an image and a label. Images are PIL images of any size, which become RGB, or uint8 tensors
    `[channels, height, width]` of one size; labels are whole numbers or names, or positions in the `classes` of the
    data set, if it has them. Augmentation and normalisation happen in training: leave them out of the data set.

    Args:
        train: The data set.
        test: The data set of test images; without one, 20 % of each class are held out.
        name: The name of the data in the run.
        validation: The fraction of the training images of each class to hold out for validation.
        size: Height and width (default: the size of the first image).
        fit: How PIL images get their size.
        workers: Processes that load images (default: one per core).
        memory: Hold all pixels in memory if they fit into this many GiB; otherwise load images again whenever they are
            needed (default: a quarter of the memory).
        seed: Decides which images are held out.

    Raises:
        DataError: For items of another kind.

    Examples:
        >>> pixels = torch.arange(40, dtype=torch.uint8).view(40, 1, 1, 1).repeat(1, 1, 8, 8)
        >>> items = [(image, "ab"[i % 2]) for i, image in enumerate(pixels)]
        >>> data = as_data(items)
        >>> len(data.train), len(data.validation), len(data.test), data.train.classes
        (28, 4, 8, ('a', 'b'))
    """
    _check_reading(validation, size, memory)
    for part in (train,) if test is None else (train, test):
        if not (hasattr(part, "__len__") and hasattr(part, "__getitem__")):
            raise DataError(f"{name}: a data set with a length and items is needed, not {type(part).__name__}")
        if not len(part):
            raise DataError(f"{name}: the data set is empty")
    processes = decoding_processes(workers)
    shape = _shape(_item(train, 0, name)[0], size, name)
    preparation = Preparation(shape, fit)
    parts = [_DatasetPixels(train, preparation, name)]
    if test is not None:
        parts.append(_DatasetPixels(test, preparation, f"{name}, test"))
    labels = [part.labels() for part in parts]
    classes = sorted_classes(set(labels[0]))
    unknown = set(labels[-1]) - set(classes)
    if unknown:
        raise DataError(f"{name}: the training images have no class {brief(sorted(unknown)[0], 60)!r}")
    numbers = {label: number for number, label in enumerate(classes)}
    images = []
    for part, names in zip(parts, labels, strict=True):
        pixels = StreamedPixels(part, np.arange(len(names)), shape, processes)
        positions = torch.tensor([numbers[each] for each in names])
        images.append(LabelledImages(pixels=pixels, labels=positions, classes=classes))
    named = dict(zip(("train", "test"), images, strict=False))
    data = _divide(DataParts(parts=named), name=f"dataset:{name}", validation=validation, seed=seed, fit=fit)
    return _read_if_it_fits(data, memory, unreported)


def list_files(name: str, columns: Columns | None = None) -> Listing:
    """The image files of data such as `folder:PATH`, none of them opened.

    Raises:
        DataError: If the name is unknown, its images are not in files of their own, or there are none.
    """
    kind, path = _kind_and_path(name)
    listing = READERS[kind](DataRequest(name=name, path=path, columns=columns or Columns()))
    if not isinstance(listing, Listing):
        raise DataError(f"{name}: its images are not in files of their own")
    return listing


def _check_reading(validation: float, size: tuple[int, int] | None, memory: float | None) -> None:
    """Raise an `OptionError` for one of these that is out of range."""
    check_number("validation", validation, least=0, below=1)
    if size is not None:
        check_image_size(size)
    if memory is not None:
        check_number("memory", memory, least=0)


def _kind_and_path(name: str) -> tuple[str, Path]:
    kind, _, path = name.partition(":")
    if kind == "dataset":
        raise DataError(f"{name} was passed from Python; pass it again: resume(..., data=...)")
    if kind not in READERS or bool(path) != bool(DATA_KINDS[kind].path):
        *names, last = map(_usage, READERS)
        if os.path.isdir(os.path.expanduser(name)):
            raise DataError(f"{name} is a folder; its images are the data folder:{name}")
        raise DataError(f"there is no data {name!r}; choose one of {', '.join(names)} or {last}")
    return kind, Path(os.path.expanduser(path))


def _undecoded(listing: Listing, request: DataRequest) -> DataParts:
    """Images of a list of files, none of them decoded yet."""
    stamps = file_stamps(listing.paths)
    heads = listing.heads(lambda done: request.progress("looking at images", done, len(listing.paths)))
    height, width = request.size or chosen_size([head.size for head in heads], request.largest)
    channels = request.channels or (1 if all(head.grey for head in heads) else 3)
    preparation = Preparation((channels, height, width), request.fit)
    files = PreparedFiles(listing.paths, preparation, stamps)
    processes = decoding_processes(request.workers)
    pixels = StreamedPixels(files, np.arange(len(heads)), preparation.image_shape, processes)
    images = LabelledImages(
        pixels=pixels,
        labels=torch.from_numpy(listing.labels),
        classes=listing.classes,
        checksums=listing.checksums(),
    )
    whole = len(listing.parts) == 1  # then a subset would only be a copy
    parts = {part: images if whole else images.subset(places) for part, places in listing.parts.items()}
    groups = None if listing.groups is None else np.array(listing.groups)[listing.parts["train"]]
    return DataParts(parts=parts, groups=groups, left_out=listing.left_out, files=listing.paths)


def _read(request: DataRequest, kind: str) -> DataParts:
    """Images that the reader of their kind returns; of image files none is decoded yet."""
    _refuse_unused(request, kind)
    images = READERS[kind](request)
    if isinstance(images, Listing):
        check_unique(request.path, images)
        images = images if request.group_by is None else grouped(images, request.group_by)
        images = _undecoded(images, request)
    return images


def _refuse_unused(request: DataRequest, kind: str) -> None:
    for option in ("folder", "size", "largest", "channels", "fit", "columns", "group_by", "memory", "workers"):
        if option not in DATA_KINDS[kind].takes and getattr(request, option) != getattr(DataRequest, option):
            *others, last = (_usage(each) for each in READERS if option in DATA_KINDS[each].takes)
            kinds = f"{', '.join(others)} and {last}" if others else last
            raise OptionError(Option(option), f" is for {kinds}, not for ", Option("data", request.name))


def _usage(kind: str) -> str:
    path = DATA_KINDS[kind].path
    return f"{kind}:{path}" if path else kind


def _divide(images: DataParts, *, name: str, validation: float, seed: int, fit: Fit) -> Data:
    """Hold out test and validation images, as far as the data has none.

    Raises:
        DataError: If no class, or no group, is large enough.
    """
    parts, groups = dict(images.parts), images.groups
    for part, fraction, stream in (
        ("test", images.test_fraction, TEST_STREAM),
        ("validation", validation, VALIDATION_STREAM),
    ):
        if part in parts or not fraction:
            continue
        train = parts["train"]
        kept, held = hold_out(train.labels.numpy(), fraction, seed, groups, stream)
        if not len(held) and groups is None:
            raise DataError(f"{name}: no class has enough images to hold {part} images out; at least 2 are needed")
        if not len(held):
            advice = f"use smaller groups, folders train and {part}, or "
            few = f"{name}: there are too few groups to hold {part} images out; {advice}"
            raise DataError(few, Option("split_column"))
        parts |= {"train": train.subset(kept), part: train.subset(held)}
        groups = None if groups is None else groups[kept]
    return Data(
        train=parts["train"],
        test=parts["test"],
        name=name,
        validation=parts.get("validation"),
        fit=fit,
        left_out=images.left_out,
        files=images.files,
        own_validation="validation" in images.parts,
    )


def _read_if_it_fits(data: Data, memory: float | None, progress: Progress) -> Data:
    """Read all images if there is memory for them; else they stay streamed."""
    if data.train.held:
        return data
    number = len(data.train) + len(data.test) + (0 if data.validation is None else len(data.validation))
    size = number * math.prod(data.train.image_shape)
    shown = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
    images = f"{number:,} images ({shown} as pixels)"
    if fits_in_memory(size, memory):
        return data.read(lambda done: progress(f"reading {images}", done, number))
    progress(f"{images} are streamed", number, number)
    return data


class _DatasetPixels:
    """The pixels of a data set, by position."""

    def __init__(self, items: Any, preparation: Preparation, name: str) -> None:
        self.items, self.preparation, self.name = items, preparation, name

    def labels(self) -> list[str]:
        """The classes of all items: by `targets`, if the data set has them, because items have to be decoded."""
        targets = getattr(self.items, "targets", None)
        if targets is None:
            targets = [_item(self.items, position, self.name)[1] for position in range(len(self.items))]
        if len({isinstance(label, str) for label in targets}) > 1:
            raise DataError(f"{self.name}: labels must be all whole numbers or all names, not a mixture of them")
        return [self._class(label, position) for position, label in enumerate(targets)]

    def _class(self, value: Any, position: int) -> str:
        """A class by its name, if the data set has names for numbers, as data sets of torchvision do."""
        single = isinstance(value, np.generic) or (isinstance(value, Tensor) and value.numel() == 1)
        label = value.item() if single else value
        if isinstance(label, bool) or not isinstance(label, int | str):
            actual = brief(repr(label), 60)
            raise DataError(f"{self.name}: label {position} is {actual}, not a whole number or a name")
        names = getattr(self.items, "classes", None)
        has_name = isinstance(names, list | tuple) and isinstance(label, int) and 0 <= label < len(names)
        return str(names[label] if has_name else label)  # type: ignore[index]

    def __getitem__(self, position: int) -> Tensor:
        image, _ = _item(self.items, position, self.name)
        if not isinstance(image, Tensor):
            if image.mode in ("I", "F"):
                raise DataError(f"{self.name}: image {position} has more than 16 bits per channel (mode {image.mode})")
            return self.preparation.pixels_of(image)
        if image.dtype != torch.uint8 or tuple(image.shape) != self.preparation.image_shape:
            expected = list(self.preparation.image_shape)
            raise DataError(
                f"{self.name}: image {position} is {image.dtype} of shape {list(image.shape)}, and uint8 of {expected} "
                "is needed; give PIL images if their sizes differ"
            )
        return image


def _item(items: Any, position: int, name: str) -> tuple[Any, Any]:
    """An image and its label."""
    from PIL.Image import Image

    item = items[position]
    if not (isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], Tensor | Image)):
        raise DataError(f"{name}: item {position} is not a pair of an image (PIL, or a uint8 tensor) and a label")
    return item[0], item[1]


def _shape(image: Any, size: tuple[int, int] | None, name: str) -> tuple[int, int, int]:
    if isinstance(image, Tensor):
        if image.ndim != 3 or image.shape[0] not in (1, 3):
            raise DataError(f"{name}: images must be [1 or 3 channels, height, width], not {list(image.shape)}")
        if size not in (None, tuple(image.shape[1:])):
            raise DataError(f"{name}: tensors keep their size; give PIL images for ", Option("size"))
        return image.shape[0], image.shape[1], image.shape[2]
    height, width = size or (image.height, image.width)
    return 3, height, width  # other images may have colours, even if the first has none
