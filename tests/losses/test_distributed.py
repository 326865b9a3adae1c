"""Several gloo processes against one process that holds the joined batch."""

import copy
import math

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from orthoframe import FrameLoss, SupConLoss, supcon_loss
from processes import start

DIM = 6
# For each case, the labels of each rank.
CASES = {
    "equal": [[0, 0, 1, 1], [0, 1, 1, 2]],
    "unequal sizes": [[0, 1, 0, 2, 2, 2, 1], [0, 1], [3, 3, 3]],
    "a rank of singletons": [[0, 0, 1, 1], [2, 3, 4]],
    "positives only elsewhere": [[0, 1, 2], [2, 1, 0]],
    "an empty rank": [[0, 0, 1, 1, 1], []],
    "nothing to learn": [[0, 1], [2, 3]],
    "one row each": [[5], [5]],
}


def model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, DIM)).double()


def inputs(labels, rank):
    return torch.randn(len(labels), 4, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)


def train_once(rank, cases):
    """Loss and averaged gradient of each case."""
    results = {}
    for name, labels, options in cases:
        network = DistributedDataParallel(model())
        loss = SupConLoss(**options)(network(inputs(labels[rank], rank)), torch.tensor(labels[rank], dtype=torch.long))
        loss.backward()
        results[name] = (loss.item(), [p.grad.flatten().tolist() for p in network.parameters()])
    return results


@pytest.mark.parametrize("ranks", [2, 3])
def test_equals_one_process_on_the_joined_batch(ranks, tmp_path):
    cases = [
        (f"{name} {denominator} {singletons}", labels, {"denominator": denominator, "singletons": singletons})
        for name, labels in CASES.items()
        for denominator in ("all", "sincere", "negatives", "class-average")
        for singletons in ("skip", "count")
        if len(labels) == ranks
    ]
    results = start(train_once, ranks, tmp_path, cases)
    for name, labels, options in cases:
        network = model()
        joined = torch.cat([inputs(part, rank) for rank, part in enumerate(labels)])
        joined_labels = torch.tensor([y for part in labels for y in part])
        loss = supcon_loss(network(joined), joined_labels, **options)
        loss.backward()
        mean = sum(result[name][0] for result in results) / ranks
        assert math.isclose(mean, loss.item(), abs_tol=1e-9), name
        for result in results:
            for parameter, gradient in zip(network.parameters(), result[name][1], strict=True):
                assert torch.allclose(
                    parameter.grad.flatten(), torch.tensor(gradient, dtype=torch.float64), atol=1e-9
                ), name


def use_prototypes(rank):
    labels = [[0, 1], [2, 0]][rank]
    prototypes = torch.eye(3, DIM, dtype=torch.float64).requires_grad_()
    features = inputs(labels, rank) @ torch.ones(4, DIM, dtype=torch.float64).tril()
    loss = SupConLoss()(features, torch.tensor(labels), keys=prototypes, key_labels=torch.arange(3))
    loss.backward()
    return loss.item(), prototypes.grad.flatten().tolist()


def test_keys_of_each_process(tmp_path):
    results = start(use_prototypes, 2, tmp_path)
    labels = [[0, 1], [2, 0]]
    prototypes = torch.eye(3, DIM, dtype=torch.float64).requires_grad_()
    joined = torch.cat([inputs(part, rank) for rank, part in enumerate(labels)])
    features = joined @ torch.ones(4, DIM, dtype=torch.float64).tril()
    loss = supcon_loss(features, torch.tensor([0, 1, 2, 0]), keys=prototypes, key_labels=torch.arange(3))
    loss.backward()
    assert math.isclose(sum(value for value, _ in results) / 2, loss.item(), abs_tol=1e-9)
    mean = sum(torch.tensor(gradient, dtype=torch.float64) for _, gradient in results) / 2
    assert torch.allclose(mean, prototypes.grad.flatten(), atol=1e-9)


def meet_trouble(rank):
    """Every bad batch must end on every rank, and the next good one must still work."""
    messages = []
    good = torch.ones(2, DIM)
    pair = torch.zeros(2, dtype=torch.long)
    troubles = [
        (SupConLoss(), good if rank else torch.ones(2, 3), pair),
        (SupConLoss(), good if rank else good.double(), pair),
        (SupConLoss(), good.clone().requires_grad_(rank == 0), pair),
        (SupConLoss(), good if rank else torch.ones(2, DIM, 1), pair),
        (SupConLoss(), good if rank else [[1]], pair),
        (SupConLoss(singletons="error"), good, pair if rank else torch.tensor([0, 8])),
        (SupConLoss(), good, pair if rank else None),
        (SupConLoss(temperature=0.1 + rank), good, pair),
        (SupConLoss(anchor_weights=[1.0, 1.0]), good, pair if rank else pair + 2),
        (SupConLoss(temperature=torch.ones(2 if rank else 3)), good, pair),
        (FrameLoss(2, DIM), good, pair if rank else pair + 2),
        (FrameLoss(2, DIM), good if rank else torch.ones(2, 3), pair),
        (copy.deepcopy(SupConLoss(group=dist.group.WORLD)), good if rank else None, pair),
    ]
    for loss, features, labels in troubles:
        try:
            loss(features, labels)
            messages.append("no error")
        except Exception as error:
            messages.append(f"{type(error).__name__}: {error}")
    return messages, SupConLoss()(good, pair).item(), SupConLoss(gather=False)(good, pair).item()


def test_one_bad_batch_stops_every_rank(tmp_path):
    (first, together, alone), (second, *_) = start(meet_trouble, 2, tmp_path)
    # A cosine in float32 is off by some 1e-7, which the temperature divides.
    assert math.isclose(together, math.log(3), abs_tol=4e-6)
    assert math.isclose(alone, 0.0, abs_tol=4e-6)
    for mine, theirs, words in zip(
        first,
        second,
        [
            ("the dimension of features must be the same", "the dimension of features must be the same"),
            ("the dtype of features must be the same", "the dtype of features must be the same"),
            ("requires_grad", "requires_grad"),
            ("must have shape [rows, dim]", "the batch of rank 0 was refused"),
            ("features must be float64", "the batch of rank 0 was refused"),
            ("class 8 has 1 row in the batch (position 1)", "a row of another rank has no positive"),
            ("labels must be integers, not NoneType", "the batch of rank 0 was refused"),
            ("the options of the loss must be the same", "the options of the loss must be the same"),
            ("label 2 has no weight: anchor_weights", "the batch of rank 0 was refused"),
            ("temperature must be a number", "the batch of rank 0 was refused"),
            ("label 2 has no row in the frame", "the batch of another rank was refused"),
            ("features have dimension 3", "the batch of another rank was refused"),
            ("features must be", "the batch of rank 0 was refused"),
        ],
        strict=True,
    ):
        assert words[0] in mine
        assert words[1] in theirs
