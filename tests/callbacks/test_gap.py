"""The gap that a listener hears is that of the definition."""

import numpy as np
import pytest
import torch

from orthoframe import FrameLoss, SupConLoss, frame_floor, loss_floor
from orthoframe.callbacks import GapListener, GeometryRecorder
from orthoframe.losses import GapMeter


def rows(seed, count=12):
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(count, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    return features, torch.randint(0, 3, (count,), generator=generator)


@pytest.mark.parametrize("denominator", ["all", "sincere", "negatives", "class-average"])
def test_means_over_batches(denominator):
    loss = SupConLoss(0.3, denominator)
    listener = GapListener(loss)
    values, floors = [], []
    for seed in range(3):
        features, labels = rows(seed)
        values.append(loss(features, labels=labels).item())
        floors.append(float(loss_floor(labels, temperature=0.3, denominator=denominator)))
    gap = listener.read()
    assert gap.loss == pytest.approx(sum(values) / 3)
    assert gap.floor == pytest.approx(sum(floors) / 3)
    assert gap.gap == gap.loss - gap.floor > 0
    assert listener.read() is None


def test_evaluation_does_not_count_and_a_closed_listener_hears_nothing():
    loss = SupConLoss()
    listener = GapListener(loss)
    with torch.no_grad():
        loss(*rows(0))
    features, labels = rows(0)
    loss(features.detach(), labels)
    assert listener.read() is None
    loss(features, labels)
    listener.reset()
    assert listener.read() is None
    listener.close()
    loss(features, labels)
    assert listener.read() is None


def test_a_temperature_that_changes_and_keys():
    loss = SupConLoss(0.3)
    listener = GapListener(loss)
    features, labels = rows(0)
    keys, key_labels = torch.eye(3, 5, dtype=torch.float64), torch.arange(3)
    loss(features, labels)
    loss.temperature = 0.6
    loss(features, labels, keys, key_labels)
    expected = loss_floor(labels, temperature=0.3) + loss_floor(labels, key_labels=key_labels, temperature=0.6)
    assert listener.read().floor == pytest.approx(float(expected) / 2)


def test_a_buffer_for_labels_may_be_used_again():
    loss = SupConLoss()
    listener = GapListener(loss)
    features, labels = rows(0)
    loss(features, labels)
    expected = float(loss_floor(labels))
    labels.zero_()
    assert listener.read().floor == pytest.approx(expected)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
@pytest.mark.parametrize("loss", [SupConLoss(), FrameLoss(3, 5, supcon=0.5)])
def test_labels_of_any_kind_that_the_loss_takes(loss, kind):
    labels, key_labels = [0, 1, 2, 0, 1, 2], [2, 1]
    listener, meter = GapListener(loss), GapMeter(loss)
    features, _ = rows(0, len(labels))
    value = loss(features, kind(labels), torch.eye(5)[:2], kind(key_labels))
    meter.add(value, labels, key_labels)
    assert listener.read() == meter.read()


def test_the_frame_term_and_a_weight_that_changes():
    loss = FrameLoss(3, 5, temperature=0.3)
    listener, floors = GapListener(loss), []
    for seed, weight in ((0, 0.0), (1, 0.5)):
        features, labels = rows(seed)
        loss.supcon = weight
        loss(features, labels)
        floors.append(float(frame_floor(labels, 3, temperature=0.3) + weight * loss_floor(labels, temperature=0.3)))
    gap = listener.read()
    assert gap.floor == pytest.approx(sum(floors) / 2, rel=1e-6)
    assert gap.gap > 0


def test_a_recorder_finds_the_whole_loss_of_a_model():
    """Not the contrastive part inside of it."""
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), FrameLoss(3, 5, supcon=0.5))
    recorder = GeometryRecorder(3, 1, None, "geometry")
    recorder.start(model)
    features, labels = rows(0)
    loss = model[1](features, labels)
    assert recorder._listener.read().loss == pytest.approx(loss.item())
