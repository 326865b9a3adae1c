"""Pixels that are read when they are needed: the same as those that are held."""

import numpy as np
import pytest
import torch
from PIL import Image

from orthoframe.data import Normaliser, StreamedPixels, as_data, load_data
from orthoframe.errors import DataError, OptionError

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("images")
    for name in ("a", "b"):
        (path / name).mkdir()
        for i in range(400):
            pixels = RANDOM.integers(0, 256, (16 + i % 5, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path / name / f"{i:03}.jpg")
    return path


@pytest.mark.parametrize("workers", [0, 2])
def test_streamed_images_are_those_that_are_held(folder, workers):
    held = load_data(f"folder:{folder}", validation=0.1)
    streamed = load_data(f"folder:{folder}", validation=0.1, memory=0, workers=workers)
    for part in ("train", "validation", "test"):
        ours, theirs = getattr(held, part), getattr(streamed, part)
        assert isinstance(theirs.pixels, StreamedPixels)
        assert torch.equal(ours.labels, theirs.labels)
        assert np.array_equal(ours.checksums, theirs.checksums)
        batches = [RANDOM.integers(0, len(ours), 7) for _ in range(100)]
        for one, other in zip(ours.batches(batches), theirs.batches(batches), strict=True):
            assert torch.equal(one, other)
    assert Normaliser.of(held.train) == Normaliser.of(streamed.train)


def test_a_file_that_breaks_later_is_named(folder, tmp_path):
    path = tmp_path / "c"
    for name in ("a", "b"):
        (path / name).mkdir(parents=True)
        for i in range(400):
            (path / name / f"{i:03}.jpg").write_bytes((folder / name / f"{i:03}.jpg").read_bytes())
    data = load_data(f"folder:{path}", memory=0, workers=2)
    for file in path.glob("a/*"):
        file.write_bytes(b"")
    with pytest.raises(DataError, match=r"\.jpg: the image is broken") as caught:
        list(data.train.batches([np.arange(len(data.train))] * 2))
    assert "Traceback" not in str(caught.value)


class Pictures(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*/*.jpg"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with Image.open(self.files[i]) as image:
            return image.convert("RGB"), self.files[i].parent.name


def test_a_dataset_of_torch(folder):
    held, streamed = (as_data(Pictures(folder), size=(16, 16), memory=memory) for memory in (None, 0))
    assert held.train.classes == ("a", "b")
    assert (len(held.train), len(held.validation), len(held.test)) == (576, 64, 160)
    index = np.arange(50)
    assert torch.equal(next(held.test.batches([index])), next(streamed.test.batches([index])))


def test_memory_is_in_gib_and_no_image_is_there_twice(folder, monkeypatch):
    size = 800 * 3 * 16 * 16 / 2**30
    for name in (f"folder:{folder}", "dataset"):
        for memory, held in ((size * 1.001, True), (size * 0.999, False)):
            if name == "dataset":
                data = as_data(Pictures(folder), size=(16, 16), memory=memory)
            else:
                data = load_data(name, size=(16, 16), memory=memory, validation=0.1)
            assert data.train.held == data.test.held == data.validation.held == held
    taken = []
    make = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *shape, **kind: taken.append(shape[0]) or make(*shape, **kind))
    load_data(f"folder:{folder}", size=(16, 16), validation=0.1, workers=0)
    assert sum(shape[0] for shape in taken if isinstance(shape, tuple) and len(shape) == 4) == 800


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "is empty"),
        ([1, 2], "item 0 is not a pair"),
        (iter([1, 2]), "a data set with a length and items is needed, not list_iterator"),
        ([(Image.new("L", (4, 4)), torch.tensor([1, 2]))], r"label 0 is tensor\(\[1, 2\]\)"),
        ([(torch.zeros(1, 4, 4, dtype=torch.uint8), 0.5)], r"label 0 is 0\.5"),
        ([(torch.zeros(1, 4, 4), 0)] * 4, r"image [0-3] is torch\.float32"),
        ([(torch.zeros(4, 4, dtype=torch.uint8), 0)], "1 or 3 channels"),
        ([(Image.new("L", (4, 4)), label) for label in (1, "1")], "labels must be all whole numbers or all names"),
        ([(Image.new("F", (4, 4)), 0)] * 4, r"more than 16 bits per channel \(mode F\)"),
    ],
)
def test_items_of_another_kind_are_refused(items, said):
    with pytest.raises(DataError, match=said):
        as_data(items)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 8}, "size must be a height and a width, not 8"),
        ({"size": (0, 8)}, "size must be at least 1, not 0"),
        ({"size": (2**20, 2**20)}, "size is 1048576 x 1048576, and an image has at most 33554432 pixels"),
        ({"memory": -1}, "memory must be at least 0"),
    ],
)
def test_options_out_of_range_are_named(options, said, folder):
    with pytest.raises(OptionError, match=said):
        as_data([(Image.new("RGB", (4, 4)), number % 2) for number in range(40)], **options)
    if "size" in options:
        with pytest.raises(OptionError, match=said):
            load_data(f"folder:{folder}", **options)


def test_names_of_classes_that_a_data_set_has():
    class Named(list):
        classes = ("dog", "cat")

    items = Named((torch.zeros(1, 4, 4, dtype=torch.uint8), i % 2) for i in range(20))
    assert as_data(items).train.classes == ("cat", "dog")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_file_that_is_replaced_later_is_named(tmp_path, workers):
    """Also if it has the same size: a run would go on with other images."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(300):
            Image.new("RGB", (4, 4), (i % 256, 0, 0)).save(tmp_path / name / f"{i:03}.bmp")
    data = load_data(f"folder:{tmp_path}", memory=0, workers=workers)
    path = tmp_path / "a" / "000.bmp"
    before, content = path.stat().st_mtime_ns, path.read_bytes()
    while path.stat().st_mtime_ns == before:
        path.write_bytes(content[:-48] + bytes(range(48)))
    part = next(part for part in (data.train, data.test, data.validation) if 0 in part.places)
    with pytest.raises(DataError, match=r"a/000\.bmp: it has changed since it was listed; start again"):
        list(part.batches([np.arange(len(part))]))
