"""MNIST's files: idx inside gzip."""

import gzip
import struct

import numpy as np
import torch
from tests.fuzz.mutations import NUMBERS, choice, mutated

from orthoframe.data import load_data
from orthoframe.errors import DataError

REFUSALS = (DataError,)
WEIGHT = 20
_NAMES = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
_BOMB = 64  # members of 16 MiB each


def prepare(folder):
    images = np.random.default_rng(0).integers(256, size=(6, 3, 4), dtype=np.uint8)
    plain = {"images": _head(8, 6, 3, 4) + images.tobytes(), "labels": _head(8, 6) + bytes([0, 1, 2, 3, 9, 9])}
    return plain, {kind: gzip.compress(data) for kind, data in plain.items()}, gzip.compress(bytes(2**24), 1)


def _head(kind, *sizes):
    return struct.pack(f">BBBB{len(sizes)}I", 0, 0, kind, len(sizes), *sizes)


def _kind(name):
    return "images" if "images" in name else "labels"


def make(random, valid, folder):
    plain, packed, zeros = valid
    name = choice(random, _NAMES)
    kind, other = ("images", "labels") if _kind(name) == "images" else ("labels", "images")
    how = random.random()
    if how < 0.01:
        data = packed[kind] + zeros * _BOMB
    elif how < 0.25:
        data = mutated(random, packed[kind], packed[other])
    elif how < 0.5:
        sizes = [choice(random, (*NUMBERS, 6, 6, 3, 4)) % 2**32 for _ in range(choice(random, (1, 3)))]
        data = gzip.compress(_head(choice(random, (8, 8, 8, 9, 13)), *sizes) + plain[kind][16:], 1)
    else:
        data = gzip.compress(mutated(random, plain[kind], plain[other]), 1)
    (folder / "mnist").mkdir(exist_ok=True)
    for file in _NAMES:
        (folder / "mnist" / file).write_bytes(data if file == name else packed[_kind(file)])
    return folder


def read(folder):
    data = load_data("mnist", folder, download=False)
    for part, images, labels in ((data.train, *_NAMES[:2]), (data.test, *_NAMES[2:])):
        # Whatever was read is what the files say.
        pixels, numbers = (gzip.decompress((folder / "mnist" / name).read_bytes()) for name in (images, labels))
        assert part.pixels.dtype == torch.uint8
        assert part.pixels.numpy().tobytes() == pixels[16:]
        assert part.labels.numpy().astype(np.uint8).tobytes() == numbers[8:]
        assert list(part.pixels.shape) == [part.pixels.shape[0], 1, *struct.unpack(">II", pixels[8:16])]
