"""Image files: one of them, or a folder with a sub-folder for each class."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from orthoframe.data._images import LabelledImages
from orthoframe.data._imbalance import hold_out
from orthoframe.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")


def read_folder(path: Path, held_out: float, seed: int) -> tuple[LabelledImages, LabelledImages]:
    """Read training and test images from a folder.

    `path/CLASS/*.png` and so on, of which a part of each class is held out; or `path/train/CLASS/*` and
    `path/test/CLASS/*`. Other files, and those whose name starts with a dot, are ignored. All images must have the same
    size: whether to stretch, crop or pad is not for a loader to decide silently. There is one channel if all images are
    grey, else there are three.

    Args:
        path: Of the folder.
        held_out: Fraction of each class that becomes the test set, if the folder has none.
        seed: Decides which images are held out.

    Raises:
        DataError: For a folder of another form, an image that cannot be read, or images of different sizes.
    """
    train, test = path / "train", path / "test"
    if train.is_dir() and test.is_dir():
        classes = _classes(train)
        files, labels = _files(train, classes)
        more_files, more_labels = _files(test, classes)
        # Read together, so that they have one size and one number of channels.
        images = _images(files + more_files, labels + more_labels, classes)
        return images.subset(range(len(files))), images.subset(range(len(files), len(images)))
    classes = _classes(path)
    images = _images(*_files(path, classes), classes)
    kept, held = hold_out(images.labels.numpy(), held_out, seed)
    return images.subset(kept), images.subset(held)


def _classes(path: Path) -> tuple[str, ...]:
    names = sorted(entry.name for entry in path.iterdir() if _is_class(entry)) if path.is_dir() else []
    if not names:
        raise DataError(f"{path}: expected a sub-folder of images for each class, and there is none")
    return tuple(names)


def _is_class(entry: Path) -> bool:
    return entry.is_dir() and not entry.name.startswith(".")


def _files(path: Path, classes: tuple[str, ...]) -> tuple[list[Path], list[int]]:
    files, labels = [], []
    for folder in sorted(filter(_is_class, path.iterdir())):
        if folder.name not in classes:
            raise DataError(f"{folder}: the training images have no such class; classes are {', '.join(classes)}")
        found = sorted(
            entry
            for entry in folder.iterdir()
            if entry.suffix.lower() in _ENDINGS and entry.is_file() and not entry.name.startswith(".")
        )
        if not found:
            raise DataError(f"{folder}: there are no images in it ({', '.join(_ENDINGS)}); fill or remove it")
        files += found
        labels += [classes.index(folder.name)] * len(found)
    if not files:
        raise DataError(f"{path}: there is no sub-folder of images in it")
    return files, labels


def _images(files: list[Path], labels: list[int], classes: tuple[str, ...]) -> LabelledImages:
    size, grey = _head(files[0])
    for path in files:
        found, is_grey = _head(path)
        grey = grey and is_grey
        if found != size:
            raise DataError(
                f"{path}: {found[1]} x {found[0]} pixels, and {files[0]} has {size[1]} x {size[0]}; resize the images "
                "to one size first, for instance with Pillow's Image.resize or with ImageMagick's mogrify"
            )
    pixels = torch.empty((len(files), 1 if grey else 3, *size), dtype=torch.uint8)
    for number, path in enumerate(files):
        pixels[number] = read_image(path, 1 if grey else 3, size)
    return LabelledImages(pixels, torch.tensor(labels), classes)


def _head(path: Path) -> tuple[tuple[int, int], bool]:
    """Height and width, and whether it is grey; only the head of the file is read."""
    with _opened(path) as image:
        return (image.height, image.width), image.mode in ("1", "L", "LA")


def read_image(path: Path, channels: int, size: tuple[int, int]) -> Tensor:
    """One image as uint8 `[channels, height, width]`.

    Args:
        path: Of a file that Pillow can read.
        channels: 1 for grey, 3 for colour; the image is converted.
        size: The height and width that it must have.

    Raises:
        DataError: If it cannot be read, has another size, or more than 8 bits per channel.
    """
    with _opened(path) as image:
        if (image.height, image.width) != size:
            raise DataError(
                f"{path}: {image.width} x {image.height} pixels, and {size[1]} x {size[0]} are expected; resize it"
            )
        pixels = np.array(image.convert("L" if channels == 1 else "RGB"))
    return torch.from_numpy(pixels.reshape(*size, -1)).permute(2, 0, 1)


@contextmanager
def _opened(path: Path) -> Iterator["Image"]:
    """An image with at most 8 bits per channel; it is decoded when its pixels are asked for."""
    from PIL.Image import DecompressionBombError, open

    try:
        with open(path) as image:
            if image.mode[0] in "IF":
                raise DataError(f"{path}: more than 8 bits per channel (mode {image.mode}); save it with 8 bits")
            yield image
    except DataError:
        raise
    except (OSError, ValueError, SyntaxError, DecompressionBombError) as error:
        what = error.strerror if isinstance(error, OSError) and error.strerror else f"the image is broken ({error})"
        raise DataError(f"{path}: {what}") from None
