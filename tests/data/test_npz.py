"""Arrays from a file, and what is refused."""

import re

import numpy as np
import pytest
import torch

from orthoframe.data import load_data
from orthoframe.errors import DataError

GREY = np.arange(10 * 4 * 3, dtype=np.uint8).reshape(10, 4, 3)
COLOUR = np.random.default_rng(0).integers(0, 256, (10, 4, 3, 3), dtype=np.uint8)
LABELS = np.arange(10) % 2


def save(tmp_path, **arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    return f"npz:{path}"


def test_a_file_that_says_which_is_the_test(tmp_path):
    name = save(tmp_path, x_train=COLOUR, y_train=LABELS, x_test=COLOUR[:3], y_test=LABELS[:3], other=LABELS)
    data = load_data(name)
    assert data.name == name
    assert np.array_equal(data.train.pixels.numpy(), COLOUR.transpose(0, 3, 1, 2))
    assert data.train.pixels.is_contiguous()
    assert data.train.labels.tolist() == LABELS.tolist()
    assert (len(data.test), data.test.classes) == (3, ("0", "1"))


@pytest.mark.parametrize("pixels", [GREY, GREY[..., None]])
def test_a_fifth_of_each_class_is_held_out(tmp_path, pixels):
    name = save(tmp_path, x=pixels, y=LABELS)
    data = load_data(name, seed=3)
    assert data.test.labels.tolist() == [0, 1]
    whole = torch.cat([data.train.pixels, data.test.pixels])
    assert whole.shape == (10, 1, 4, 3)
    assert sorted(whole[:, 0, 0, 0].tolist()) == sorted(GREY[:, 0, 0].tolist())
    assert torch.equal(load_data(name, seed=3).test.pixels, data.test.pixels)
    others = [load_data(name, seed=seed).test.pixels for seed in range(5)]
    assert any(not torch.equal(other, data.test.pixels) for other in others)


@pytest.mark.parametrize(
    ("labels", "classes", "numbers"),
    [
        (np.array([7, 3, 7, -2], np.int8), ("-2", "3", "7"), [2, 1, 2, 0]),
        (np.array(["dog", "cat", "dog", "cat"]), ("cat", "dog"), [1, 0, 1, 0]),
    ],
)
def test_any_integers_or_strings_are_labels(tmp_path, labels, classes, numbers):
    data = load_data(save(tmp_path, x_train=GREY[:4], y_train=labels, x_test=GREY[:1], y_test=labels[:1]))
    assert data.train.classes == classes
    assert data.train.labels.tolist() == numbers
    assert data.test.labels.tolist() == numbers[:1]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": GREY}, r"it has the members x.npy, not x_train.npy, .*, or x.npy, y.npy"),
        ({"X": GREY, "Y": LABELS}, r"it has the members X.npy, Y.npy, not x_train.npy, .*, or x.npy, y.npy"),
        ({"x": GREY / 255, "y": LABELS}, "x is float64, and pixels must be uint8"),
        ({"x": GREY[0], "y": LABELS}, r"x is of shape \[4, 3\], and must be"),
        ({"x": np.zeros((10, 3, 8, 8), np.uint8), "y": LABELS}, "1 or 3 channels, which come last"),
        ({"x": GREY, "y": LABELS[:9]}, "x has 10 images of 4 x 3 pixels and y 9 labels"),
        ({"x": GREY[:0], "y": LABELS[:0]}, "at least one"),
        ({"x": GREY, "y": LABELS[:, None]}, r"y is int64 of shape \[10, 1\], and labels must be"),
        ({"x": GREY, "y": LABELS / 2}, "y is float64"),
        (
            {"x": GREY, "y": np.array([{}] * 10)},
            "of plain arrays \\(y: its entries are Python objects",
        ),
        (
            {"x_train": GREY, "y_train": LABELS, "x_test": GREY, "y_test": LABELS + 1},
            "y_test has the label 2, which y_train does not have",
        ),
        (
            {"x_train": GREY, "y_train": LABELS, "x_test": GREY[:, :2], "y_test": LABELS},
            r"training images are of .* \[1, 4, 3\] and test images of \[1, 2, 3\]",
        ),
    ],
)
def test_what_is_refused(tmp_path, arrays, message):
    name = save(tmp_path, **arrays)
    with pytest.raises(DataError, match=re.escape(str(tmp_path)) + f".*{message}"):
        load_data(name)


def test_a_broken_file_is_refused_by_name(tmp_path):
    name = save(tmp_path, x=GREY, y=LABELS)
    path = tmp_path / "mine.npz"
    whole = path.read_bytes()
    for content in (b"", whole[:100], whole[:-30], b"garbage" * 9, whole[:120] + b"\xff" * 40 + whole[160:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"mine\.npz: "):
            load_data(name)
    path.write_text("hello")
    with pytest.raises(DataError, match=r"mine\.npz: not an \.npz file; save one with numpy\.savez"):
        load_data(name)
    np.save(tmp_path / "one.npy", GREY)
    with pytest.raises(DataError, match=r"one\.npy: one array, and an \.npz file was expected"):
        load_data(f"npz:{tmp_path / 'one.npy'}")
    with pytest.raises(DataError, match=r"none\.npz: No such file"):
        load_data(f"npz:{tmp_path / 'none.npz'}")


def test_names_of_the_classes(tmp_path):
    data = load_data(save(tmp_path, x=GREY, y=LABELS, classes=np.array(["dog", "cat", "emu"])))
    assert data.train.classes == ("dog", "cat", "emu")
    for labels, names, said in (
        (LABELS + 2, ["dog", "cat"], "labels must be integers from 0 to 1"),
        (LABELS.astype(str), ["dog", "cat"], "labels must be integers from 0 to 1"),
        (LABELS, ["dog", "dog"], "classes has the same name twice"),
        (LABELS, [1, 2], "names must be strings"),
        (LABELS, [["dog", "cat"]], "names must be strings"),
    ):
        with pytest.raises(DataError, match=said):
            load_data(save(tmp_path, x=GREY, y=labels, classes=np.array(names)))


def test_names_with_control_characters(tmp_path):
    arrays = {"x": np.zeros((20, 4, 4), np.uint8), "y": np.arange(20) % 2, "classes": np.array(["a", "\x07"])}
    np.savez(tmp_path / "images.npz", **arrays)
    with pytest.raises(DataError, match=r"class '\\x07': its name is not UTF-8"):
        load_data(f"npz:{tmp_path / 'images.npz'}")
