"""Labelled images hold together."""

import numpy as np
import pytest
import torch

from orthoframe.data import Data, LabelledImages
from orthoframe.errors import DataError


def images(n=4, channels=1, size=3, classes=("a", "b")):
    pixels = torch.arange(n * channels * size * size, dtype=torch.uint8).view(n, channels, size, size)
    return LabelledImages(pixels, torch.arange(n) % len(classes), classes)


@pytest.mark.parametrize("kind", [list, np.asarray, torch.tensor, lambda v: np.asarray(v, np.int32)])
def test_a_subset_keeps_order_repetitions_and_classes(kind):
    whole = images()
    part = whole.subset(kind([3, 0, 0]))
    assert len(part) == 3
    assert torch.equal(part.pixels, whole.pixels[[3, 0, 0]])
    assert part.labels.tolist() == [1, 0, 0]
    assert part.classes == whole.classes
    assert len(whole.subset(kind([]))) == 0


def test_a_subset_is_a_copy():
    whole = images()
    whole.subset([0]).pixels.zero_()
    assert whole.pixels[0].any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"pixels": torch.zeros(4, 1, 3, 3)}, TypeError, "not torch.float32 and torch.int64"),
        ({"labels": torch.zeros(4, dtype=torch.int32)}, TypeError, "not torch.uint8 and torch.int32"),
        ({"pixels": torch.zeros(4, 3, 3, dtype=torch.uint8)}, ValueError, r"not of shape \[4, 3, 3\]"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, ValueError, r"each of the 4 images, not of shape \[3\]"),
        ({"labels": torch.tensor([0, 1, 2, 0])}, ValueError, "label 2 is out of range: labels go from 0 to 1"),
        ({"labels": torch.tensor([0, 1, -1, 0])}, ValueError, "label -1 is out of range"),
    ],
)
def test_what_is_refused(change, error, message):
    parts = {"pixels": images().pixels, "labels": images().labels, "classes": ("a", "b"), **change}
    with pytest.raises(error, match=message):
        LabelledImages(**parts)


def test_training_and_test_images_are_alike():
    assert Data(images(), images(2), "mine").name == "mine"
    with pytest.raises(DataError, match=r"mine: .* \[1, 3, 3\] and test images of \[3, 3, 3\]"):
        Data(images(), images(channels=3), "mine")
    with pytest.raises(DataError, match="mine: the classes of"):
        Data(images(), images(classes=("a", "c")), "mine")


def test_images_know_where_they_were():
    whole = images(6)
    assert whole.origins([3, 1]) == [3, 1]
    part = whole.subset([5, 3, 1]).subset(torch.tensor([2, 0]))
    assert part.places.tolist() == part.origins([0, 1]) == [1, 5]
