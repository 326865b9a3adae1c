"""The modules as objects: temperatures that become tensors, copies, limits of what they take."""

import copy
import math

import pytest
import torch
from torch import nn

from orthoframe import FrameLoss, SupConLoss, frame_floor, frame_loss, make_frame, supcon_loss

FEATURES = torch.rand(8, 16, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(8) % 2


@pytest.mark.parametrize("make", [SupConLoss, lambda *arguments: FrameLoss(2, 16, *arguments, supcon=0.5)])
def test_a_temperature_may_become_anything(make):
    loss = make(0.1)
    expected = loss(FEATURES, LABELS)
    for value in (nn.Parameter(torch.tensor(0.1)), torch.tensor(0.1), torch.tensor([0.1]), 0.1):
        loss.temperature = value
        assert torch.allclose(loss(FEATURES, LABELS), expected, atol=1e-6)
        assert len(list(loss.parameters())) == isinstance(value, nn.Parameter)
    loss.temperature = torch.tensor(0.2)
    assert float(copy.deepcopy(loss).temperature) == pytest.approx(0.2)
    assert loss.to("meta").temperature.device.type == "meta"


def test_one_temperature_for_each_row_of_the_frame_term():
    tau = torch.linspace(0.1, 1, 8)
    each = [
        frame_loss(FEATURES[i, None], LABELS[i, None], make_frame(2, 16), temperature=float(tau[i])) for i in range(8)
    ]
    assert torch.allclose(frame_loss(FEATURES, LABELS, make_frame(2, 16), temperature=tau), torch.stack(each).mean())
    assert torch.allclose(FrameLoss(2, 16, tau)(FEATURES, LABELS), torch.stack(each).mean())
    with pytest.raises(ValueError, match="temperature must be a number"):
        FrameLoss(2, 16, torch.ones(2))(FEATURES, LABELS)


@pytest.mark.parametrize("k", [3, 7, 11])
def test_a_module_in_float64_is_at_its_floor(k):
    """The frame was made in float32, whose rounding would have moved the floor by 1e-8."""
    loss, labels = FrameLoss(k, 2 * k + 2, temperature=0.3).double(), torch.arange(k)
    there = make_frame(k, 2 * k + 2, dtype=torch.float64)
    assert abs(float(loss(there, labels) - frame_floor(labels, k, temperature=0.3))) < 1e-14


@pytest.mark.parametrize("margin", [-1e30, 1e300, 11, -1.1, math.inf])
def test_margins_have_limits(margin):
    for call in (
        lambda: supcon_loss(FEATURES, LABELS, margin=margin),
        lambda: frame_loss(FEATURES, LABELS, make_frame(2, 16), margin=margin),
        lambda: FrameLoss(2, 16, margin=margin),
    ):
        with pytest.raises(ValueError, match="margin must be from -1 to 10"):
            call()


def test_weights_at_and_beyond_their_limits():
    for weights in (torch.tensor([1e-6, 1e6]), torch.tensor([1e-6, 1e6], dtype=torch.float64)):
        assert torch.isfinite(supcon_loss(FEATURES, LABELS, class_weights=weights))
    for wrong, message in (
        (torch.ones(2, requires_grad=True), "class_weights get no gradient"),
        ({0: 1.0}, "class_weights must be numbers, one per class, not dict"),
        ("balanced", "class_weights must be numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            supcon_loss(FEATURES, LABELS, class_weights=wrong)
    for shares in (torch.tensor([1.0, 0.0]), [1.0, -1.0]):
        with pytest.raises(ValueError, match="shares must be positive and finite"):
            frame_loss(FEATURES, LABELS, make_frame(2, 16), shares=shares)


def test_keys_need_no_weight_of_anchors():
    keys, options = torch.rand(2, 16), {"anchor_weights": [1.0, 1.0]}
    assert torch.isfinite(supcon_loss(FEATURES, LABELS, keys=keys, key_labels=[-1, 7], **options))
    with pytest.raises(ValueError, match="label 7 has no weight: class_weights"):
        supcon_loss(FEATURES, LABELS, keys=keys, key_labels=[1, 7], class_weights=[1.0, 1.0], **options)


def test_weights_keep_their_dtype_where_float16_has_no_room():
    loss = SupConLoss(class_weights=[1.0, 1e6]).half()
    assert loss.class_weights.dtype == torch.float64
    assert torch.isfinite(loss(FEATURES.half(), LABELS))
