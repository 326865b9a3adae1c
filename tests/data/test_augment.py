"""Views against a loop over images."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.data import reference_data as reference

from orthoframe.data import Augment, LabelledImages, Normaliser, default_augmentation


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def random_pixels(shape, dtype, seed=0):
    return torch.randint(256, shape, generator=seeded(seed)).to(dtype)


SHAPES = st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(1, 7), st.integers(1, 7))


@given(
    shape=SHAPES,
    padding=st.integers(0, 8),
    flip=st.booleans(),
    seed=st.integers(0, 999),
    dtype=st.sampled_from([torch.uint8, torch.float32, torch.bfloat16]),
)
def test_equals_a_loop_over_images(shape, padding, flip, seed, dtype):
    pixels = random_pixels(shape, dtype, seed)
    before = pixels.clone()
    view = Augment(padding, flip)(pixels, seeded(seed))
    assert view.dtype == dtype
    assert torch.equal(pixels, before)
    assert torch.equal(view, reference.augment(pixels, seeded(seed), padding, flip))


def test_a_second_view_is_another_one_and_repeats_with_the_seed():
    pixels = random_pixels((64, 1, 8, 8), torch.uint8)
    generator, again = seeded(1), seeded(1)
    augment = Augment(2, True)
    views = [augment(pixels, generator), augment(pixels, generator)]
    assert not torch.equal(*views)
    assert all(torch.equal(view, augment(pixels, again)) for view in views)


def test_every_shift_and_both_sides_come_equally_often():
    pixels = torch.zeros(9000, 1, 3, 7, dtype=torch.uint8)
    pixels[:, 0, 1, 1] = 1  # its place tells shift and side: it moves by one around column 1, or 5 if flipped
    places = Augment(1, True)(pixels, seeded(0)).sum(0)[0]
    assert (places[:, 3] == 0).all()
    # 9000 draws of 1 in 18: five standard deviations are 109.
    assert ((places[:, [0, 1, 2, 4, 5, 6]] - 500).abs() < 109).all()


def test_images_that_are_not_contiguous():
    pixels = random_pixels((6, 3, 5, 4), torch.uint8)
    last = pixels.contiguous(memory_format=torch.channels_last)
    sliced = random_pixels((12, 3, 5, 4), torch.uint8)[::2]
    assert torch.equal(Augment(2)(last, seeded(3)), Augment(2)(pixels, seeded(3)))
    assert torch.equal(Augment(2)(sliced, seeded(3)), Augment(2)(sliced.contiguous(), seeded(3)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_same_bytes_on_another_device():
    pixels = random_pixels((64, 3, 32, 32), torch.uint8)
    normalise = Normaliser((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    views = [normalise(Augment()(pixels.to(device), seeded(0))).cpu() for device in ("cpu", "cuda")]
    assert torch.equal(*views)


def test_what_is_refused():
    with pytest.raises(ValueError, match="padding must be at least 0, not -1"):
        Augment(padding=-1)
    with pytest.raises(ValueError, match=r"not of shape \[3, 8, 8\]"):
        Augment()(torch.zeros(3, 8, 8), seeded(0))


@pytest.mark.parametrize(
    ("name", "height", "expected"),
    [
        ("cifar10", 32, Augment(4, True)),
        ("cifar100", 32, Augment(4, True)),
        ("fashion-mnist", 28, Augment(3, True)),
        ("mnist", 28, Augment(2, False)),
        ("digits", 8, Augment(1, False)),
        ("folder:pictures", 64, Augment(8, False)),
    ],
)
def test_what_suits_which_data(name, height, expected):
    assert default_augmentation(name, height) == expected


@given(shape=SHAPES.filter(lambda shape: shape[0]), seed=st.integers(0, 999))
def test_normalised_pixels_have_mean_zero_and_deviation_one(shape, seed):
    pixels = random_pixels(shape, torch.uint8, seed)
    images = LabelledImages(pixels, torch.zeros(len(pixels), dtype=torch.int64), ("a",))
    normaliser = Normaliser.of(images)
    channels = pixels.double().transpose(0, 1).flatten(1) / 255
    assert torch.allclose(torch.tensor(normaliser.mean, dtype=torch.float64), channels.mean(1), rtol=1e-12)
    spread = channels.std(1, correction=0)
    constant = (pixels.transpose(0, 1).flatten(1) == pixels[0, :, 0, 0, None]).all(1)
    expected = torch.where(constant, 1.0, spread)
    assert torch.allclose(torch.tensor(normaliser.std, dtype=torch.float64), expected, rtol=1e-9)
    result = normaliser(pixels)
    assert result.dtype == torch.float32
    exact = reference.normalise(pixels, normaliser.mean, normaliser.std)
    # The mean is rounded to float32 (2^-24 of itself, at most 1) and then divided by the deviation; the difference,
    # the factor and the product are each rounded once more.
    bound = 2**-24 / min(normaliser.std) + 4 * 2**-24 * exact.abs().max()
    assert (result - exact).abs().max() <= bound


def test_normalising_leaves_its_input_alone():
    pixels = torch.full((1, 1, 2, 2), 7.0)
    Normaliser((0.5,), (0.5,))(pixels)
    assert (pixels == 7).all()


def test_normalisers_that_are_refused():
    with pytest.raises(ValueError, match="std must be positive"):
        Normaliser((0.5,), (0.0,))
    with pytest.raises(ValueError, match="one entry per channel"):
        Normaliser((0.5, 0.5), (1.0,))
    with pytest.raises(ValueError, match=r"must be \[b, 1, height, width\].*not of shape \[2, 3, 4, 4\]"):
        Normaliser((0.5,), (1.0,))(torch.zeros(2, 3, 4, 4))
    with pytest.raises(ValueError, match="no pixels"):
        Normaliser.of(LabelledImages(torch.zeros(0, 1, 2, 2, dtype=torch.uint8), torch.zeros(0).long(), ("a",)))
