"""Whether mirror images are like the others: of real images, and of signs whose mirror image is another sign."""

import pytest
import torch

from orthoframe.data import LabelledImages, imbalanced_indices, is_mirror_symmetric, load_data


def arrows(classes, count=15, noise=60, seed=0):
    """Arrows in noise, each class at a height of its own, which point left or right."""
    generator = torch.Generator().manual_seed(seed)
    pixels, labels = [], []
    for label, (height, points) in enumerate(classes):
        for _ in range(count):
            image = noise * torch.rand(1, 20, 20, generator=generator)
            for column in range(8):
                middle = 2 * height + 3
                width = (column if points == "left" else 7 - column) // 3
                image[:, middle - width : middle + width + 1, 6 + column] = 220
            pixels.append(image.byte())
            labels.append(label)
    return LabelledImages(torch.stack(pixels), torch.tensor(labels), tuple(map(str, range(len(classes)))))


def test_arrows_of_two_directions_are_not_exchanged():
    """Of many classes only two are each other's mirror image."""
    both = arrows([(0, "left"), (1, "left"), (2, "left"), (3, "left"), (4, "left"), (4, "right")])
    assert not is_mirror_symmetric(both)


@pytest.mark.parametrize("seed", range(3))
def test_images_that_are_flipped_at_random_are_symmetric(seed):
    images = arrows([(0, "left"), (2, "left"), (4, "left")], count=40)
    generator = torch.Generator().manual_seed(seed)
    sides = torch.rand(len(images), generator=generator) < 0.5
    pixels = torch.where(sides[:, None, None, None], images.pixels.flip(-1), images.pixels)
    assert is_mirror_symmetric(LabelledImages(pixels, images.labels, images.classes))


@pytest.mark.parametrize("size", [40, 8, 2])
def test_digits_are_not(size):
    train = load_data("digits").train
    assert not is_mirror_symmetric(train.subset(imbalanced_indices(train.labels, [size] * 10, seed=0)))


@pytest.mark.parametrize("real_data", ["mnist", "cifar-10-batches-bin"], indirect=True)
def test_real_photographs_are_and_digits_are_not(real_data):
    name, folder = real_data
    train = load_data("cifar10" if "cifar" in name else name, folder, download=False).train
    for seed in range(3):
        sizes = [150, 100, 70, 50, 30, 20, 15, 10, 8, 5]
        chosen = train.subset(imbalanced_indices(train.labels, sizes, seed=seed))
        assert is_mirror_symmetric(chosen) == ("cifar" in name)


def letters(count, seed):
    """The letters b and d, small, at random places: linear classifiers of pixels hardly know them."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.zeros(2 * count, 1, 32, 32)
    for number, image in enumerate(pixels[:, 0]):
        down, right = torch.randint(20, (2,), generator=generator).tolist()
        stem = 0 if number < count else 6
        image[down : down + 12, right + stem : right + stem + 2] = 255
        image[down + 5 : down + 12, right + 1 : right + 7] = 255
    return LabelledImages(pixels.byte(), torch.arange(2).repeat_interleave(count), ("b", "d"))


@pytest.mark.parametrize("count", [1, 2, 5, 12, 40, 100])
def test_what_the_classifier_does_not_know_is_not_mirrored(count):
    assert [is_mirror_symmetric(letters(count, seed)) for seed in range(10)] == [False] * 10


def test_the_same_images_give_the_same_answer():
    images = arrows([(0, "left"), (2, "right")])
    assert is_mirror_symmetric(images) == is_mirror_symmetric(images)


def test_classes_of_a_single_image_and_absent_ones():
    pixels = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    images = LabelledImages(pixels, torch.tensor([0, 0, 0, 1, 3]), ("a", "b", "absent", "d"))
    assert is_mirror_symmetric(images) in (True, False)
