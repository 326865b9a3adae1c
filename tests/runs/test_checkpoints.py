"""Checkpoints and fingerprints: what is written is read back, and whatever is broken is passed over."""

import hashlib
import json
import os
import pickle
import struct
import zlib
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save

from orthoframe.data import Data, LabelledImages
from orthoframe.errors import TrainingError
from orthoframe.runs import CHECKPOINT, PREVIOUS, Checkpoint, DataFingerprint, EpochRecord, Progress, RunFolder, State


def checkpoint_of(epoch):
    """A small one; its weights say after which epoch."""
    records = [EpochRecord(epoch=n + 1, seconds=0.1, lr=0.1, loss=1.0, temperature=0.1) for n in range(epoch)]
    progress = Progress(
        settings={"data": "digits", "lr": 0.1},
        data=DataFingerprint(training_pixels="a", training_labels="b", test_pixels="c", test_labels="d", images="e"),
        plan="plan",
        state=State(epoch=epoch, steps=1, seconds=0.5, records=records, measurements=[{"epoch": 1}] * epoch),
        batches={"loss": [1.25], "floor": [0.5], "collapsed": [2.0]},
        precision={},
    )
    weights = {"weight": torch.full((2, 3), float(epoch)), "bias": torch.arange(3) + 0.1}
    return Checkpoint(progress, weights=weights, momentum={"0": torch.ones(2, 3)})


@pytest.fixture
def folder(tmp_path):
    """A folder with two checkpoints."""
    run = RunFolder(tmp_path)
    for epoch in (0, 1):
        run.save_checkpoint(checkpoint_of(epoch))
    return run


def equal(checkpoint, other):
    """Whether two hold the same, to the bit."""
    for found, wanted in ((checkpoint.weights, other.weights), (checkpoint.momentum, other.momentum)):
        if found.keys() != wanted.keys() or not all(torch.equal(found[name], wanted[name]) for name in found):
            return False
    return checkpoint.progress == other.progress


def test_the_newest_of_two(folder):
    assert sorted(path.name for path in folder.path.iterdir()) == [CHECKPOINT, PREVIOUS]
    found, complaints = folder.load_checkpoint()
    assert equal(found, checkpoint_of(1))
    assert not complaints
    (folder.path / CHECKPOINT).unlink()
    assert equal(folder.load_checkpoint()[0], checkpoint_of(0))
    (folder.path / PREVIOUS).unlink()
    assert folder.load_checkpoint() == (None, [])


def test_numbers_that_are_not_finite_are_kept(folder):
    state = checkpoint_of(1).progress.state
    records = [replace(state.records[0], delta_of=float("inf"))]
    odd = replace(checkpoint_of(1), progress=replace(checkpoint_of(1).progress, state=replace(state, records=records)))
    folder.save_checkpoint(odd)
    assert folder.load_checkpoint()[0].progress.state.records[0].delta_of == float("inf")


def test_the_previous_one_can_be_put_back(folder):
    """So that the next save does not lose the one that is whole."""
    (folder.path / CHECKPOINT).write_bytes(b"broken")
    folder.restore_previous()
    found, complaints = folder.load_checkpoint()
    assert equal(found, checkpoint_of(0))
    assert not complaints


def test_what_a_check_refuses(folder):
    """A ValueError passes a checkpoint over; an error for the user ends the search."""

    def first_epoch(checkpoint):
        if checkpoint.progress.state.epoch:
            raise ValueError("it is too new")

    found, complaints = folder.load_checkpoint(first_epoch)
    assert equal(found, checkpoint_of(0))
    assert complaints == [f"{folder.path / CHECKPOINT} is broken (it is too new)"]

    def refuses(checkpoint):
        raise TrainingError("other settings")

    with pytest.raises(TrainingError, match="other settings"):
        folder.load_checkpoint(refuses)


def test_every_byte_of_a_checkpoint_flipped_and_cut(folder):
    """All bits, one bit, and the end of the file there: the previous one is used, and the broken one is named."""
    file, previous = folder.path / CHECKPOINT, checkpoint_of(0)
    content = file.read_bytes()
    assert len(content) < 8000
    complaint = f"{file} is broken (its checksum is wrong)"

    def passed_over():
        found, complaints = folder.load_checkpoint()
        return complaints == [complaint] and equal(found, previous)

    with file.open("r+b", buffering=0) as disk:
        for place, byte in enumerate(content):
            for flipped in (byte ^ 0xFF, byte ^ 1 << place % 8):
                os.pwrite(disk.fileno(), bytes([flipped]), place)
                assert passed_over(), place
            os.pwrite(disk.fileno(), bytes([byte]), place)
        found, complaints = folder.load_checkpoint()
        assert not complaints
        assert equal(found, checkpoint_of(1))
        for length in reversed(range(len(content))):
            disk.truncate(length)
            assert passed_over(), length


def test_what_is_no_checkpoint_is_refused(folder):
    """Also a pickle that would run code, JSON that is nested without end, and tensors that would fill the memory."""

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {folder.path}/pwned",)

    header = json.dumps({"json": {"dtype": "U8", "shape": [10**15], "data_offsets": [0, 10**15]}}).encode()
    nested = {"json": torch.frombuffer(bytearray(b"[" * 100_000), dtype=torch.uint8)}
    contents = [pickle.dumps(Evil()), b"", save({}), save(nested), len(header).to_bytes(8, "little") + header]
    for content in contents:
        for digest in (b"", hashlib.sha256(content).digest()):
            (folder.path / CHECKPOINT).write_bytes(digest + content)
            found, complaints = folder.load_checkpoint()
            assert equal(found, checkpoint_of(0))
            assert str(folder.path / CHECKPOINT) in complaints[0]
    assert not (folder.path / "pwned").exists()


def test_order_is_recognised_where_images_are_held_out(tmp_path):
    """Another order holds out other images: all of them together are the same."""
    data, names = torch.arange(40, dtype=torch.uint8).view(10, 1, 2, 2), ("a", "b")
    whole = LabelledImages(data, torch.tensor([0, 1] * 5), names)

    def parts(order):
        return DataFingerprint.of(Data(whole.subset(order[:8]), whole.subset(order[8:]), "x"))

    there, back = list(range(10)), list(range(9, -1, -1))
    assert parts(there).changes(parts(back)) == "the training and test images are in another order"
    assert parts(there).changes(parts(there)) == ""
    renamed = LabelledImages(data, whole.labels, ("b", "a"))
    other = DataFingerprint.of(Data(renamed.subset(there[:8]), renamed.subset(there[8:]), "x"))
    assert parts(there).changes(other) == "training labels, test labels differ"


def test_fingerprints_are_the_same_everywhere():
    """A run may be resumed on another machine, so that the digests of known images are part of the interface."""
    images = LabelledImages(torch.arange(8, dtype=torch.uint8).view(2, 1, 2, 2), torch.tensor([0, 1]), ("a", "b"))
    found = DataFingerprint.of(Data(images, images, "x"))
    pixels = hashlib.sha256(b"[2, 1, 2, 2]" + bytes(range(8))).hexdigest()
    labels = hashlib.sha256(b'["a", "b"]' + struct.pack("<2Q", 0, 1)).hexdigest()
    rows = [zlib.crc32(bytes(range(4))) << 32, zlib.crc32(bytes(range(4, 8))) << 32 | 1]
    every = hashlib.sha256(b'["a", "b"]' + struct.pack("<4Q", *sorted(2 * rows))).hexdigest()
    assert found == DataFingerprint(
        training_pixels=pixels, training_labels=labels, test_pixels=pixels, test_labels=labels, images=every
    )
