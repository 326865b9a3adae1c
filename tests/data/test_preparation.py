"""One image file: upright, opaque, of the size and colours that are asked for."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.Image import Transpose

from orthoframe.data import Preparation
from orthoframe.data._preparation import read_head
from orthoframe.errors import DataError, OptionError

TURNED = {
    1: None,
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_90,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_270,
}


def saved(path, image, **options):
    image.save(path, **options)
    return path


def halves(width=40, height=20):
    """Left half red, right half blue."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[:, : width // 2, 0] = 255
    pixels[:, width // 2 :, 2] = 255
    return Image.fromarray(pixels)


def test_pad_keeps_everything_on_white(tmp_path):
    pixels = Preparation((3, 20, 20))(saved(tmp_path / "a.png", halves()))
    assert (pixels[:, :5] == 255).all()
    assert (pixels[:, -5:] == 255).all()
    assert pixels[:, 10, 2].tolist() == [255, 0, 0]
    assert pixels[:, 10, -2].tolist() == [0, 0, 255]


def test_crop_cuts_the_margins_and_stretch_keeps_them(tmp_path):
    path = saved(tmp_path / "a.png", halves(60, 20))
    cropped = Preparation((3, 20, 20), "crop")(path)
    assert cropped[:, 10, 0].tolist() == [255, 0, 0]
    assert cropped.shape == (3, 20, 20)
    stretched = Preparation((3, 20, 20), "stretch")(path)
    assert stretched[:, 0, 3].tolist() == [255, 0, 0]
    assert stretched[:, 0, -3].tolist() == [0, 0, 255]


@pytest.mark.parametrize("orientation", TURNED)
def test_exif_orientation(tmp_path, orientation):
    upright = halves()
    stored = upright if TURNED[orientation] is None else upright.transpose(TURNED[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = Preparation((3, 20, 40))(saved(tmp_path / "a.png", stored, exif=exif))
    assert np.array_equal(pixels.permute(1, 2, 0).numpy(), np.asarray(upright))


def test_transparency_becomes_white_and_16_bits_8(tmp_path):
    clear = Image.new("RGBA", (8, 8), (10, 20, 30, 0))
    assert (Preparation((3, 8, 8))(saved(tmp_path / "a.png", clear)) == 255).all()
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([10, 20, 30] * 256)
    assert (Preparation((3, 8, 8))(saved(tmp_path / "b.png", palette, transparency=0)) == 255).all()
    half = Image.new("LA", (8, 8), (100, 128))
    assert abs(int(Preparation((1, 8, 8))(saved(tmp_path / "c.png", half))[0, 0, 0]) - 177) <= 1
    deep = Image.fromarray(np.full((8, 8), 0x1234, dtype=np.uint16))
    assert (Preparation((1, 8, 8))(saved(tmp_path / "d.png", deep)) == 0x12).all()


def test_what_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"more than 16 bits per channel \(mode F\)"):
        Preparation((1, 8, 8))(saved(tmp_path / "a.tiff", Image.fromarray(np.zeros((8, 8), np.float32))))
    with pytest.raises(DataError, match="No such file"):
        Preparation((1, 8, 8))(tmp_path / "none.png")
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path / "pipe.png", Path("/dev/zero")):  # nobody writes to the one, and the other does not end
        with pytest.raises(DataError, match="it is a pipe or a device"):
            Preparation((1, 8, 8))(path)
    with pytest.raises(OptionError, match="fit must be one of 'pad', 'crop', 'stretch'"):
        Preparation((1, 8, 8), "squeeze")
    with pytest.raises(ValueError, match="1 or 3 channels"):
        Preparation((2, 8, 8))


def test_a_large_jpeg_is_decoded_small_and_looks_the_same(tmp_path):
    path = saved(tmp_path / "a.jpg", halves(1600, 1600), quality=95)
    small = Preparation((3, 32, 32))(path).float()
    plain = np.asarray(halves(32, 32), dtype=np.float32).transpose(2, 0, 1)
    assert np.abs(small.numpy() - plain)[:, :, [0, 8, 24, 31]].max() < 4


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    """It takes no room on the disk, and would take 3 GiB of memory."""
    path = saved(tmp_path / "padded.png", Image.new("RGB", (8, 8)))
    with path.open("r+b") as file:
        file.truncate(3 * 2**30)
    for read in (Preparation((3, 8, 8)), read_head):
        with pytest.raises(DataError, match=r"padded\.png: not an image file \(it has more than 536870912 bytes\)"):
            read(path)
