"""Going on from checkpoints: whole, broken, missing; and from what is none."""

import os
import shutil
import signal

import pytest
import torch
from tests.training.runs import command, finished, resume, same

from orthoframe.cli import main
from orthoframe.errors import TrainingError
from orthoframe.training._folder import CHECKPOINT, PREVIOUS, RunFolder

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


def test_two_broken_checkpoints(interrupted, capsys):
    broken_byte(interrupted / CHECKPOINT)
    truncated(interrupted / PREVIOUS)
    assert main(["train", "--resume", str(interrupted)]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    for path in (interrupted / CHECKPOINT, interrupted / PREVIOUS):
        assert f"{path} is broken (" in complaint
    assert complaint.endswith("no checkpoint is left to resume from; start a new run\n")


def test_a_checkpoint_that_fails_without_a_word(interrupted, monkeypatch):
    def fails(path):
        raise EOFError

    monkeypatch.setattr("orthoframe.training._folder._read_checkpoint", fails)
    with pytest.raises(TrainingError, match=r"is broken \(EOFError: \)"):
        RunFolder(interrupted).load_checkpoint()


def test_what_is_no_checkpoint_is_refused(interrupted):
    """Also one that would run code when it is loaded, and a zip that has other things in it."""

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {interrupted}/pwned",)

    for content in ({"state": Evil()}, ["state"], {"epoch": 1}):
        torch.save(content, interrupted / CHECKPOINT)
        state, complaints = RunFolder(interrupted).load_checkpoint()
        assert state is not None
        assert str(interrupted / CHECKPOINT) in complaints[0]
    assert not (interrupted / "pwned").exists()


def test_resuming_without_a_checkpoint_starts_at_the_beginning(interrupted, undisturbed):
    """It was killed before the first."""
    for name in (CHECKPOINT, PREVIOUS, "metrics.csv", "geometry.jsonl", "certificate.json"):
        (interrupted / name).unlink()
    resume(interrupted)
    assert same(interrupted, undisturbed)


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


def test_there_must_be_a_run_to_go_on_with(tmp_path, capsys):
    def refused():
        assert main(["train", "--resume", str(tmp_path / "run")]) == 2
        complaint = capsys.readouterr().err
        assert complaint.count("\n") == 1
        return complaint

    assert "config.json: there is no run to resume" in refused()
    (tmp_path / "run").mkdir()
    assert "config.json: there is no run to resume" in refused()
    for content in ("{", "[]", '{"epochs": "ten"}', '{"epochs": 0}', '{"model": "vgg"}'):
        (tmp_path / "run" / "config.json").write_text(content)
        assert "config.json: not the settings of a run (" in refused()
    (tmp_path / "run" / "config.json").write_bytes(b"\xff\xfe")
    assert "config.json: not the settings of a run (" in refused()
