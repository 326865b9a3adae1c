"""Near-duplicates on two sides of a split, against the comparison of all pairs."""

import numpy as np
import pytest
import torch

from orthoframe.data import LabelledImages, load_data, near_duplicates

RANDOM = np.random.default_rng(0)


def images(pixels):
    pixels = torch.from_numpy(np.asarray(pixels).clip(0, 255).astype(np.uint8))
    return LabelledImages(pixels, torch.zeros(len(pixels), dtype=torch.int64), ("a",))


def photographs(number, side=24):
    """Smooth random images, which have edges at all scales."""
    pixels = np.full((number, 3, side, side), 128.0)
    for cells in (2, 4, 8):
        coarse = RANDOM.normal(0, 40, (number, 3, cells, cells))
        pixels += coarse.repeat(side // cells, 2).repeat(side // cells, 3)
    return pixels


@pytest.mark.parametrize("side", [24, 8, 136])
def test_copies_that_were_changed_a_little_are_seen(side):
    train = photographs(60, side)
    copies = 0.9 * train[:20] + 10 + RANDOM.normal(0, 1, train[:20].shape)
    pairs, nothing = near_duplicates(images(train), images([*photographs(30, side), *copies]), images(train[:0]))
    assert sorted(pairs.tolist()) == [[30 + i, i] for i in range(20)]
    assert nothing.shape == (0, 2)


def test_the_most_alike_are_first_and_each_is_named_once():
    train = photographs(50)
    held = [train[7] + RANDOM.normal(0, 8, train[7].shape), train[3]]
    assert near_duplicates(images([*train, train[3], train[7]]), images(held))[0].tolist() == [[1, 3], [0, 7]]


def test_frames_of_a_clip_are_seen():
    """A camera that moves by a pixel of 150 from frame to frame; those with much detail are missed."""
    scenes = photographs(20, 160).repeat(3, axis=0)
    frames = [scene[:, i % 3 : 150 + i % 3, :150] for i, scene in enumerate(scenes)]
    middle = np.arange(60) % 3 == 1
    (pairs,) = near_duplicates(images(np.array(frames)[~middle]), images(np.array(frames)[middle]))
    assert len(pairs) >= 10
    assert (pairs[:, 0] == pairs[:, 1] // 2).all()


def test_flat_images_are_not_duplicates():
    black, grey = np.zeros((60, 1, 16, 16)), np.full((60, 1, 16, 16), 200) + RANDOM.normal(0, 3, (60, 1, 16, 16))
    assert not len(near_duplicates(images([*black, *grey]), images([*black, *grey]))[0])


def test_digits_are_not_duplicates_of_each_other():
    data = load_data("digits")
    pairs, copies = near_duplicates(data.train, data.test, data.train.subset(range(100)))
    assert not len(pairs)
    assert (copies[:, 0] == copies[:, 1]).all()
    assert len(copies) >= 98
    again = near_duplicates(data.train, data.train.subset(range(100)))[0]
    assert np.array_equal(again, copies)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_few_images(number):
    few = images(photographs(3)[:number])
    assert near_duplicates(few, few)[0].tolist() == [[i, i] for i in range(number)]
