"""Verdicts of runs that never were: features and rows of metrics made by hand."""

import torch
from tests.training.runs import small

from orthoframe import measure
from orthoframe.geometry import accuracy_of
from orthoframe.training._diagnosis import diagnose
from orthoframe.training._evaluate import Measured
from orthoframe.training._setup import set_up

FAST = "0.5"  # a temperature at which features near the frame move


def features_of(task, *, spread=0.0, tilt=0.0, dim=16):
    """Unit features of the training images: a dimension for each class, mixed with all others and with noise."""
    generator = torch.Generator().manual_seed(0)
    labels = task.train.labels
    rows = torch.nn.functional.one_hot(labels, dim).double() + tilt
    rows += spread * torch.rand(len(labels), dim, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1)


def verdict(features=None, deltas=(0.9, 0.9), spread=0.0, tilt=0.0, rows=None, **options):
    """What is said of a run with these settings that ended with these features, and with these distances on the way."""
    task = set_up(small(**{"temperature": FAST, **options}))
    features = features_of(task, spread=spread, tilt=tilt) if features is None else features(task)
    geometry = measure(features, task.train.labels, num_classes=10)
    rows = (
        [{"epoch": 10 * (number + 1), "delta_of": delta} for number, delta in enumerate(deltas)]
        if rows is None
        else rows
    )
    found = Measured(geometry, accuracy_of(torch.tensor([0] * 9 + [1]), torch.zeros(10), ["0", "1"]), torch.empty(0))
    certificate, _ = task.certificate()
    said = diagnose(task, certificate, rows, found)
    assert set(said) == {"verdict", "reached", "signature", "causes", "advice"}
    assert len(said["causes"]) == len(said["advice"])
    for sentence in (said["verdict"], said["signature"], *said["causes"], *said["advice"]):
        assert "\n" not in sentence
    return said
