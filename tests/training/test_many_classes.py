"""Runs of many classes: their pairs are compared and not kept, or they are refused at once; and threads."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from orthoframe.errors import TrainingError
from orthoframe.geometry import MOST_COSINES
from orthoframe.reporting import write_report, write_run_report
from orthoframe.runs import read_run
from orthoframe.training import Settings, make_task, train
from orthoframe.training._processes import one_thread

PLAIN = {"recipe": "plain", "loss": "frame", "binding": "none", "model": "mlp", "width": 16}
PLAIN |= {"epochs": 1, "validation": 0}


def archive(path, num_classes):
    """Two training images and one test image of each class."""
    images = np.random.default_rng(0).integers(0, 255, (2 * num_classes, 4, 4), dtype=np.uint8)
    labels = np.arange(2 * num_classes) % num_classes
    np.savez(path, x_train=images, y_train=labels, x_test=images[:num_classes], y_test=labels[:num_classes])
    return f"npz:{path}"


def test_more_classes_than_cosines_are_listed_of(tmp_path):
    data = archive(tmp_path / "many.npz", MOST_COSINES + 1)
    result = train(Settings.of(data=data, **PLAIN), tmp_path / "run", report=write_run_report)
    assert result is not None
    measured = json.loads((tmp_path / "run" / "geometry.jsonl").read_text().splitlines()[-1])["train"]
    assert measured["cosines"] is None
    assert -1 <= measured["max_cosine"] <= 1
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'id="plot-ownership"' in page
    assert 'id="plot-cosines"' not in page
    run = read_run(tmp_path / "run")
    write_report([run, run], tmp_path / "two.html")
    assert "plot-accuracy" in (tmp_path / "two.html").read_text()


def test_more_classes_than_can_be_measured_are_refused_at_once(tmp_path):
    data = archive(tmp_path / "many.npz", 6000)
    with pytest.raises(TrainingError, match=r"6000 classes with 12000 features .* train on at most 5792 classes"):
        make_task(Settings.of(data=data, **PLAIN))


def test_more_features_than_can_be_measured_are_refused(tmp_path):
    data = archive(tmp_path / "many.npz", 1000)
    with pytest.raises(TrainingError) as refusal:
        make_task(Settings.of(data=data, features=40_000, **PLAIN))
    assert "features=33554 or fewer" in str(refusal.value)


@pytest.mark.parametrize(("model", "width", "small"), [("mlp", 64, True), ("mlp", 4096, False), ("resnet18", 4, False)])
def test_which_networks_are_small(model, width, small):
    assert make_task(Settings.of(model=model, width=width)).is_small is small


def test_small_networks_compute_in_one_thread_unless_the_environment_decides(monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread(is_small=True):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with one_thread(is_small=False):
            assert torch.get_num_threads() == 2
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        with one_thread(is_small=True):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_command_waits_without_spinning():
    """What the OpenMP library reads when torch loads."""
    script = "import os; from orthoframe.cli import main; main(['--version']); print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "PASSIVE"
