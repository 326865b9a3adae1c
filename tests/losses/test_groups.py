"""Hybrid layouts of four gloo processes against one process with the joined batch, and what the loss notices itself."""

import math
import warnings

import pytest
import torch
import torch.distributed as dist
from examples.cluster.hybrid import hybrid_sharded, sharded, sub_groups, tensor_parallel
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from orthoframe import FrameLoss, SupConLoss
from processes import start

LABELS = [[0, 0, 1, 1], [0, 1, 1, 2, 2], [2, 0], [1, 1, 0]]  # of each share of the data
DIM = 6


def model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, DIM), nn.Softplus()).double()


def inputs(share, step=0):
    generator = torch.Generator().manual_seed(10 * step + share)
    return torch.randn(len(LABELS[share]), 4, generator=generator, dtype=torch.float64)


def gradients(network):
    grads = [p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad for p in network.parameters()]
    return torch.cat([grad.flatten() for grad in grads]).tolist()


def run_layouts(rank):
    """Loss and averaged gradient of each layout, and the warnings of each step."""
    results, messages = {}, {}

    def step(name, encoder, criterion, share):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loss = criterion(encoder(inputs(share)), torch.tensor(LABELS[share]))
            loss.backward()
        results[name] = (loss.item(), gradients(encoder))
        messages[name] = [str(each.message) for each in caught if "group" in str(each.message)]

    step("fsdp", *sharded(model()), rank)
    half = sub_groups(model())
    step("sub-groups", *half, rank)
    group = half[1].group
    frame = FrameLoss(3, DIM, supcon=0.5, group=group)
    step("frame", DistributedDataParallel(model(), process_group=group), frame, rank)
    network, criterion = tensor_parallel(model())
    step("tensor", network, criterion, dist.get_rank(criterion.group))
    step("hsdp", *hybrid_sharded(model()), rank)

    network, criterion = DistributedDataParallel(model()), SupConLoss(group=dist.group.WORLD)
    with network.no_sync():
        criterion(network(inputs(rank, 1)), torch.tensor(LABELS[rank])).backward()
    step("no_sync", network, criterion, rank)

    step("no group", DistributedDataParallel(model(), process_group=group), SupConLoss(), rank)
    step("again", DistributedDataParallel(model(), process_group=group), SupConLoss(), rank)
    step("replicas", DistributedDataParallel(model()), SupConLoss(group=dist.group.WORLD), rank // 2)
    return results, messages


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return start(run_layouts, 4, tmp_path_factory.mktemp("layouts"), seconds=300)


def joined(shares, criterion, steps=(0,)):
    """Loss and gradient in one process; gradients of several steps add up."""
    network, labels = model(), torch.tensor([label for share in shares for label in LABELS[share]])
    for step in steps:
        loss = criterion(network(torch.cat([inputs(share, step) for share in shares])), labels)
        loss.backward()
    return loss.item(), gradients(network)


def close(one, other, tolerance):
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) < tolerance


HALVES, PAIR, ALL = [[0, 1], [0, 1], [2, 3], [2, 3]], [[0, 1]] * 4, [[0, 1, 2, 3]] * 4


@pytest.mark.parametrize(
    ("name", "shares", "criterion", "steps"),
    [
        ("fsdp", ALL, SupConLoss(), (0,)),
        ("hsdp", ALL, SupConLoss(), (0,)),
        ("sub-groups", HALVES, SupConLoss(), (0,)),
        ("frame", HALVES, FrameLoss(3, DIM, supcon=0.5), (0,)),
        ("tensor", PAIR, SupConLoss(), (0,)),
        ("no_sync", ALL, SupConLoss(), (1, 0)),
    ],
)
def test_equals_one_process_on_the_joined_batch(name, shares, criterion, steps, results):
    for rank, (layouts, _) in enumerate(results):
        loss, expected = joined(shares[rank], criterion, steps)
        # The average over the ranks whose rows are in the same joined batch.
        sharing = [other for other in range(4) if shares[other] == shares[rank]]
        mean = sum(results[other][0][name][0] for other in sharing) / len(sharing)
        assert math.isclose(mean, loss, abs_tol=1e-9)
        # float64 everywhere, sums in another order.
        assert close(layouts[name][1], expected, 1e-9)


def test_a_group_that_was_not_given_is_noticed_once(results):
    for layouts, messages in results:
        (message,) = messages["no group"]
        assert "also in groups of [2] processes, and the loss compares the rows of all 4" in message
        assert not messages["again"]
        assert not any(messages[name] for name in ("fsdp", "sub-groups", "frame", "tensor", "hsdp", "no_sync"))
        # It was right to warn: the gradient is not that of any batch.
        assert not any(
            close(layouts["no group"][1], joined(shares, SupConLoss())[1], 1e-3)
            for shares in ([0, 1], [2, 3], [0, 1, 2, 3])
        )


def test_replicas_are_noticed(results):
    for _, warned in results:
        (message,) = warned["replicas"]
        assert "ranks 0 and 1 of the group gave the same rows and labels" in message
