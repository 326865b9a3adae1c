"""Whatever happens to a run: it ends with the same bytes, or says in a sentence why it does not."""

import os
import pty
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch
from tests.training.runs import arguments, command, finished, interrupt, json_of, noted, same, small, started

from orthoframe.cli import main
from orthoframe.errors import OrthoframeError, brief
from orthoframe.runs import CHECKPOINT, RunFolder
from orthoframe.training import Stopped, resume, train
from orthoframe.training._processes import precision_is_emulated

ENDED = -signal.SIGKILL


def state_in(folder):
    """Where the run is, by its last checkpoint."""
    checkpoint, complaints = RunFolder(folder).load_checkpoint()
    assert not complaints
    return checkpoint.progress.state


def test_kill_9_at_random_moments(tmp_path, undisturbed):
    """A checkpoint after each step, so that many of the moments are within one."""
    folder, log = tmp_path / "run", tmp_path / "log"
    moments, kills = random.Random(0), 0
    words = ["train", *arguments(), "--out", str(folder)]
    while True:
        with started(command, words, log, 0.0) as process:
            process.join(moments.uniform(0.05, 0.3 + 0.15 * kills))  # longer lives: it must end
            ended = process.exitcode is not None
        if ended:
            assert process.exitcode == 0, log.read_text()
            break
        kills += 1
        assert kills < 100, "it does not get on"
        if (folder / "config.json").exists():
            words = ["train", "--resume", str(folder)]
    assert kills >= 3
    assert same(folder, undisturbed)


def test_kill_9_before_every_file_operation(tmp_path, undisturbed):
    """A run of ten checkpoints is killed at each open and rename of a file in its folder, in turn, and goes on."""
    folder, log = tmp_path / "run", tmp_path / "log"
    words, number, kills = ["train", *arguments(), "--out", str(folder)], 0, 0
    while (status := finished(command, words, log, 0.0, number)) == ENDED:
        kills += 1
        number = kills % 40  # later in each life: it gets on, and every kind of moment comes
        if (folder / "config.json").exists():
            words = ["train", "--resume", str(folder)]
        assert kills < 400, "it does not get on"
    assert status == 0, log.read_text()
    assert kills >= 20
    assert same(folder, undisturbed)


@pytest.mark.parametrize("steps", [1, 3, 6])
def test_ctrl_c_and_on(steps, tmp_path, undisturbed):
    """In the middle of an epoch, and after its last step."""
    interrupt(small(), tmp_path / "run", epoch=1, steps=steps)
    state = state_in(tmp_path / "run")
    assert (state.epoch, state.steps) == (1, steps)
    resume(tmp_path / "run")
    assert same(tmp_path / "run", undisturbed)


@pytest.mark.parametrize(
    "options",
    [
        {"model": "resnet18", "width": 4, "majority": 12},
        {"loss": "cross-entropy"},
        {"views": 2, "temperature": (0.1, 0.5), "scheme": "balanced", "binding": "redrawn"},
        {"precision": "bf16-mixed"},
    ],
    ids=str,
)
def test_ctrl_c_and_on_with_other_options(options, tmp_path):
    settings = small(**options)
    train(settings, tmp_path / "undisturbed")
    interrupt(settings, tmp_path / "run", epoch=1, steps=2)
    resume(tmp_path / "run")
    assert same(tmp_path / "run", tmp_path / "undisturbed")


def wait_for_checkpoint(folder):
    deadline = time.monotonic() + 60
    while not (folder / CHECKPOINT).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)  # some steps more


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_to_the_command(number, tmp_path):
    folder, log = tmp_path / "my run", tmp_path / "log"
    with started(command, ["train", *arguments(epochs=100000), "--out", str(folder)], log) as process:
        wait_for_checkpoint(folder)
        os.kill(process.pid, number)
        process.join(30)
    assert process.exitcode == 130
    assert f"orthoframe: interrupted; resume with: orthoframe train --resume '{folder}'\n" in log.read_text()
    state = state_in(folder)
    assert state.epoch + state.steps > 0


def on_terminal(words, terminal):
    """The command on a terminal that is its own."""
    os.setsid()
    os.open(terminal, os.O_RDWR)  # whose end is its end
    os.environ["TERM"] = "xterm-256color"
    command(words, terminal)


def test_a_terminal_that_is_closed(tmp_path):
    """The bar and the last sentence can no longer be printed; the run is saved all the same."""
    ours, theirs = pty.openpty()
    folder, terminal = tmp_path / "run", os.ttyname(theirs)
    with started(on_terminal, ["train", *arguments(epochs=100000), "--out", str(folder)], terminal) as process:
        wait_for_checkpoint(folder)
        os.close(theirs)
        os.close(ours)
        process.join(30)
    assert process.exitcode == 130
    state = state_in(folder)
    assert state.epoch + state.steps > 0


def with_nohup(words, log):
    command(words, log, hangup=signal.SIG_IGN)


def test_a_hangup_that_is_ignored(tmp_path):
    """As nohup asks; another signal is heard."""
    folder = tmp_path / "run"
    words = ["train", *arguments(epochs=100000), "--out", str(folder)]
    with started(with_nohup, words, tmp_path / "log") as process:
        wait_for_checkpoint(folder)
        os.kill(process.pid, signal.SIGHUP)
        process.join(0.5)
        assert process.is_alive()
        os.kill(process.pid, signal.SIGTERM)
        process.join(30)
    assert process.exitcode == 130


def limited(words, log, size):
    """The command in a process that may not write files of more than `size` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    command(words, log, 0.0)


@pytest.mark.parametrize("size", [1200, 4000, 15000])
def test_writing_that_fails(size, interrupted, undisturbed, tmp_path):
    """A table or a checkpoint that cannot be written: a sentence, and the last good checkpoint is left."""
    before = (interrupted / CHECKPOINT).read_bytes()
    assert size < len(before)
    log = tmp_path / "log"
    assert finished(limited, ["train", "--resume", str(interrupted)], log, size) == 1
    complaint = log.read_text().splitlines()[-1]
    assert complaint.startswith(f"orthoframe: {interrupted}: File too large; what was saved last is whole")
    assert complaint.endswith(f"resume with orthoframe train --resume {interrupted}")
    assert (interrupted / CHECKPOINT).read_bytes() == before
    assert finished(command, ["train", "--resume", str(interrupted)], log) == 0
    assert same(interrupted, undisturbed)


@contextmanager
def disk(path, options):
    """A small disk of its own at a path."""
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be made here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        ("64k", "{folder}: No space left on device; what was saved last is whole"),
        ("1m", "the report cannot be written: No space left on device; "),
    ],
)
def test_a_full_disk(size, sentence, tmp_path, undisturbed):
    """A real one, of less than the run needs, or its report."""
    with disk(tmp_path / "disk", f"size={size}") as path:
        log, folder = tmp_path / "log", path / "run"
        status = finished(command, ["train", *arguments(), "--out", str(folder)], log, 0.0)
        assert status == 1, log.read_text()
        complaint = log.read_text().splitlines()[-1]
        assert complaint.startswith("orthoframe: " + sentence.format(folder=folder))
        assert complaint.endswith(f"resume with orthoframe train --resume {folder}")
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".orthoframe.")]
        _, complaints = RunFolder(folder).load_checkpoint()
        assert not complaints
        subprocess.run(["mount", "-o", "remount,size=64m", path], check=True)
        assert finished(command, ["train", "--resume", str(folder)], log) == 0, log.read_text()
        assert same(folder, undisturbed)


def short_of_memory(words, log, kind, size):
    """The command in a process that may take `size` more bytes once everything but the report is written."""
    field, limit = {"data": ("VmData", resource.RLIMIT_DATA), "all": ("VmSize", resource.RLIMIT_AS)}[kind]

    def hook(event, details):
        if event == "os.rename" and str(details[1]).endswith("verdict.json"):
            lines = Path("/proc/self/status").read_text().splitlines()
            most = next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field)) + size
            resource.setrlimit(limit, (most, most))

    sys.addaudithook(hook)
    command(words, log)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to such limits")
@pytest.mark.parametrize(("kind", "size"), [("data", 0), ("all", 0), ("all", 2**21)])
def test_memory_that_is_short_while_the_report_is_written(kind, size, tmp_path, undisturbed):
    folder, log = tmp_path / "run", tmp_path / "log"
    status = finished(short_of_memory, ["train", *arguments(), "--out", str(folder)], log, kind, size)
    assert status == 1, log.read_text()
    assert log.read_text().splitlines()[-1] == (
        f"orthoframe: the report cannot be written: not enough memory; everything else is in {folder}; once that is "
        f"solved, resume with orthoframe train --resume {folder}"
    )
    assert same(folder, undisturbed)  # everything but the report
    assert not (folder / "report.html").exists()
    assert finished(command, ["train", "--resume", str(folder)], log) == 0, log.read_text()
    assert (folder / "report.html").exists()
    assert same(folder, undisturbed)


def test_whatever_stops_the_report_the_weights_are_there(tmp_path):
    """Without memory an import can fail with any error."""
    with pytest.raises(Stopped, match=r"the report cannot be written: ZeroDivisionError: division by zero; everything"):
        train(small(epochs=1), tmp_path / "run", report=lambda _: 1 / 0)
    assert (tmp_path / "run" / "encoder.safetensors").exists()


def test_a_read_only_disk(interrupted, undisturbed, tmp_path, capsys):
    """No other folder on it can help; another disk can."""
    with disk(tmp_path / "disk", "size=1m") as path:
        shutil.copytree(interrupted, path / "run")
        subprocess.run(["mount", "-o", "remount,ro", path], check=True)
        assert main(["train", *arguments(), "--out", str(path / "new")]) == 2
        assert capsys.readouterr().err == (
            f"orthoframe: {path / 'new'}: Read-only file system; choose an --out on a disk that can be written to\n"
        )
        assert main(["train", "--resume", str(path / "run")]) == 2
        assert capsys.readouterr().err == (
            f"orthoframe: {path / 'run'}: Read-only file system; resume a copy of it that can be written to\n"
        )
        shutil.rmtree(interrupted)
        shutil.copytree(path / "run", interrupted)
    resume(interrupted)
    assert same(interrupted, undisturbed)


def test_a_disk_that_is_full_before_the_run_begins(tmp_path, capsys):
    """There is nothing to resume, and that is not advised."""
    with disk(tmp_path / "disk", "nr_inodes=3") as path:  # room for the folder and its lock
        assert main(["train", *arguments(), "--out", str(path / "run")]) == 2
        assert capsys.readouterr().err == (
            f"orthoframe: {path / 'run'}: No space left on device; make room, or choose an --out on another disk\n"
        )
        assert not (path / "run" / "config.json").exists()
        subprocess.run(["mount", "-o", "remount,nr_inodes=1000", path], check=True)
        assert main(["train", *arguments(epochs=1), "--out", str(path / "run")]) == 0


def test_two_runs_into_one_folder(interrupted, undisturbed, capsys, tmp_path):
    """The second refuses: after a run that has ended, one that was interrupted, and one that goes on."""
    for folder in (undisturbed, interrupted):
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        assert main(["train", *arguments(seed=5), "--out", str(folder)]) == 2
        complaint = capsys.readouterr().err
        assert complaint == (
            f"orthoframe: {folder} has a run in it; resume with orthoframe train --resume {folder}, "
            "or choose another --out\n"
        )
        assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before

    running = tmp_path / "running"
    with started(command, ["train", *arguments(epochs=100000), "--out", str(running)], tmp_path / "log") as process:
        deadline = time.monotonic() + 60
        while not (running / CHECKPOINT).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert main(["train", *arguments(), "--out", str(running)]) == 2
        assert "has a run in it" in capsys.readouterr().err
        assert main(["train", "--resume", str(running)]) == 2
        complaint = capsys.readouterr().err
        assert complaint == (f"orthoframe: {running}: another process is training into it; wait\n")
        assert process.is_alive()


def test_two_runs_that_start_at_once(tmp_path):
    """One trains, the others refuse, and the settings that are written are those of the one."""
    folder = tmp_path / "run"
    every = [["train", *arguments(epochs=100000, seed=seed), "--out", str(folder)] for seed in range(3)]
    with ExitStack() as stack:
        logs = [tmp_path / f"log{seed}" for seed in range(3)]
        processes = [stack.enter_context(started(command, words, log)) for words, log in zip(every, logs, strict=True)]
        deadline = time.monotonic() + 60
        while sum(process.is_alive() for process in processes) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        alive = [seed for seed, process in enumerate(processes) if process.is_alive()]
        assert len(alive) == 1
        assert json_of(folder / "config.json")["seed"] == alive[0]
        for seed in set(range(3)) - set(alive):
            assert processes[seed].exitcode == 2
            words = logs[seed].read_text()
            assert "another process is training into it" in words or "has a run in it" in words


@pytest.mark.parametrize(
    ("out", "sentence"),
    [("file", "File exists"), ("file/below", "Not a directory"), ("x" * 300, "File name too long")],
    ids=["file", "below a file", "long"],
)
def test_a_folder_that_cannot_be(out, sentence, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["train", *arguments(), "--out", str(tmp_path / out)]) == 2
    complaint = capsys.readouterr().err
    what = brief(f"{tmp_path / out}: {sentence}; choose another --out", 288)  # a long path loses its middle
    assert complaint == f"orthoframe: {what}\n"
    assert complaint.endswith(f": {sentence}; choose another --out\n")
    assert (tmp_path / "file").read_text() == "mine"


def test_nothing_is_left_of_what_is_refused(tmp_path):
    with pytest.raises(OrthoframeError):
        train(small(majority=1000), tmp_path / "run")
    with pytest.raises(OrthoframeError):
        train(small(model="vgg"), tmp_path / "run")
    if not torch.cuda.is_available():
        with pytest.raises(
            OrthoframeError, match="precision='16-mixed' needs a GPU, and there is none; use bf16-mixed"
        ):
            train(small(precision="16-mixed"), tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_bfloat16_that_the_processor_emulates_is_told(tmp_path):
    notes = []
    train(small(precision="bf16-mixed", epochs=1), tmp_path / "run", noted(notes))
    emulated = not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    assert [note for note in notes if "no bfloat16 instructions" in note] == (
        [
            "precision='bf16-mixed' is emulated, because this processor has no bfloat16 instructions; precision='32' "
            "is many times faster"
        ]
        if emulated
        else []
    )
    assert not precision_is_emulated("32", "cpu")
    assert not precision_is_emulated("bf16-mixed", "cuda")
