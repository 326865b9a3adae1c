"""Files of CIFAR, whole and broken."""

import re

import numpy as np
import pytest
from tests.data.reference_data import cifar_bytes

from orthoframe.data._readers import read_cifar
from orthoframe.errors import DataError

TEN, HUNDRED = tuple(map(str, range(10))), tuple(map(str, range(100)))
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)


def write(path, *parts):
    path.write_bytes(cifar_bytes(*parts))
    return path


def test_files_are_read_one_after_the_other(tmp_path):
    first = write(tmp_path / "1.bin", PIXELS[:3], [9, 0, 4])
    second = write(tmp_path / "2.bin", PIXELS[3:], [1])
    images = read_cifar([first, second], TEN)
    assert images.labels.tolist() == [9, 0, 4, 1]
    assert np.array_equal(images.pixels.numpy(), PIXELS)
    assert images.pixels.is_contiguous()


def test_of_two_labels_the_fine_one_is_taken(tmp_path):
    images = read_cifar([write(tmp_path / "train.bin", PIXELS, [19, 0, 1, 2], [99, 5, 0, 7])], HUNDRED, 20)
    assert images.labels.tolist() == [99, 5, 0, 7]
    assert np.array_equal(images.pixels.numpy(), PIXELS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b"", "it has 0 bytes, and a whole number of records of 3073"),
        (lambda b: b[:-1], "it has 12291 bytes, and a whole number of records of 3073"),
        (lambda b: b + b"\0", "it has 12293 bytes"),
        (lambda b: b[: 2 * 3073] + b"\x0a" + b[2 * 3073 + 1 :], "record 2 has the label 10, and labels go from 0 to 9"),
    ],
)
def test_a_malformed_file_is_refused_by_name(tmp_path, change, message):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(change(cifar_bytes(PIXELS, [0, 1, 2, 3])))
    with pytest.raises(DataError, match=re.escape(f"{path}: {message}")):
        read_cifar([path], TEN)


@pytest.mark.parametrize(
    ("coarse", "fine", "message"), [(20, 0, "label 20, .* to 19"), (0, 100, "label 100, .* to 99")]
)
def test_both_labels_are_checked(tmp_path, coarse, fine, message):
    path = write(tmp_path / "train.bin", PIXELS, [0, 0, 0, coarse], [0, 0, 0, fine])
    with pytest.raises(DataError, match=f"record 3 has the {message}"):
        read_cifar([path], HUNDRED, 20)


def test_files_of_the_other_kind_are_refused(tmp_path):
    """3073 and 3074 have no common factor: only a multiple of 3073 records could be taken for the other kind."""
    path = write(tmp_path / "train.bin", PIXELS, [0] * 4, [1] * 4)
    with pytest.raises(DataError, match="records of 3073"):
        read_cifar([path], TEN)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"train.bin: No such file"):
        read_cifar([tmp_path / "train.bin"], TEN)
