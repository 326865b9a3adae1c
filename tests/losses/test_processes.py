"""Two gloo processes: every option of the loss, a learnt temperature, what a step sends and reads, torch.compile."""

import collections
import math
from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from orthoframe import FrameLoss, SupConLoss
from processes import start

LABELS = [[0, 1, 0, 2], [1, 1, 2]]
DIM = 6
KEYS = {"keys": torch.eye(3, DIM, dtype=torch.float64), "key_labels": torch.arange(3)}
WEIGHTS = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
CASES = {
    "margin": (lambda: SupConLoss(margin=0.3), False),
    "margin, sincere": (lambda: SupConLoss(margin=0.3, denominator="sincere"), True),
    "class weights": (lambda: SupConLoss(class_weights=WEIGHTS), False),
    "anchor weights": (lambda: SupConLoss(anchor_weights=WEIGHTS), False),
    "both weights, counted": (
        lambda: SupConLoss(class_weights=WEIGHTS, anchor_weights=WEIGHTS.flip(0), singletons="count"),
        False,
    ),
    "sum": (lambda: SupConLoss(reduction="sum", anchor_weights=WEIGHTS), True),
    "rows as they are": (lambda: SupConLoss(normalize=False), False),
    "keys alone": (lambda: SupConLoss(compare="keys", denominator="class-average", margin=0.2), True),
    "keys alone, sum": (lambda: SupConLoss(compare="keys", reduction="sum"), True),
    "temperature": (lambda: SupConLoss(learnt()), True),
    "temperature and all else": (
        lambda: SupConLoss(learnt(), margin=0.2, class_weights=WEIGHTS, anchor_weights=WEIGHTS, denominator="sincere"),
        False,
    ),
    "frame alone": (lambda: FrameLoss(3, DIM), False),
    "frame": (lambda: FrameLoss(3, DIM, learnt(), supcon=0.7, margin=0.2, shares=[1, 2, 3]), False),
}


def learnt():
    return nn.Parameter(torch.tensor(0.3, dtype=torch.float64))


class Whole(nn.Module):
    """A network and its loss, so that a learnt temperature is a parameter of what DDP averages."""

    def __init__(self, criterion):
        super().__init__()
        torch.manual_seed(7)
        self.network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, DIM)).double()
        self.criterion = criterion

    def forward(self, rows, labels, keys):
        return self.criterion(self.network(rows), labels, **(KEYS if keys else {}))


def inputs(rank):
    return torch.randn(
        len(LABELS[rank]), 4, generator=torch.Generator().manual_seed(rank), dtype=torch.float64
    ), torch.tensor(LABELS[rank])


def outcome(whole, rows, labels, keys):
    loss = whole(rows, labels, keys)
    loss.backward()
    return loss.item(), torch.cat([p.grad.flatten() for p in whole.parameters()]).tolist()


def train_once(rank):
    return {
        name: outcome(DistributedDataParallel(Whole(make())), *inputs(rank), keys)
        for name, (make, keys) in CASES.items()
    }


def test_options_equal_one_process_on_the_joined_batch(tmp_path):
    results = start(train_once, 2, tmp_path)
    rows, labels = (torch.cat(parts) for parts in zip(*map(inputs, range(2)), strict=True))
    for name, (make, keys) in CASES.items():
        loss, expected = outcome(Whole(make()), rows, labels, keys)
        mean = sum(result[name][0] for result in results) / 2
        assert math.isclose(mean, loss, abs_tol=1e-9), name
        for result in results:
            # float64 everywhere, sums in another order.
            assert max(abs(a - b) for a, b in zip(result[name][1], expected, strict=True)) < 1e-9, name


def count_messages(rank):
    """Collectives, values read and tensors brought to the CPU, in the forward and in the backward pass."""
    rows, labels = inputs(rank)
    rows = (rows @ torch.ones(4, DIM, dtype=torch.float64).tril()).requires_grad_()
    counts, cpu, transfers = {}, torch.Tensor.cpu, []

    def counted(tensor):
        transfers.append(tensor)
        return cpu(tensor)

    for name, criterion, keys in (
        ("all", SupConLoss(), {}),
        ("keys", SupConLoss(compare="keys"), KEYS),
        ("frame", FrameLoss(3, DIM), {}),
    ):
        criterion(rows, labels, **keys).backward()
        transfers.clear()
        with mock.patch.object(torch.Tensor, "cpu", counted):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as forward:
                loss = criterion(rows, labels, **keys)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as backward:
                loss.backward()
        counts[name] = [len(transfers), *map(messages, (forward, backward))]
    return counts


def messages(profile):
    counted = ("c10d::", "aten::_local_scalar_dense")
    return collections.Counter(event.name for event in profile.events() if event.name.startswith(counted))


def test_a_step_exchanges_headers_once_and_reads_nothing_else(tmp_path):
    """Rows, labels and headers are gathered; the anchors that count are summed; gradients of rows return."""
    for counts in start(count_messages, 2, tmp_path):
        assert counts["all"] == [1, {"c10d::allgather_": 3, "c10d::allreduce_": 1}, {"c10d::allreduce_": 1}]
        assert counts["keys"] == [1, {"c10d::allgather_": 1, "c10d::allreduce_": 1}, {}]
        assert counts["frame"] == [0, {"c10d::allreduce_": 1}, {}]


def compile_steps(rank):
    """Differences between a step and the same step compiled: the loss without a graph break, and once all of it."""
    differences = {}
    for name in ("temperature and all else", "keys alone", "frame", "whole"):
        make, keys = CASES.get(name, CASES["margin"])
        torch.compiler.reset()
        eager, compiled = Whole(make()), Whole(make())
        if name != "whole":
            compiled.criterion = torch.compile(compiled.criterion, backend="aot_eager", fullgraph=True)
        eager, compiled = DistributedDataParallel(eager), DistributedDataParallel(compiled)
        if name == "whole":
            compiled = torch.compile(compiled, backend="aot_eager")
        for repeats in (1, 2):  # another size: the graph must hold for any
            rows, labels = (part.repeat_interleave(repeats, 0) for part in inputs(rank))
            (loss, gradient), (other, others) = (outcome(each, rows, labels, keys) for each in (eager, compiled))
            differences[f"{name} {repeats}"] = max(
                abs(a - b) for a, b in zip([loss, *gradient], [other, *others], strict=True)
            )
    return differences


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_compiled_without_a_graph_break(tmp_path):
    for differences in start(compile_steps, 2, tmp_path, seconds=300):
        assert all(difference < 1e-9 for difference in differences.values()), differences
