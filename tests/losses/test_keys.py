"""Prototypes as keys: the orthogonal frame becomes the only optimum of any plan."""

import pytest
import torch

from orthoframe import loss_floor, supcon_loss

LABELS = torch.tensor([0, 0, 1, 1, 2, 2])
# Classes 0 and 1 meet in one batch only, as a single row each: nothing there pushes them apart.
BATCHES = [[0, 2, 4, 5], [0, 1, 4], [2, 3, 5]]
PROTOTYPES = {"keys": torch.eye(3, 4, dtype=torch.float64), "key_labels": torch.arange(3)}
TEMPERATURE = 0.5


def total(features, **keys):
    return sum(
        supcon_loss(features[batch], LABELS[batch], temperature=TEMPERATURE, reduction="sum", **keys)
        for batch in BATCHES
    )


def floor(**keys):
    key_labels = keys.get("key_labels")
    return sum(
        loss_floor(LABELS[batch], key_labels=key_labels, temperature=TEMPERATURE, reduction="sum") for batch in BATCHES
    )


def witness():
    """Not an orthogonal frame: classes 0 and 1 are at a cosine of 0.85."""
    classes = torch.tensor([[1, 0, 0, 0], [0.85, (1 - 0.85**2) ** 0.5, 0, 0], [0, 0, 1, 0]], dtype=torch.float64)
    return classes[LABELS]


def test_without_prototypes_the_plan_has_another_optimum():
    assert torch.allclose(total(witness()), floor(), rtol=1e-13)


def test_with_prototypes_that_optimum_is_gone():
    assert total(witness(), **PROTOTYPES) > floor(**PROTOTYPES) + 1.0


@pytest.mark.parametrize("seed", range(2))
def test_with_prototypes_every_start_ends_at_the_frame(seed):
    features = torch.rand(6, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if seed == 0:
        features = witness() + 1e-3 * features
    for _ in range(600):  # projected gradient steps on the non-negative part of the sphere
        features = (features / features.norm(dim=1, keepdim=True)).requires_grad_()
        gradient = torch.autograd.grad(total(features, **PROTOTYPES), features)[0]
        features = (features.detach() - 0.3 * gradient).clamp(min=0)
    features = features / features.norm(dim=1, keepdim=True)
    assert total(features, **PROTOTYPES) <= floor(**PROTOTYPES) + 1e-10
    assert torch.allclose(features, PROTOTYPES["keys"][LABELS], atol=1e-4)


def test_a_queue_is_a_negative_and_a_positive():
    """Rows moved from the batch to the queue keep the other anchors' terms as they were."""
    rows = torch.rand(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 2, 0, 2, 1, 0])
    everything = supcon_loss(rows, labels, reduction="none")
    part = supcon_loss(rows[:3], labels[:3], keys=rows[3:], key_labels=labels[3:], reduction="none")
    assert torch.allclose(part, everything[:3], rtol=1e-13)
