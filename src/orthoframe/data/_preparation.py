"""One image file as pixels: turned upright, without transparency, in the size and colours that an encoder takes."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from orthoframe.errors import DataError, brief, reason_of
from orthoframe.files import LARGEST_IMAGE, open_file, reading
from orthoframe.options import MOST_PIXELS, Fit, check_choice

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
"""The endings of image files."""
# Their formats. Pillow knows more, such as EPS, for which it would start another program.
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_BACKGROUND = 255  # white, behind what is transparent and beside what is padded
_ORIENTATION, _SIDEWAYS = 0x0112, (5, 6, 7, 8)  # the tag of EXIF, and its values that exchange height and width


@dataclass(frozen=True)
class ImageHead:
    """Size and colours in the header of an image file."""

    size: tuple[int, int]  # height and width, upright
    grey: bool


@dataclass(frozen=True)
class Preparation:
    """How an image file becomes the pixels that an encoder takes; kept with the encoder, so that others do the same.

    The image is turned upright by its EXIF orientation, transparent parts become white, 16 bits per channel become
    their upper 8, and grey and colour are converted into each other if necessary. Of an animation the first image is
    used. Then the image gets its size:

    - `pad`: scaled until it fits inside, and centred on white. Nothing is lost or distorted, so this is the default.
    - `crop`: scaled until it covers everything, and the margins on two sides are cut off.
    - `stretch`: height and width are scaled each by their own factor.

    Args:
        image_shape: Channels (1 grey, 3 colour), height and width.
        fit: `"pad"`, `"crop"` or `"stretch"`.

    Examples:
        >>> Preparation((3, 32, 48)).fit
        'pad'
    """

    image_shape: tuple[int, int, int]
    fit: Fit = "pad"

    def __post_init__(self) -> None:
        check_choice("fit", self.fit, Fit)
        channels, height, width = self.image_shape
        if channels not in (1, 3) or min(height, width) < 1 or height * width > MOST_PIXELS:
            raise ValueError(
                "image_shape must be 1 or 3 channels, and a height and width of at least 1 and at most "
                f"{MOST_PIXELS} pixels in all, not {brief(list(self.image_shape), 60)}"
            )

    def __call__(self, path: Path) -> Tensor:
        """The pixels of a file, uint8 `[channels, height, width]`.

        Raises:
            DataError: If it cannot be read, has more than `MOST_PIXELS`, or more than 16 bits per channel.
        """
        with _opened(path, whole=True) as image:
            return self.pixels_of(image)

    def description(self) -> dict[str, Any]:
        """The settings for another program that prepares image files in the same way."""
        channels, height, width = self.image_shape
        return {
            "height": height,
            "width": width,
            "colour": "RGB" if channels == 3 else "grey",
            "fit": self.fit,
            "background": _BACKGROUND,
            "orientation": "EXIF",
            "resampling": "bilinear, antialiased",
        }

    def pixels_of(self, image: "Image") -> Tensor:
        """The pixels of an image of Pillow."""
        from PIL import ImageOps
        from PIL.Image import Resampling

        channels, height, width = self.image_shape
        # A JPEG is decoded at an eighth, a quarter or half of its size, if that is still as large as needed.
        image.draft("L" if channels == 1 else "RGB", (2 * width, 2 * height))
        if image.getexif().get(_ORIENTATION, 1) != 1:  # otherwise it would be copied
            image = ImageOps.exif_transpose(image)
        image, mode = _opaque(image), "L" if channels == 1 else "RGB"
        image = image if image.mode == mode else image.convert(mode)
        if image.size != (width, height):
            size, method = (width, height), Resampling.BILINEAR
            if self.fit == "stretch":
                image = image.resize(size, method)
            elif self.fit == "crop":
                image = ImageOps.fit(image, size, method)
            else:
                image = ImageOps.pad(image, size, method, color=(_BACKGROUND,) * channels)
        pixels = np.array(image).reshape(height, width, channels)
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def read_head(path: Path) -> ImageHead:
    """Size and colours of an image file; its pixels are not decoded."""
    with _opened(path) as image:
        height, width = image.height, image.width
        if image.getexif().get(_ORIENTATION) in _SIDEWAYS:
            height, width = width, height
        return ImageHead((height, width), image.mode in ("1", "L", "LA", "I") or image.mode.startswith("I;16"))


def _opaque(image: "Image") -> "Image":
    """On a white background, with at most 8 bits per channel."""
    from PIL.Image import fromarray, new

    if image.mode.startswith("I"):
        return fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        behind = new("RGBA", image.size, (_BACKGROUND,) * 4)
        behind.alpha_composite(image)
        return behind
    return image


class _WithinFile(BufferedReader):
    """Reads no further than the file: Python would allocate whatever length a header promises."""

    def read(self, size: int | None = -1) -> bytes:
        rest = max(0, os.fstat(self.fileno()).st_size - self.tell())
        return super().read(rest if size is None or size < 0 else min(size, rest))


@contextmanager
def _opened(path: Path, *, whole: bool = False) -> Iterator["Image"]:
    """An image with at most 16 bits per channel, which is decoded when its pixels are asked for.

    The file is read at once if the whole of it is needed: Pillow reads in small pieces.
    """
    from PIL import UnidentifiedImageError
    from PIL.Image import DecompressionBombError, open

    too_large = DataError(f"{path}: more than {MOST_PIXELS} pixels, which is the limit for one image; make it smaller")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow about its own limit, and about broken files, which fail later
            with reading(path, "an image file", DataError):
                open_file(path, LARGEST_IMAGE).close()
            with path.open("rb", buffering=0) as file:
                content = BytesIO(file.readall()) if whole else _WithinFile(file)
                with open(content, formats=_FORMATS) as image:
                    if image.height * image.width > MOST_PIXELS:
                        raise too_large
                    if image.mode in ("I", "F") and image.format != "PPM":  # which has 16 bits in mode I
                        raise DataError(f"{path}: more than 16 bits per channel (mode {image.mode}); save it with 8")
                    yield image
    except DataError:
        raise
    except DecompressionBombError:
        raise too_large from None
    except Exception as error:  # a broken image can fail in any way
        if isinstance(error, OSError) and error.strerror:  # of the system, and not of the image
            raise DataError(f"{path}: {reason_of(error)}") from None
        is_unknown = isinstance(error, UnidentifiedImageError)
        what = "no image in a format that is read" if is_unknown else brief(reason_of(error))
        raise DataError(f"{path}: the image is broken ({what})") from None
