"""Data by its name, and images held out for testing and validation."""

import math
import os
from pathlib import Path

import numpy as np
import torch

from orthoframe.data._images import Data, LabelledImages
from orthoframe.data._imbalance import VALIDATION_STREAM, hold_out
from orthoframe.data._listing import Columns, Listing, check_unique, chosen_size
from orthoframe.data._preparation import Preparation
from orthoframe.data._readers import READERS, DataParts, DataRequest
from orthoframe.data._sources import Progress, unreported
from orthoframe.data._stream import PreparedFiles, StreamedPixels, available_cores, fits_in_memory
from orthoframe.errors import DataError, Option, OptionError
from orthoframe.options import DATA_KINDS, Fit, check_count, check_image_size, check_number


def load_data(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    validation: float = 0.0,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    fit: Fit = "pad",
    columns: Columns | None = None,
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
        channels: Channels of image files: 1 for grey, 3 for colour (default: 1 if all of them are grey).
        fit: How image files get their size.
        columns: The columns of a table, if they are not `path` and `label`.
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
    check_reading(validation, size, memory)
    kind, path = _kind_and_path(name)
    request = DataRequest(
        name=name,
        path=path,
        folder=folder,
        size=size,
        channels=channels,
        fit=fit,
        columns=columns or Columns(),
        memory=memory,
        workers=workers,
        download=download,
        progress=progress or unreported,
    )
    _refuse_unused(request, kind)
    images = READERS[kind](request)
    if isinstance(images, Listing):
        check_unique(path, images)
        images = _undecoded(images, request)
    data = divide(images, name=name, validation=validation, seed=seed, fit=fit)
    return data if data.train.held else _read_if_it_fits(data, request)


def list_files(name: str, columns: Columns | None = None) -> Listing:
    """The image files of data such as `folder:PATH`, none of them opened.

    Raises:
        DataError: If the name is unknown, its images are not in files of their own, or there are none.
    """
    kind, path = _kind_and_path(name)
    request = DataRequest(name=name, path=path, columns=columns or Columns(), progress=unreported)
    listing = READERS[kind](request)
    if not isinstance(listing, Listing):
        raise DataError(f"{name}: its images are not in files of their own")
    return listing


def check_reading(validation: float, size: tuple[int, int] | None, memory: float | None) -> None:
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
        raise DataError(f"there is no data {name!r}; choose one of {', '.join(names)} or {last}")
    return kind, Path(os.path.expanduser(path))


def _undecoded(listing: Listing, request: DataRequest) -> DataParts:
    """Images of a list of files, none of them decoded yet."""
    heads = listing.heads(lambda done: request.progress("looking at images", done, len(listing.paths)))
    height, width = request.size or chosen_size([head.size for head in heads])
    channels = request.channels or (1 if all(head.grey for head in heads) else 3)
    preparation = Preparation((channels, height, width), request.fit)
    workers = available_cores() if request.workers is None else request.workers
    files = PreparedFiles(listing.paths, preparation)
    pixels = StreamedPixels(files, np.arange(len(heads)), preparation.image_shape, workers)
    images = LabelledImages(pixels, torch.from_numpy(listing.labels), listing.classes, checksums=listing.checksums())
    whole = len(listing.parts) == 1  # then a subset would only be a copy
    parts = {part: images if whole else images.subset(places) for part, places in listing.parts.items()}
    groups = None if listing.groups is None else np.array(listing.groups)[listing.parts["train"]]
    return DataParts(parts=parts, groups=groups, left_out=listing.left_out)


def _refuse_unused(request: DataRequest, kind: str) -> None:
    unused = DataRequest(name="", path=request.path, columns=Columns(), progress=request.progress)
    for option in ("folder", "size", "channels", "fit", "columns", "memory", "workers"):
        if getattr(request, option) != getattr(unused, option) and option not in DATA_KINDS[kind].takes:
            *others, last = (_usage(each) for each in READERS if option in DATA_KINDS[each].takes)
            kinds = f"{', '.join(others)} and {last}" if others else last
            raise OptionError(Option(option), f" is for {kinds}, not for ", Option("data", request.name))


def _usage(kind: str) -> str:
    path = DATA_KINDS[kind].path
    return f"{kind}:{path}" if path else kind


def divide(images: DataParts, *, name: str, validation: float, seed: int, fit: Fit) -> Data:
    """Hold out test and validation images, as far as the data has none.

    Raises:
        DataError: If no class, or no group, is large enough.
    """
    parts, groups = dict(images.parts), images.groups
    train, own_validation = parts["train"], "validation" in parts
    if "test" not in parts:
        kept, held = hold_out(train.labels.numpy(), images.test_fraction, seed, groups)
        parts["test"] = train.subset(held)
        train, groups = train.subset(kept), None if groups is None else groups[kept]
    if not own_validation and validation:
        kept, held = hold_out(train.labels.numpy(), validation, seed, groups, VALIDATION_STREAM)
        parts["validation"], train = train.subset(held), train.subset(kept)
    for part, held_images in parts.items():
        if len(held_images):
            continue
        if groups is None:
            raise DataError(f"{name}: no class has enough images to hold {part} images out; 2 are the fewest")
        raise DataError(f"{name}: there are too few groups to hold {part} images out; use ", Option("split_column"))
    return Data(
        train=train,
        test=parts["test"],
        name=name,
        validation=parts.get("validation"),
        fit=fit,
        left_out=images.left_out,
        own_validation=own_validation,
    )


def _read_if_it_fits(data: Data, request: DataRequest) -> Data:
    """Read all images if there is memory for them; else they stay streamed."""
    number = len(data.train) + len(data.test) + (0 if data.validation is None else len(data.validation))
    size = number * math.prod(data.train.image_shape)
    memory = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
    images = f"{number:,} images ({memory} as pixels)"
    if fits_in_memory(size, request.memory):
        return data.read(lambda done: request.progress(f"reading {images}", done, number))
    request.progress(f"{images} are streamed", number, number)
    return data
