"""A batch that two processes share: the same mathematics."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from tests.training.runs import SMALL, arguments, json_of, recomputed, rows_of, small

from orthoframe.training import TrainingError, load_encoder, train
from orthoframe.training._checkpoint import NAME
from orthoframe.training._processes import check_devices

SCRIPT = Path(__file__).with_name("several.py")
# Batches of 41 rows, 31 of the sampler's and 10 that bind, and a last one of 35: never two equal halves.
UNEVEN = {"batch_size": 31, "epochs": 5}
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


@contextmanager
def python(*words):
    """Python with these arguments; neither it nor what it started is left at the end."""
    process = subprocess.Popen(
        [sys.executable, *words],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()  # torchrun ends its processes, which are not of its group
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def losses_agree(folder, alone):
    """Loss of every epoch, to the rounding of float32; and all that is measured, which is as sensitive as it is."""
    assert len(rows_of(folder)) == len(rows_of(alone))
    for row, other in zip(rows_of(folder), rows_of(alone), strict=True):
        assert row["loss"] == pytest.approx(other["loss"], rel=1e-6)
        assert row.keys() == other.keys()
        for name in ("floor", "collapsed", "lr", "temperature"):
            assert row.get(name) == other.get(name)
        assert row["delta_of"] == pytest.approx(other["delta_of"], rel=1e-3)
    return True


@pytest.mark.skipif(os.cpu_count() == 1, reason="there is one core, and two processes need two")
def test_ctrl_c_in_two_processes_and_on_under_torchrun(tmp_path):
    """`--devices 2` is interrupted; torchrun goes on with it; the losses are those of one process.

    One start of torchrun serves all that it can: a start takes as long as everything else here.
    """
    shared = tmp_path / "shared"
    words = ["train", *arguments(**UNEVEN), "--devices", "2"]
    with python(SCRIPT, *words, "--out", shared) as process:
        deadline = time.monotonic() + 120
        while not (shared / NAME).exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said, complaint = process.communicate(timeout=60)
    assert process.returncode == 130, complaint
    assert complaint.count("orthoframe: interrupted; go on with: orthoframe train --resume") == 1
    assert "Traceback" not in complaint
    assert said.count("The floor of the loss") == 1
    assert not (shared / "encoder.safetensors").exists()

    entropy, pooled, hopeless, taken, framed = (
        tmp_path / name for name in ("entropy", "pooled", "hopeless", "taken", "framed")
    )
    small_words = ["train", *arguments(**{**UNEVEN, "majority": 12, "epochs": 2})]
    every = [
        ["train", "--resume", shared],
        [*words, "--loss", "cross-entropy", "--out", entropy],
        [*small_words, "--model", "resnet18", "--width", "4", "--devices", "2", "--out", pooled],
        [*words, "--lr", "1e30", "--out", hopeless],
        ["train", "--resume", taken],
        [*words, "--binding", "none", "--prototypes", "--out", framed],
    ]
    joined = [str(word) for number, each in enumerate(every) for word in (["--then"] * (number > 0) + each)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with python(*torchrun, SCRIPT, *joined) as process:
        said, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    # What the first process answers to each, and the second, which keeps silent.
    statuses = sorted(line for line in said.splitlines() if line.startswith("status"))
    assert statuses == sorted(["status 0"] * 4 + ["status 1", "status 2"] + ["status 0"] * 6)

    alone = tmp_path / "alone"
    train(small(**UNEVEN), alone)
    assert losses_agree(shared, alone)
    assert json_of(shared / "config.json")["devices"] == 2
    recomputed(shared)
    alone_entropy = tmp_path / "alone-entropy"
    train(small(loss="cross-entropy", **UNEVEN), alone_entropy)
    assert losses_agree(entropy, alone_entropy)
    alone_framed = tmp_path / "alone-framed"
    train(small(binding="none", prototypes=True, **UNEVEN), alone_framed)
    assert losses_agree(framed, alone_framed)

    # BatchNorm: a note, once, and a run that ends.
    note = "each of the 2 processes takes BatchNorm statistics of its own part of a batch"
    assert complaint.count(note) == 1
    assert load_encoder(pooled).classes == tuple("0123456789")
    assert len(rows_of(pooled)) == 2

    assert complaint.count("orthoframe: the loss is nan in step") == 1
    assert complaint.count("config.json: there is no run to go on with") == 1
    for folder in (shared, entropy, pooled, framed):
        assert said.count(f"report: {folder / 'report.html'}") == 1


def test_batches_are_uneven():
    """What the name says."""
    from orthoframe.training._setup import set_up

    assert SMALL["batch_size"] != UNEVEN["batch_size"]
    assert all(len(batch) % 2 for batch in set_up(small(**UNEVEN)).plan.batches(0))


def test_more_processes_than_can_be_are_never_started():
    """Asked of the check itself: what it lets through would be started."""
    there = torch.cuda.device_count() or os.cpu_count()
    check_devices(there)
    for devices in (there + 1, 100_000):
        with pytest.raises(TrainingError, match=f"--devices {devices} is more than there are: {there} "):
            check_devices(devices)
