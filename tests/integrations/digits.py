"""The task of the tests: imbalanced digits, a small network whose result does not depend on the number of processes."""

import json
import os
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from orthoframe import BatchPlan, FrameHead
from orthoframe.data import imbalanced_indices

EPOCHS, BATCH_SIZE, TEMPERATURE, STEPS = 4, 96, 0.2, 4


def rows():
    pixels, labels = load_digits(return_X_y=True)
    kept = imbalanced_indices(labels, [60] * 5 + [12] * 5, seed=0)
    return torch.tensor(pixels[kept] / 16), torch.tensor(labels[kept])


def make_plan():
    return BatchPlan(rows()[1].numpy(), BATCH_SIZE, seed=3)


def make_encoder(dropout=0.0):
    # No BatchNorm: each process would have statistics of its own. In float64: steps would make much of a rounding.
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(dropout), FrameHead(128, 64)).double()


def environment():
    """For a process that imports this module, and the same orthoframe as this one."""
    path = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, path))}


def write(folder, rank, result):
    (folder / f"{rank}.json").write_text(json.dumps(result))


def read(folder, ranks):
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def batches_of(rank, ranks, epochs=EPOCHS):
    """What a process must have seen."""
    plan = make_plan()
    return [batch[rank::ranks].tolist() for epoch in range(epochs) for batch in plan.batches(epoch)]


def agree(results, losses, history):
    """Two processes saw their shares of every batch, and lost and measured what one does."""
    for rank, result in enumerate(results):
        assert result["seen"] == batches_of(rank, 2)
    means = [(a + b) / 2 for a, b in zip(*(result["losses"] for result in results), strict=True)]
    assert means == pytest.approx(losses, abs=1e-5)
    assert results[0]["history"] == results[1]["history"]
    for mine, theirs in zip(results[0]["history"], history, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-4)
    return True


def expected_gaps(losses):
    """The gap of each epoch, from the losses of all steps and the floors of all batches."""
    from orthoframe import loss_floor

    plan, labels, gaps = make_plan(), rows()[1], []
    for epoch in range(EPOCHS):
        floors = [float(loss_floor(labels[batch], temperature=TEMPERATURE)) for batch in plan.batches(epoch)]
        steps = losses[epoch * len(floors) : (epoch + 1) * len(floors)]
        gaps.append((sum(steps) - sum(floors)) / len(floors))
    return gaps
