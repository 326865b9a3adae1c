"""Going on from checkpoints: whole, broken, missing; and from what is none."""

import errno
import json
import os
import shutil
import signal
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from tests.training.runs import command, finished, interrupt, same, small

from orthoframe.cli import main
from orthoframe.errors import TrainingError, brief
from orthoframe.reporting import write_run_report
from orthoframe.runs import CHECKPOINT, PREVIOUS, Checkpoint, RunFolder
from orthoframe.training import RunListener, make_task, resume, train
from orthoframe.training._loop import check_checkpoint

ENDED = -signal.SIGKILL


def broken_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("breakage", [broken_byte, truncated])
def test_a_broken_checkpoint_is_passed_over(breakage, interrupted, undisturbed, capsys):
    breakage(interrupted / CHECKPOINT)
    assert main(["train", "--resume", str(interrupted)]) == 0
    note = capsys.readouterr().err
    assert f"orthoframe: {interrupted / CHECKPOINT} is broken (" in note
    assert note.count("\n") == 1
    assert same(interrupted, undisturbed)


def test_the_good_checkpoint_survives_the_broken_one(interrupted, undisturbed, tmp_path):
    """Killed again on its first save after it has passed over the broken one."""
    broken_byte(interrupted / CHECKPOINT)
    number = 0
    while finished(command, ["train", "--resume", str(interrupted)], tmp_path / "log", 0.0, number) == ENDED:
        state, _ = RunFolder(interrupted).load_checkpoint()
        assert state is not None
        number += 5
    assert same(interrupted, undisturbed)


def test_a_disk_that_has_lost_a_part_of_it(interrupted, undisturbed, monkeypatch, capsys):
    read = Checkpoint.read

    def failing(file):
        if file.name == str(interrupted / CHECKPOINT):
            raise OSError(errno.EIO, "Input/output error")
        return read(file)

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "read", failing)
        assert main(["train", "--resume", str(interrupted)]) == 0
    assert f"{CHECKPOINT} is broken (Input/output error); resuming from the previous one" in capsys.readouterr().err
    assert same(interrupted, undisturbed)


def test_two_broken_checkpoints(interrupted, capsys):
    broken_byte(interrupted / CHECKPOINT)
    truncated(interrupted / PREVIOUS)
    every = "; ".join(f"{name} is broken (its checksum is wrong)" for name in (CHECKPOINT, PREVIOUS))
    sentence = f"{interrupted}: {every}: no checkpoint is left to resume from; start a new run"
    with pytest.raises(TrainingError) as refused:
        resume(interrupted)
    assert str(refused.value) == sentence
    assert main(["train", "--resume", str(interrupted)]) == 2
    assert capsys.readouterr().err == f"orthoframe: {brief(sentence, 288)}\n"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A run of 12 images of two classes with two small checkpoints, and what they hold: the newer, the previous."""
    folder = tmp_path_factory.mktemp("tiny")
    pixels = np.random.default_rng(0).integers(0, 255, (12, 2, 2)).astype(np.uint8)
    np.savez(folder / "tiny.npz", x=pixels, y=np.repeat([0, 1], 6))
    data = {"data": f"npz:{folder / 'tiny.npz'}", "imbalance": "none", "ratio": 1.0, "majority": None}
    settings = small(**data, width=2, features=8, batch_size=4)
    interrupt(settings, folder / "run", epoch=1, steps=1)
    run = RunFolder(folder / "run")
    newer, _ = run.load_checkpoint()
    (run.path / CHECKPOINT).unlink()
    previous, complaints = run.load_checkpoint()
    assert not complaints
    assert (newer.progress.state.epoch, previous.progress.state.epoch) == (1, 0)
    return run, make_task(settings), newer, previous


def equal(checkpoint, other):
    """Whether two hold the same, to the bit."""
    for tensors, others in ((checkpoint.weights, other.weights), (checkpoint.momentum, other.momentum)):
        if tensors.keys() != others.keys() or not all(torch.equal(tensors[name], others[name]) for name in tensors):
            return False
    return checkpoint.progress == other.progress


def changed(checkpoint, **state):
    return replace(checkpoint, progress=replace(checkpoint.progress, state=replace(checkpoint.progress.state, **state)))


def other_weights(checkpoint, **weights):
    return replace(checkpoint, weights={**checkpoint.weights, **weights})


STRANGE = {
    "an epoch too many": lambda one: changed(one, epoch=4),
    "a negative epoch": lambda one: changed(one, epoch=-1),
    "an epoch without a record": lambda one: replace(one, progress=replace(one.progress, metrics=0)),
    "a step too many": lambda one: changed(one, steps=99),
    "a step without a loss": lambda one: changed(one, steps=2),
    "an epoch that is no number": lambda one: changed(one, epoch="one"),
    "no weights": lambda one: replace(one, weights={}),
    "a weight too many": lambda one: other_weights(one, more=torch.zeros(1)),
    "another shape": lambda one: other_weights(one, **{next(iter(one.weights)): torch.zeros(3)}),
    "another type": lambda one: other_weights(one, **{name: each.double() for name, each in one.weights.items()}),
    "other momentum": lambda one: replace(one, momentum={"7": torch.zeros(1)}),
    "momentum without a number": lambda one: replace(one, momentum={"x": torch.zeros(1)}),
    "no batches": lambda one: replace(one, progress=replace(one.progress, batches={})),
    "no data": lambda one: replace(one, progress=replace(one.progress, data=None)),
    "odd settings": lambda one: replace(one, progress=replace(one.progress, settings={"data": 3})),
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE.keys())
def test_a_whole_file_with_a_state_that_cannot_be(strange, tiny):
    """Somebody else may have made it: the checksum is right."""
    run, task, newer, previous = tiny
    with (run.path / CHECKPOINT).open("wb") as file:
        strange(newer).write(file)
    checkpoint, complaints = run.load_checkpoint(partial(check_checkpoint, task=task))
    assert equal(checkpoint, previous)
    assert complaints[0].startswith(f"{run.path / CHECKPOINT} is broken (")
    assert "\n" not in complaints[0]


def test_resuming_without_a_checkpoint_starts_at_the_beginning(interrupted, undisturbed):
    """It was killed before the first."""
    for name in (CHECKPOINT, PREVIOUS, "metrics.csv", "geometry.jsonl", "certificate.json"):
        (interrupted / name).unlink()
    resume(interrupted)
    assert same(interrupted, undisturbed)


def test_a_checkpoint_of_an_earlier_version_is_not_started_over(interrupted):
    os.replace(interrupted / CHECKPOINT, interrupted / "checkpoint.pt")
    (interrupted / PREVIOUS).unlink()
    with pytest.raises(TrainingError, match="is from an earlier version"):
        resume(interrupted)


def test_resuming_between_the_two_names(interrupted, undisturbed):
    """It was killed when the old checkpoint had given up its name, and the new one had none yet."""
    os.replace(interrupted / CHECKPOINT, interrupted / PREVIOUS)
    resume(interrupted)
    assert same(interrupted, undisturbed)


def test_resuming_a_finished_run_writes_what_is_missing(undisturbed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    for name in ("encoder.safetensors", "verdict.json", "certificate.json"):
        (folder / name).unlink()
    assert main(["train", "--resume", str(folder)]) == 0
    assert same(folder, undisturbed)
    assert (folder / "report.html").exists()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[" * 3000, b'{"processes": 0}', b'{"processes": "two"}'], ids=repr
)
def test_a_broken_record_of_what_was_used(content, interrupted, undisturbed):
    """run.json: the settings say how many processes there are, and it is written again; as is the certificate."""
    for name in ("run.json", "certificate.json"):
        (interrupted / name).write_bytes(content)
    resume(interrupted)
    assert same(interrupted, undisturbed)


def test_no_processes_in_the_record(interrupted, undisturbed):
    record = json.loads((interrupted / "run.json").read_text())
    for processes in (0, -3):
        (interrupted / "run.json").write_text(json.dumps({**record, "processes": processes}))
        assert RunFolder(interrupted).environment() is None
    resume(interrupted)
    assert same(interrupted, undisturbed)


def test_a_broken_table(interrupted, undisturbed, capsys):
    """No checkpoint has a copy of it; what the run had measured is not left out in silence."""
    content = (interrupted / "metrics.csv").read_bytes()
    (interrupted / "metrics.csv").write_bytes(b"\x00\xff")
    assert main(["train", "--resume", str(interrupted)]) == 2
    complaint = capsys.readouterr().err
    assert f"{CHECKPOINT} is broken (metrics.csv was cut or changed; bring it back)" in complaint
    (interrupted / "metrics.csv").write_bytes(content)
    assert main(["train", "--resume", str(interrupted)]) == 0
    assert same(interrupted, undisturbed)


def test_a_broken_table_of_which_the_previous_checkpoint_counts_nothing(interrupted, undisturbed, capsys):
    """It is from before the first measurement, so that the lines come again."""
    (interrupted / "geometry.jsonl").unlink()
    assert main(["train", "--resume", str(interrupted)]) == 0
    complaint = capsys.readouterr().err
    assert "(geometry.jsonl was cut or changed; bring it back); resuming from the previous one" in complaint
    assert same(interrupted, undisturbed)


def sizes(folder, epochs):
    """Bytes of the checkpoint and of the geometry, of a run that measures each of its epochs."""
    train(small(epochs=epochs, measure_every=1), folder)
    return [(folder / name).stat().st_size for name in (CHECKPOINT, "geometry.jsonl")]


def test_checkpoints_do_not_grow_with_what_was_measured(tmp_path):
    """But for the digits of its counts."""
    few, many = sizes(tmp_path / "5", 5), sizes(tmp_path / "50", 50)
    assert abs(many[0] - few[0]) <= 32
    assert many[1] > 8 * few[1]


def test_a_loop_keeps_nothing_that_is_written(tmp_path):
    kept = []
    listener = RunListener(on_step=lambda loop: kept.append(len(loop.state.lines)))
    train(small(epochs=6, measure_every=1), tmp_path / "run", listener, save_seconds=0.0)
    assert max(kept) <= 1


def test_there_must_be_a_run_to_go_on_with(tmp_path, capsys):
    def refused():
        with pytest.raises(TrainingError) as error:
            resume(tmp_path / "run")
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "config.json: there is no run to resume" in refused()
    (tmp_path / "run").mkdir()
    assert "config.json: there is no run to resume" in refused()
    odd = ["{", "[]", '{"epochs": "ten"}', '{"epochs": 0}', '{"model": "vgg"}', "[" * 100_000]
    odd += [json.dumps({"model": "x\n" * 5000}), json.dumps({"lr": 10**400}), '{"data_dir": 3}']
    for content in odd:
        (tmp_path / "run" / "config.json").write_text(content)
        complaint = refused()
        assert "config.json: not the settings of a run (" in complaint
        assert len(complaint.replace(str(tmp_path), "")) <= 300
    (tmp_path / "run" / "config.json").write_bytes(b"\xff\xfe")
    assert "config.json: not the settings of a run (" in refused()
    assert main(["train", "--resume", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.startswith("orthoframe: ")


def test_what_a_kill_left_of_a_figure_is_removed(interrupted, undisturbed):
    (interrupted / "figures").mkdir()
    for leftover in (interrupted / ".orthoframe.half", interrupted / "figures" / ".orthoframe.half"):
        leftover.write_bytes(b"PNG")
    resume(interrupted, report=write_run_report)
    assert not list(interrupted.rglob(".orthoframe.*"))
