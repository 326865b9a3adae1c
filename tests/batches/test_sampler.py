"""The sampler and the loader: across ranks, and resumed inside an epoch."""

import itertools
import json
import os

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Sampler, TensorDataset

from orthoframe import BatchPlan, PlanLoader, PlanSampler, certify
from processes import start

LABELS = [0] * 30 + [1] * 9 + [2] * 4
MORE_LABELS = np.repeat([0, 1, 2], [60, 30, 10])


def make(**options):
    return BatchPlan(LABELS, 8, **{"scheme": "reshuffle", "binding": "fixed", "seed": 1, **options})


def loader(sampler, **options):
    return DataLoader(TensorDataset(torch.arange(len(LABELS))), batch_sampler=sampler, **options)


def seen(loader):
    return [rows.tolist() for (rows,) in loader]


def planned(plan, epoch):
    return [batch.tolist() for batch in plan.batches(epoch)]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_shows_the_plan_epoch_after_epoch(workers):
    plan = make()
    sampler = PlanSampler(plan)
    batches = loader(sampler, num_workers=workers)
    assert len(batches) == 6
    for epoch in range(3):
        assert seen(batches) == planned(plan, epoch)
    sampler.set_epoch(0)
    assert seen(batches) == planned(plan, 0)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_slices_of_all_ranks_join_to_the_batch(ranks):
    plan = make()
    parts = [list(PlanSampler(plan, rank, ranks)) for rank in range(ranks)]
    assert len({len(part) for part in parts}) == 1
    for number, batch in enumerate(planned(plan, 0)):
        slices = [part[number] for part in parts]
        assert all(slices)
        assert sorted(row for part in slices for row in part) == sorted(batch)
        assert max(map(len, slices)) - min(map(len, slices)) <= 1


def test_a_batch_with_fewer_rows_than_ranks_is_refused():
    with pytest.raises(ValueError, match=r"batch 5 of epoch 0 has 3 rows, too few for 4 processes; use drop_last=True"):
        list(PlanSampler(make(binding="none"), 0, 4))
    assert len(list(PlanSampler(make(binding="none", drop_last=True), 0, 4))) == 5


@pytest.mark.parametrize("done", [0, 1, 4, 6])
def test_a_resumed_run_sees_what_was_left(done):
    plan = make()
    sampler = PlanSampler(plan)
    seen(loader(sampler))
    batches = iter(loader(sampler))
    for _ in range(done):
        next(batches)
    state = json.loads(json.dumps(sampler.state_dict()))  # as a checkpoint would keep it
    resumed = PlanSampler(make())
    resumed.load_state_dict(state)
    resumed.set_epoch(state["epoch"])  # what a training loop does at the start of each epoch
    if done < 6:
        assert len(resumed) == 6 - done
        assert seen(loader(resumed)) == planned(plan, 1)[done:]
    assert seen(loader(resumed)) == planned(plan, 2)


@pytest.mark.parametrize("done", [1, 4, 5, 6])
def test_workers_fetch_ahead_and_the_state_can_be_told(done):
    sampler = PlanSampler(make())
    batches = iter(loader(sampler, num_workers=1, prefetch_factor=2))
    for _ in range(done):
        next(batches)
    resumed = PlanSampler(make())
    resumed.load_state_dict(sampler.state_dict(batches_done=done))
    left = planned(make(), 0)[done:] or planned(make(), 1)
    assert seen(loader(resumed)) == left


def test_certifying_a_sampler_leaves_it_where_it_was():
    sampler = PlanSampler(make())
    assert certify(LABELS, sampler).holds
    assert seen(loader(sampler)) == planned(make(), 0)


def test_a_look_at_the_first_batch_costs_nothing():
    sampler = PlanSampler(make())
    next(iter(loader(sampler)))
    assert seen(loader(sampler)) == planned(make(), 0)


def test_resuming_with_another_number_of_ranks():
    state = {"epoch": 2, "batches_done": 3, "plan": make().fingerprint()}
    parts = []
    for rank in range(2):
        sampler = PlanSampler(make(), rank, 2)
        sampler.load_state_dict(state)
        parts.append(list(sampler))
    assert [sorted(a + b) for a, b in zip(*parts, strict=True)] == [sorted(b) for b in planned(make(), 2)[3:]]


def test_refusals():
    sampler = PlanSampler(make())
    with pytest.raises(ValueError, match="saved with another plan"):
        sampler.load_state_dict(PlanSampler(make(seed=2)).state_dict())
    for rank, ranks in ((2, 2), (-1, 1), (0, 0)):
        with pytest.raises(ValueError, match="rank must be from 0"):
            PlanSampler(make(), rank, ranks)


@pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"drop_last": True}, {"num_workers": 1}])
def test_a_plan_as_the_sampler_of_single_rows_is_refused(options):
    rows = TensorDataset(torch.arange(len(LABELS)))
    with pytest.raises(
        ValueError, match=r"cannot be the sampler of a DataLoader; use DataLoader\(dataset, batch_sampler"
    ):
        list(DataLoader(rows, sampler=PlanSampler(make()), **options))


def test_a_data_set_that_is_indexed_by_whole_batches_is_not_refused():
    rows = DataLoader(TensorDataset(torch.arange(len(LABELS))), sampler=PlanSampler(make()), batch_size=None)
    assert seen(rows) == planned(make(), 0)


def test_a_sampler_around_a_plan_may_change_rows_but_not_share_them():
    from lightning_fabric.utilities.distributed import DistributedSamplerWrapper

    class Reversed(Sampler):
        def __iter__(self):
            return (batch[::-1] for batch in PlanSampler(make()))

    assert [rows[::-1] for rows in seen(loader(Reversed()))] == planned(make(), 0)
    alone = DistributedSamplerWrapper(PlanSampler(make()), num_replicas=1, rank=0, shuffle=False)
    assert list(alone) == planned(make(), 0)
    with pytest.raises(
        ValueError, match=r"DistributedSamplerWrapper would split .* pass use_distributed_sampler=False"
    ):
        list(DistributedSamplerWrapper(PlanSampler(make()), num_replicas=2, rank=0))


def take_slices(rank):
    sampler = PlanSampler(make(), rank, 2)
    return [seen(loader(sampler)) for _ in range(2)]


def assert_joins(parts):
    for epoch in range(2):
        for number, batch in enumerate(planned(make(), epoch)):
            assert sorted(parts[0][epoch][number] + parts[1][epoch][number]) == sorted(batch)


def test_two_gloo_processes(tmp_path):
    assert_joins(start(take_slices, 2, tmp_path))


def take_slices_of_fabric(rank):
    """With loaders that Fabric has set up, in processes as torchrun starts them."""
    from lightning_fabric import Fabric

    launched = {"LOCAL_RANK": rank, "RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "GROUP_WORLD_SIZE": 1}
    os.environ.update({"TORCHELASTIC_RUN_ID": "x", **{name: str(value) for name, value in launched.items()}})
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    sampler = PlanSampler(make(), fabric.global_rank, fabric.world_size)
    batches = fabric.setup_dataloaders(loader(sampler), use_distributed_sampler=False)
    return [seen(batches) for _ in range(2)]


def test_two_processes_of_fabric(tmp_path):
    assert_joins(start(take_slices_of_fabric, 2, tmp_path))


def test_the_length_is_known_without_numpy_integers():
    rows = next(iter(PlanSampler(make())))
    assert all(type(row) is int for row in rows)
    assert not any(isinstance(row, np.integer) for row in rows)


def make_loader(**options):
    return PlanLoader(torch.arange(len(MORE_LABELS)), BatchPlan(MORE_LABELS, 20, seed=2), **options)


def epochs(number):
    plan = BatchPlan(MORE_LABELS, 20, seed=2)
    return [batch.tolist() for epoch in range(number) for batch in plan.batches(epoch)]


def test_each_pass_is_an_epoch():
    loader = make_loader()
    assert len(loader) == 5
    assert [batch.tolist() for _ in range(3) for batch in loader] == epochs(3)
    loader.set_epoch(0)
    assert [batch.tolist() for batch in loader] == epochs(1)


@pytest.mark.parametrize("workers", [0, 2])
def test_who_counts_batches_and_asks_for_no_more_gets_the_next_epoch_too(workers):
    options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    for loader in (make_loader(**options), PlanSampler(BatchPlan(MORE_LABELS, 20, seed=2))):
        seen = [batch for _ in range(3) for batch in itertools.islice(iter(loader), 5)]
        assert [batch if isinstance(batch, list) else batch.tolist() for batch in seen] == epochs(3)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("done", [0, 3, 5, 7, 10])
def test_a_state_counts_what_was_handed_out_and_not_what_workers_fetched(workers, done):
    options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    loader, resumed = make_loader(**options), make_loader(**options)
    passes = itertools.chain.from_iterable(iter(loader) for _ in range(2))
    for _ in range(done):
        next(passes)
    state = loader.state_dict()
    assert (state["epoch"], state["batches_done"]) == divmod(done, 5)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    resumed.set_epoch(state["epoch"])
    assert len(resumed) == 5
    rest = [batch.tolist() for _ in range(2) for batch in resumed]
    assert rest == epochs(4)[done : done + len(rest)]


def test_after_a_jump_the_state_is_that_of_the_new_epoch():
    loader = make_loader()
    next(iter(loader))
    loader.set_epoch(4)
    assert (loader.state_dict()["epoch"], loader.state_dict()["batches_done"]) == (4, 0)


def test_a_data_set_of_another_length_is_refused():
    with pytest.raises(ValueError, match="data set has 3 samples and the plan 100"):
        PlanLoader([1, 2, 3], BatchPlan(MORE_LABELS, 20))
