"""A folder of images, one sub-folder per class."""

import io

import numpy as np
import torch
from PIL import Image
from tests.fuzz.mutations import choice, mutated, png

from orthoframe.data import load_data
from orthoframe.errors import DataError

REFUSALS = (DataError,)
WEIGHT = 10
_FORMATS = {"png": "png", "jpg": "jpeg", "bmp": "bmp", "gif": "gif", "webp": "webp", "tif": "tiff", "ppm": "ppm"}


def prepare(folder):
    pixels = np.random.default_rng(0).integers(256, size=(4, 4, 3), dtype=np.uint8)
    images = {}
    for ending, kind in _FORMATS.items():
        for mode in ("L", "RGB"):
            file = io.BytesIO()
            Image.fromarray(pixels).convert(mode).save(file, kind)
            images[ending, mode] = file.getvalue()
    return images


def make(random, images, folder):
    for old in folder.glob("dog/2.*"):
        old.unlink()
    for name in ("cat", "dog"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "1.png").write_bytes(images["png", "RGB"])
    ending, mode = choice(random, list(images))
    data = images[ending, mode]
    if ending == "png" and random.random() < 0.5:
        data = png(random, data)
    if random.random() < 0.8:
        data = mutated(random, data, images[choice(random, list(images))])
    (folder / "dog" / f"2.{choice(random, (ending, ending, *_FORMATS))}").write_bytes(data)
    return folder


def read(folder):
    data = load_data(f"folder:{folder}")
    whole = torch.cat([data.train.pixels, data.test.pixels])
    assert whole.dtype == torch.uint8
    assert list(whole.shape[:2]) == [3, 3]  # an image of another size changes that of all
    assert data.train.classes == ("cat", "dog")
