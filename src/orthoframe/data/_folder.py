"""Image files: one of them, or a folder with a sub-folder for each class."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from orthoframe.data._images import LabelledImages
from orthoframe.errors import DataError, brief

if TYPE_CHECKING:
    from PIL.Image import Image

_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
# What these endings stand for. Pillow knows more, such as EPS, for which it would start another program.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MOST_PIXELS = 2**24
"""The most pixels of an image; a larger one is refused before it is decoded."""


def read_folder(path: Path) -> list[LabelledImages]:
    """Training and test images from `path/train/CLASS/*` and `path/test/CLASS/*`, or all images from `path/CLASS/*`.

    Other files, and those whose name starts with a dot, are ignored. All images must have the same size: whether to
    stretch, crop or pad is not for a loader to decide silently. There is one channel if all images are grey, else there
    are three.
    """
    if not path.is_dir():
        raise DataError(f"{path}: no such folder")
    parts = [path / "train", path / "test"]
    if not all(part.is_dir() for part in parts):
        parts = [path]
    classes = tuple(folder.name for folder in _class_folders(parts[0]))
    if not classes:
        raise DataError(f"{parts[0]}: expected a sub-folder of images for each class, and there is none")
    files = [_files(part, classes) for part in parts]
    # Read together, so that they have one size and one number of channels.
    images = _images([file for part in files for file in part], classes)
    if len(parts) == 1:
        return [images]
    cut = len(files[0])
    return [images.subset(range(cut)), images.subset(range(cut, len(images)))]


def _class_folders(path: Path) -> list[Path]:
    found = path.iterdir() if path.is_dir() else ()
    return sorted(entry for entry in found if entry.is_dir() and not entry.name.startswith("."))


def _files(path: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    """The images of all classes, and their labels."""
    files = []
    for folder in _class_folders(path):
        if folder.name not in classes:
            raise DataError(
                f"{folder}: the training images have no such class; classes are {brief(', '.join(classes))}"
            )
        found = sorted(
            entry
            for entry in folder.iterdir()
            if entry.suffix.lower() in _ENDINGS and entry.is_file() and not entry.name.startswith(".")
        )
        if not found:
            raise DataError(f"{folder}: there are no images in it ({', '.join(_ENDINGS)}); fill or remove it")
        files += [(file, classes.index(folder.name)) for file in found]
    if not files:
        raise DataError(f"{path}: there is no sub-folder of images in it")
    return files


def _images(files: list[tuple[Path, int]], classes: tuple[str, ...]) -> LabelledImages:
    paths, labels = zip(*files, strict=True)
    size, grey = _head(paths[0])
    for path in paths:
        found, is_grey = _head(path)
        grey = grey and is_grey
        if found != size:
            raise DataError(
                f"{path}: {found[1]} x {found[0]} pixels, and {paths[0]} has {size[1]} x {size[0]}; resize the images "
                "to one size first, for instance with Pillow's Image.resize or with ImageMagick's mogrify"
            )
    channels = 1 if grey else 3
    # Stacked after all were decoded: what their heads promise may not be there.
    pixels = torch.stack([read_image(path, channels, size) for path in paths]).contiguous()
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
        DataError: If it cannot be read, has another size, more than `MOST_PIXELS`, or more than 8 bits per channel.
    """
    with _opened(path) as image:
        if (image.height, image.width) != size:
            raise DataError(
                f"{path}: {image.width} x {image.height} pixels, and {size[1]} x {size[0]} are expected; resize it"
            )
        pixels = np.array(image.convert("L" if channels == 1 else "RGB"))
    return torch.from_numpy(pixels.reshape(*size, -1)).permute(2, 0, 1)


class _NoMore(BufferedReader):
    """Reads no more than there is: for a length that a file promises, Python would take memory before it reads."""

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, os.fstat(self.fileno()).st_size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


@contextmanager
def _opened(path: Path) -> Iterator["Image"]:
    """An image with at most 8 bits per channel; it is decoded when its pixels are asked for."""
    from PIL.Image import DecompressionBombError, open

    too_large = DataError(f"{path}: more than {MOST_PIXELS} pixels, which is the limit for one image; make it smaller")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow about its own limit, and about broken files, which fail later
            with path.open("rb", buffering=0) as file, open(_NoMore(file), formats=_FORMATS) as image:
                if image.height * image.width > MOST_PIXELS:
                    raise too_large
                if image.mode[0] in "IF":
                    raise DataError(f"{path}: more than 8 bits per channel (mode {image.mode}); save it with 8 bits")
                yield image
    except DataError:
        raise
    except DecompressionBombError:
        raise too_large from None
    except Exception as error:  # a broken image can fail in any way
        reason = error.strerror if isinstance(error, OSError) else None
        what = brief(error) or type(error).__name__
        raise DataError(f"{path}: {reason or f'the image is broken ({what})'}") from None
