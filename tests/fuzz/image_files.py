"""Hostile images: MNIST's idx files, `.npz` archives, folders and tables of image files, and image files alone."""

import contextlib
import gzip
import io
import struct
import unicodedata

import numpy as np
import torch
from PIL import Image
from tests.fuzz.mutations import NUMBERS, Target, choice, mutated, png
from tests.fuzz.mutations import npz as lying

from orthoframe.data import Columns, Listing, Preparation, load_data
from orthoframe.errors import DataError

_NAMES = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
_BOMB = 64  # members of 16 MiB each


def prepare_idx(folder):
    images = np.random.default_rng(0).integers(256, size=(6, 3, 4), dtype=np.uint8)
    plain = {"images": _head(8, 6, 3, 4) + images.tobytes(), "labels": _head(8, 6) + bytes([0, 1, 2, 3, 9, 9])}
    return plain, {kind: gzip.compress(data) for kind, data in plain.items()}, gzip.compress(bytes(2**24), 1)


def _head(kind, *sizes):
    return struct.pack(f">BBBB{len(sizes)}I", 0, 0, kind, len(sizes), *sizes)


def _kind(name):
    return "images" if "images" in name else "labels"


def hostile_idx(random, valid, folder):
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


def check_idx(folder):
    data = load_data("mnist", folder, download=False)
    for part, images, labels in ((data.train, *_NAMES[:2]), (data.test, *_NAMES[2:])):
        # Whatever was read is what the files say.
        pixels, numbers = (gzip.decompress((folder / "mnist" / name).read_bytes()) for name in (images, labels))
        assert part.pixels.dtype == torch.uint8
        assert part.pixels.numpy().tobytes() == pixels[16:]
        assert part.labels.numpy().astype(np.uint8).tobytes() == numbers[8:]
        assert list(part.pixels.shape) == [part.pixels.shape[0], 1, *struct.unpack(">II", pixels[8:16])]


def prepare_npz(folder):
    random = np.random.default_rng(0)
    pixels = random.integers(256, size=(8, 3, 4), dtype=np.uint8)
    labels = np.arange(8) % 2
    return [
        {"x": pixels, "y": labels},
        {"x": pixels, "y": np.array(["cat", "dög"])[labels]},
        {"x_train": pixels, "y_train": labels, "x_test": pixels[:3], "y_test": labels[:3]},
    ]


def hostile_npz(random, valid, folder):
    data = lying(random, choice(random, valid))
    if random.random() < 0.3:
        data = mutated(random, data, lying(random, choice(random, valid)))
    path = folder / "images.npz"
    path.write_bytes(data)
    return path


def check_npz(path):
    data = load_data(f"npz:{path}")
    for part in (data.train, data.test):
        assert part.pixels.dtype == torch.uint8
        assert part.pixels.ndim == 4
        assert len(part.pixels) == len(part.labels)
        assert not len(part.labels) or 0 <= part.labels.min() <= part.labels.max() < len(part.classes)
    assert len(data.train)


_FORMATS = {"png": "png", "jpg": "jpeg", "bmp": "bmp", "gif": "gif", "webp": "webp", "tif": "tiff", "ppm": "ppm"}


def prepare_folder(folder):
    pixels = np.random.default_rng(0).integers(256, size=(4, 4, 3), dtype=np.uint8)
    images = {}
    for ending, kind in _FORMATS.items():
        for mode in ("L", "RGB"):
            file = io.BytesIO()
            Image.fromarray(pixels).convert(mode).save(file, kind)
            images[ending, mode] = file.getvalue()
    return images


def hostile_folder(random, images, folder):
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


def check_folder(folder):
    data = load_data(f"folder:{folder}")
    whole = torch.cat([data.train.pixels, data.test.pixels])
    assert whole.dtype == torch.uint8
    assert list(whole.shape[:2]) == [3, 3]  # an image of another size changes that of all
    assert data.train.classes == ("cat", "dog")


_FITS = ("pad", "crop", "stretch")


def prepare_image(folder):
    """Every format, in every mode that it has, some of them lying on their side."""
    pixels = np.random.default_rng(0).integers(256, size=(12, 9, 4), dtype=np.uint8)
    images = []
    for kind in _FORMATS.values():
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"):
            file, exif = io.BytesIO(), Image.Exif()
            exif[0x0112] = 6
            image = Image.fromarray(pixels)
            image = Image.fromarray(pixels[..., 0].astype(np.uint16) * 99) if mode == "I;16" else image.convert(mode)
            with contextlib.suppress(OSError, ValueError):  # a format without this mode
                image.save(file, kind, exif=exif)
                images.append((kind, file.getvalue()))
    return images


def hostile_image(random, images, folder):
    kind, data = choice(random, images)
    if kind == "png" and random.random() < 0.3:
        data = png(random, data)
    if random.random() < 0.9:
        data = mutated(random, data, choice(random, images)[1])
    path = folder / "image.png"
    path.write_bytes(data)
    shape = choice(random, (1, 3)), choice(random, (1, 7, 12)), choice(random, (1, 8, 300))
    return path, Preparation(shape, choice(random, _FITS))


def check_image(case):
    path, preparation = case
    listing = Listing(
        paths=(path,), labels=np.zeros(1, np.int64), classes=("a",), parts={}, divided=False, root=path.parent
    )
    assert min(listing.heads(lambda _: None)[0].size) > 0
    pixels = preparation(path)
    assert (pixels.dtype, tuple(pixels.shape)) == (torch.uint8, preparation.image_shape)


_CELLS = (
    *("", " ", "1.png", "./1.png", "../case/1.png", "/dev/zero", "/dev/null", ".", "x" * 3000, "\x00", "\x1b[31m"),
    *('"', '"a\nb"', "é", "\u202e", "=1+1", "cat", "test", "TRAIN", "dev", "0" * 30, "\ufeff", "a,b"),
)


def prepare_table(folder):
    file = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(file, "png")
    return file.getvalue()


def hostile_table(random, image, folder):
    for place in range(8):
        (folder / f"{place}.png").write_bytes(image)
    rows = [["path", "label", "split", "group"]]
    rows += [[f"{place}.png", "ab"[place % 2], ("train", "test")[place // 6], str(place)] for place in range(8)]
    for _ in range(int(random.integers(0, 4))):
        row = choice(random, rows)
        row[int(random.integers(len(row)))] = choice(random, _CELLS)
    text = choice(random, ("\n", "\r\n", "\r", ";\n")).join(",".join(row) for row in rows)
    data = text.encode("utf-8", "replace")
    path = folder / "images.csv"
    path.write_bytes(mutated(random, data, b'"1.png",x\n') if random.random() < 0.5 else data)
    return path, Columns(split=choice(random, ("split", None)), group=choice(random, ("group", None)))


def check_table(case):
    path, columns = case
    data = load_data(f"csv:{path}", columns=columns)
    assert len(data.train)
    assert len(data.test)
    assert "" not in data.train.classes
    assert not any(map(unprintable, "".join(data.train.classes)))


def unprintable(letter):
    return unicodedata.category(letter) in ("Cc", "Cs")


TARGETS = {
    "idx": Target((DataError,), 20, prepare_idx, hostile_idx, check_idx),
    "npz": Target((DataError,), 20, prepare_npz, hostile_npz, check_npz),
    "folder": Target((DataError,), 10, prepare_folder, hostile_folder, check_folder),
    "image": Target((DataError,), 20, prepare_image, hostile_image, check_image),
    "table": Target((DataError,), 10, prepare_table, hostile_table, check_table),
}
