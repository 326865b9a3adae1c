"""Files of MNIST, whole and broken."""

import gzip
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.data.reference_data import idx_bytes, write_idx

from orthoframe.data._readers import read_idx, read_idx_images
from orthoframe.errors import DataError

CLASSES = tuple("0123456789")
IMAGES = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)


@given(array=arrays(np.uint8, st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))))
def test_what_was_written_is_read(array, tmp_path_factory):
    path = tmp_path_factory.mktemp("idx") / "a.gz"
    write_idx(path, array)
    content = read_idx(path, 3)
    assert content.shape == array.shape
    assert np.array_equal(content, array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b[:3], "starts with 0x000008, and 0x00000803 was expected"),
        (lambda b: b"", "starts with 0x, and 0x00000803 was expected"),
        (lambda b: b"\0\0\x0d\x03" + b[4:], "starts with 0x00000d03"),  # floats
        (lambda b: b"\0\0\x08\x01" + b[4:], "not an idx file of bytes with 3 dimensions: it starts with 0x00000801"),
        (lambda b: b[:15], "truncated: the head has 15 bytes of 16"),
        (lambda b: b[:-1], "truncated: 23 bytes after the head, and the shape [4, 2, 3] needs 24"),
        (lambda b: b + b"x", "too long: more bytes after the head, and the shape [4, 2, 3] needs 24"),
        (lambda b: b[:4] + b"\xff" * 12 + b[16:], "the shape [4294967295, 4294967295, 4294967295] needs 7922"),
    ],
)
def test_a_malformed_file_is_refused_by_name(tmp_path, change, message):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(change(idx_bytes(IMAGES))))
    with pytest.raises(DataError, match=re.escape(str(path)) + ".*" + re.escape(message)):
        read_idx(path, 3)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b[:-9],  # the sum at its end is cut
        lambda b: b[:20],
        lambda b: b[:-6] + bytes([b[-6] ^ 1]) + b[-5:],  # the sum is wrong
        lambda b: b[:12] + b"\xff" * 8 + b[20:],
        lambda b: b"PK" + b[2:],
        lambda b: b + b"more",
    ],
)
def test_a_broken_gzip_file_is_refused_by_name(tmp_path, change):
    path = tmp_path / "images.gz"
    path.write_bytes(change(gzip.compress(idx_bytes(IMAGES))))
    with pytest.raises(DataError, match=re.escape(str(path)) + ": not a whole gzip file .* delete it"):
        read_idx(path, 3)


def test_every_cut_of_a_file_is_refused(tmp_path):
    path = tmp_path / "images.gz"
    whole = gzip.compress(idx_bytes(IMAGES))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"images\.gz"):
            read_idx(path, 3)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"images.gz: No such file"):
        read_idx(tmp_path / "images.gz", 3)


def test_images_and_labels_go_together(tmp_path):
    images, labels = tmp_path / "images.gz", tmp_path / "labels.gz"
    write_idx(images, IMAGES)
    write_idx(labels, np.array([9, 0, 1, 0], np.uint8))
    data = read_idx_images(images, labels, CLASSES)
    assert data.labels.tolist() == [9, 0, 1, 0]
    assert data.pixels.shape == (4, 1, 2, 3)
    assert np.array_equal(data.pixels[:, 0].numpy(), IMAGES)
    write_idx(labels, np.array([9, 0, 1], np.uint8))
    with pytest.raises(DataError, match=r"images.gz has 4 images of 2 x 3 pixels, and labels.gz has 3 labels"):
        read_idx_images(images, labels, CLASSES)
    write_idx(labels, np.array([9, 0, 10, 11], np.uint8))
    with pytest.raises(DataError, match=r"labels.gz: label 2 is 10, and labels go from 0 to 9"):
        read_idx_images(images, labels, CLASSES)
    write_idx(images, IMAGES[:0])
    write_idx(labels, np.zeros(0, np.uint8))
    with pytest.raises(DataError, match="at least one"):
        read_idx_images(images, labels, CLASSES)
