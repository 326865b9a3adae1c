"""Checkpoints and fingerprints: what is written is read back, and whatever is broken is passed over."""

import hashlib
import json
import math
import os
import pickle
import struct
import zlib
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, save

from orthoframe.data import Data, LabelledImages
from orthoframe.errors import TrainingError
from orthoframe.runs import (
    CHECKPOINT,
    PREVIOUS,
    Checkpoint,
    DataFingerprint,
    EpochRecord,
    Progress,
    RunFolder,
    State,
    metrics_table,
    read_epochs,
)

RECORDS = [
    EpochRecord(epoch=n + 1, seconds=0.1, lr=0.1, loss=1 / (n + 3), dead_rows=n, delta_of=math.inf if n == 1 else None)
    for n in range(4)
]


def checkpoint_of(epoch):
    """A small one; its weights say after which epoch."""
    progress = Progress(
        settings={"data": "digits", "lr": 0.1},
        encoder="{}",
        data=DataFingerprint(training_pixels="a", training_labels="b", test_pixels="c", test_labels="d", images="e"),
        plan="plan",
        state=State(epoch=epoch, steps=1, seconds=0.5),
        metrics=zlib.crc32(metrics_table(RECORDS[:epoch]).encode()),
        batches={"loss": [1.25], "floor": [0.5], "collapsed": [2.0]},
        precision={},
    )
    weights = {"weight": torch.full((2, 3), float(epoch)), "bias": torch.arange(3) + 0.1}
    return Checkpoint(progress, weights=weights, momentum={"0": torch.ones(2, 3)})


@pytest.fixture
def folder(tmp_path):
    """A folder with two checkpoints."""
    run = RunFolder(tmp_path)
    run.write_tables(State(epoch=1, records=RECORDS[:1]))
    for epoch in (0, 1):
        run.save_checkpoint(checkpoint_of(epoch))
    return run


def equal(checkpoint, other):
    """Whether two hold the same, to the bit."""
    for tensors, others in ((checkpoint.weights, other.weights), (checkpoint.momentum, other.momentum)):
        if tensors.keys() != others.keys() or not all(torch.equal(tensors[name], others[name]) for name in tensors):
            return False
    return checkpoint.progress == other.progress


def test_the_newest_of_two(folder):
    assert sorted(path.name for path in folder.path.iterdir()) == [
        CHECKPOINT,
        PREVIOUS,
        "geometry.jsonl",
        "metrics.csv",
    ]
    newest, complaints = folder.load_checkpoint()
    assert equal(newest, checkpoint_of(1))
    assert not complaints
    (folder.path / CHECKPOINT).unlink()
    assert equal(folder.load_checkpoint()[0], checkpoint_of(0))
    (folder.path / PREVIOUS).unlink()
    assert folder.load_checkpoint() == (None, [])


def test_records_are_read_as_they_were(tmp_path):
    """Also numbers that are not finite: the verdict of a resumed run is about what it reads."""
    RunFolder(tmp_path).write_tables(State(epoch=4, records=RECORDS))
    assert list(read_epochs(tmp_path)) == RECORDS


def saved(run, state):
    """A checkpoint after its tables, as a run saves them."""
    run.write_tables(state)
    start, metrics = checkpoint_of(0), zlib.crc32(metrics_table(state.records).encode())
    progress = replace(start.progress, state=replace(state, records=[], lines=[]), metrics=metrics)
    run.save_checkpoint(replace(start, progress=progress))


def test_what_a_killed_run_wrote_after_its_checkpoint_is_cut_off(tmp_path):
    run = RunFolder(tmp_path)
    saved(run, State(epoch=1, records=RECORDS[:1], lines=['{"epoch": 1}\n']))
    written = len('{"epoch": 1}\n')
    run.write_tables(State(epoch=3, records=RECORDS[:3], lines=['{"epoch": 2}\n'], written=written))
    with (tmp_path / "geometry.jsonl").open("a") as file:
        file.write('{"epoch"')
    checkpoint, complaints = run.load_checkpoint()
    assert not complaints
    state = checkpoint.progress.state
    assert (state.epoch, state.records, state.lines, state.written) == (1, [], [], written)
    run.write_tables(State(epoch=2, records=RECORDS[:2], lines=['{"epoch": 5}\n'], written=written))
    assert (tmp_path / "geometry.jsonl").read_text() == '{"epoch": 1}\n{"epoch": 5}\n'
    assert list(read_epochs(tmp_path)) == RECORDS[:2]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("metrics.csv", lambda content: content[:-9]),
        ("metrics.csv", lambda content: content.replace(b"0.1", b"0.2")),
        ("metrics.csv", None),
        ("geometry.jsonl", lambda content: content[:-3]),
        ("geometry.jsonl", None),
    ],
)
def test_tables_that_are_not_those_of_a_checkpoint(name, change, tmp_path):
    """It has no copy of them."""
    run = RunFolder(tmp_path)
    saved(run, State(epoch=2, records=RECORDS[:2], lines=['{"epoch": 1}\n']))
    before = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    if change is not None:
        (tmp_path / name).write_bytes(change(before))
    with pytest.raises(TrainingError) as refused:
        run.load_checkpoint()
    assert f"{CHECKPOINT} is broken ({name} was cut or changed; bring it back)" in str(refused.value)
    (tmp_path / name).write_bytes(before)
    assert run.load_checkpoint()[0].progress.state.epoch == 2


def test_lines_that_are_lost_while_a_run_goes_on(tmp_path):
    with pytest.raises(TrainingError, match=r"geometry\.jsonl: lines that the run had written are gone"):
        RunFolder(tmp_path).write_tables(State(written=10))


def test_lines_are_not_added_to_a_pipe(tmp_path):
    """It would wait for a reader that never comes."""
    os.mkfifo(tmp_path / "geometry.jsonl")
    with pytest.raises(TrainingError, match="it is a pipe"):
        RunFolder(tmp_path).write_tables(State())


def test_a_checkpoint_of_the_version_that_carried_its_measurements(folder):
    """Its tables are not counted, so that nothing could be cut off or checked."""
    for name in (CHECKPOINT, PREVIOUS):
        tensors = load((folder.path / name).read_bytes()[32:])
        progress = json.loads(tensors["json"].numpy().tobytes())
        del progress["metrics"]
        progress["state"]["measurements"] = []
        tensors["json"] = torch.frombuffer(bytearray(json.dumps(progress).encode()), dtype=torch.uint8)
        body = save(tensors)
        (folder.path / name).write_bytes(hashlib.sha256(body).digest() + body)
    with pytest.raises(TrainingError, match=r"missing required field `metrics`.*no checkpoint is left to resume from"):
        folder.load_checkpoint()


def test_the_previous_one_can_be_put_back(folder):
    """So that the next save does not lose the one that is whole."""
    (folder.path / CHECKPOINT).write_bytes(b"broken")
    folder.restore_previous()
    checkpoint, complaints = folder.load_checkpoint()
    assert equal(checkpoint, checkpoint_of(0))
    assert not complaints


def test_what_a_check_refuses(folder):
    """A ValueError passes a checkpoint over; an error for the user ends the search."""

    def first_epoch(checkpoint):
        if checkpoint.progress.state.epoch:
            raise ValueError("it is too new")

    previous, complaints = folder.load_checkpoint(first_epoch)
    assert equal(previous, checkpoint_of(0))
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
        checkpoint, complaints = folder.load_checkpoint()
        return complaints == [complaint] and equal(checkpoint, previous)

    with file.open("r+b", buffering=0) as disk:
        for place, byte in enumerate(content):
            for flipped in (byte ^ 0xFF, byte ^ 1 << place % 8):
                os.pwrite(disk.fileno(), bytes([flipped]), place)
                assert passed_over(), place
            os.pwrite(disk.fileno(), bytes([byte]), place)
        checkpoint, complaints = folder.load_checkpoint()
        assert not complaints
        assert equal(checkpoint, checkpoint_of(1))
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
            checkpoint, complaints = folder.load_checkpoint()
            assert equal(checkpoint, checkpoint_of(0))
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
    fingerprint = DataFingerprint.of(Data(images, images, "x"))
    pixels = hashlib.sha256(b"[2, 1, 2, 2]" + bytes(range(8))).hexdigest()
    labels = hashlib.sha256(b'["a", "b"]' + struct.pack("<2Q", 0, 1)).hexdigest()
    rows = [zlib.crc32(bytes(range(4))) << 32, zlib.crc32(bytes(range(4, 8))) << 32 | 1]
    every = hashlib.sha256(b'["a", "b"]' + struct.pack("<4Q", *sorted(2 * rows))).hexdigest()
    assert fingerprint == DataFingerprint(
        training_pixels=pixels, training_labels=labels, test_pixels=pixels, test_labels=labels, images=every
    )
