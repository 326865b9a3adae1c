"""Data by its name."""

import gzip
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from orthoframe.data._cifar import read_cifar
from orthoframe.data._draw import hold_out, whole_number
from orthoframe.data._fetch import data_folder, find_files
from orthoframe.data._idx import read_idx_images
from orthoframe.data._images import Data, LabelledImages
from orthoframe.data._npz import read_npz
from orthoframe.data._sources import SOURCES, Source
from orthoframe.errors import DataError

if TYPE_CHECKING:
    from orthoframe.data._download import Progress

# The embedded digits are few, and a test of 20 % would be 36 images of each.
_HELD_OUT, _HELD_OUT_DIGITS = 0.2, 0.25


def load_data(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    download: bool = True,
    progress: "Progress | None" = None,
) -> Data:
    """Labelled images to train on and to test with, whole in memory as uint8.

    | name | what |
    |---|---|
    | `digits` | 1797 digits of 8 x 8 pixels, embedded; 25 % of each class are the test |
    | `mnist`, `fashion-mnist` | 28 x 28, from `mnist/*.gz` and `fashion-mnist/*.gz` (idx) |
    | `cifar10`, `cifar100` | 32 x 32, colour, from `cifar-10-batches-bin/*.bin` and `cifar-100-binary/*.bin` |
    | `folder:PATH` | a sub-folder of images for each class; with `train` and `test` above them, or 20 % are the test |
    | `npz:PATH` | the arrays `x_train`, `y_train`, `x_test`, `y_test`, or `x`, `y` of which 20 % are the test |

    Images of a folder have one size. Arrays of pixels are uint8, [n, height, width] or [n, height, width, channels].

    Args:
        name: One of these.
        folder: Where files are looked for; else `ORTHOFRAME_DATA`, else a folder in the user's cache.
        seed: Decides which images are the test, where the data does not say.
        download: Whether to fetch missing files from their official source.
        progress: Called with the name of a file, the bytes that are there, and those that it will have, if known.

    Returns:
        Training and test images, and the name.

    Raises:
        DataError: If there is no such data, it cannot be had, or it is malformed.

    Examples:
        >>> data = load_data("digits")
        >>> len(data.train), len(data.test), list(data.train.pixels.shape[1:]), data.train.classes[:3]
        (1347, 450, [1, 8, 8], ('0', '1', '2'))
    """
    whole_number("seed", seed, 0)
    kind, _, path = name.partition(":")
    if name == "digits":
        train, test = _digits(seed)
    elif name in SOURCES:
        source = SOURCES[name]
        paths = find_files(name, source, data_folder(folder), download=download, progress=progress)
        train, test = _read(source, paths)
    elif kind == "folder" and path:
        from orthoframe.data._folder import read_folder  # brings Pillow

        train, test = read_folder(Path(path).expanduser(), _HELD_OUT, seed)
    elif kind == "npz" and path:
        train, test = read_npz(Path(path).expanduser(), _HELD_OUT, seed)
    else:
        known = ", ".join(["digits", *SOURCES])
        raise DataError(f"there is no data {name!r}; choose one of {known}, folder:PATH or npz:PATH")
    return Data(train, test, name)


def _digits(seed: int) -> tuple[LabelledImages, LabelledImages]:
    table = _digits_table()
    pixels = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)  # they go from 0 to 16
    classes = table[:, -1].astype(np.int64)
    images = LabelledImages(torch.from_numpy(pixels), torch.from_numpy(classes), tuple("0123456789"))
    train, test = hold_out(classes, _HELD_OUT_DIGITS, seed)
    return images.subset(train), images.subset(test)


def _digits_table() -> NDArray[np.float64]:
    """The digits of scikit-learn, 64 pixels and the class per row, from its file: importing it takes seconds."""
    package = find_spec("sklearn")
    folders = [] if package is None else package.submodule_search_locations or []
    files = [path for folder in folders if (path := Path(folder, "datasets", "data", "digits.csv.gz")).exists()]
    if files:
        with gzip.open(files[0]) as lines:
            return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.column_stack([digits.data, digits.target])


def _read(source: Source, paths: list[Path]) -> tuple[LabelledImages, LabelledImages]:
    if source.archive is None:
        train_images, train_labels, test_images, test_labels = paths
        return (
            read_idx_images(train_images, train_labels, source.classes),
            read_idx_images(test_images, test_labels, source.classes),
        )
    train, test = (read_cifar(part, source.classes, source.coarse_classes) for part in (paths[:-1], paths[-1:]))
    return train, test
