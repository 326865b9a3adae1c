"""A loss that is not finite stops the run: what is said, and what is left."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from tests.training.runs import arguments, json_of, small

from orthoframe.cli import main
from orthoframe.errors import TrainingError
from orthoframe.runs import RunFolder
from orthoframe.training import make_task, train


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_loss_that_is_not_finite(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("run")
    assert main(["train", *arguments(lr=1e30), "--out", str(folder)]) == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert len(complaint) <= 220  # of the 300 that are printed: a folder has room
    assert complaint.startswith("orthoframe: the loss is nan in step ")
    assert " of epoch 1 (samples " in complaint
    assert f", ..., all in {folder / 'nan-batch.json'}); the largest feature before normalisation is " in complaint
    assert complaint.endswith("; try a smaller --lr or --precision 32\n")
    # The samples are those of the step, where they are in the data.
    record = json_of(folder / "nan-batch.json")
    assert f" in step {record['step']} of epoch {record['epoch']} " in complaint
    shown = [int(word) for word in complaint.split("(samples ")[1].split(", ...")[0].split(", ")]
    assert shown == record["indices"][:4]
    task = make_task(small())
    batch = torch.from_numpy(task.plan.batches(0)[record["step"] - 1])
    pixels = np.rint(load_digits().images * (255 / 16))[record["indices"]]
    assert np.array_equal(task.train.pixels[batch][:, 0].numpy(), pixels)
    # What was saved last is from before.
    checkpoint, _ = RunFolder(folder).load_checkpoint()
    assert all(torch.isfinite(value).all() for value in checkpoint.weights.values())
    assert main(["report", str(folder)]) == 0
    assert "Not finished: after epoch 0 of 3 the loss was not finite" in (folder / "report.html").read_text()


@pytest.mark.parametrize("head", ["linear", "none"])
def test_the_largest_feature_is_that_before_the_norm(head, tmp_path, monkeypatch):
    """After the linear layer and the activation: what the norm divides."""
    monkeypatch.setattr("orthoframe.losses.SupConLoss.forward", lambda _, rows, *__: rows.sum() * math.inf)
    with pytest.raises(TrainingError, match="the loss is inf in step 1 of epoch 1"):
        train(small(head=head, augment=False), tmp_path / "run")
    record = json_of(tmp_path / "run" / "nan-batch.json")
    task = make_task(small(head=head, augment=False))
    features = task.encoder.backbone(task.normaliser(task.train.pixels[torch.from_numpy(task.plan.batches(0)[0])]))
    if head == "linear":
        features = torch.relu(task.encoder.head.linear(features))
    assert record["largest_feature"] == pytest.approx(float(features.detach().max()), rel=1e-5)
