"""Loaders of a plan that `accelerator.prepare` has seen: every row of every batch, or an error that says what to do."""

import os

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from orthoframe import BatchPlan, PlanLoader, PlanSampler
from processes import start

pytest.importorskip("accelerate", reason="accelerate is not installed")

LABELS = [0] * 60 + [1] * 30 + [2] * 6


def make_plan():
    return BatchPlan(LABELS, 17, scheme="reshuffle", binding="fixed", seed=3)  # batches that two cannot halve


def accelerator_of(**options):
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    return Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))


def data():
    return TensorDataset(torch.arange(len(LABELS)))


def seen(loader):
    return [rows.tolist() for (rows,) in loader]


def see_prepared(rank, dispatch):
    """Two epochs of a prepared PlanLoader, or the error of a prepared PlanSampler of one process or of this one."""
    launched = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}  # as `accelerate launch` does
    os.environ.update({name: str(value) for name, value in launched.items()})
    accelerator = accelerator_of(dispatch_batches=dispatch)
    assert accelerator.num_processes == 2
    loader = accelerator.prepare(PlanLoader(data(), make_plan()))
    epochs, errors = [seen(loader) for _ in range(2)], []
    for share in ((0, 1), (rank, 2)):
        prepared = accelerator.prepare(DataLoader(data(), batch_sampler=PlanSampler(make_plan(), *share)))
        try:
            errors.append(str(seen(prepared)))
        except ValueError as error:
            errors.append(str(error))
    return epochs, errors


@pytest.mark.parametrize(("dispatch", "culprit"), [(None, "BatchSamplerShard"), (True, "DataLoaderDispatcher")])
def test_two_processes(tmp_path, dispatch, culprit):
    parts = start(see_prepared, 2, tmp_path, dispatch)
    for epoch in range(2):
        batches = [batch.tolist() for batch in make_plan().batches(epoch)]
        shares = [part[0][epoch] for part in parts]
        assert sum(len(rows) for share in shares for rows in share) == sum(map(len, batches))
        assert [sorted(a + b) for a, b in zip(*shares, strict=True)] == [sorted(batch) for batch in batches]
    for _, errors in parts:
        for error in errors:
            assert error.startswith(f"{culprit} would split the plan's batches among the processes a second time")
            assert "use PlanLoader(dataset, plan)" in error


@pytest.mark.parametrize("dispatch", [None, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_one_process_sees_the_plan_with_loader_and_sampler(dispatch, workers):
    accelerator = accelerator_of(dispatch_batches=dispatch)
    options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    for loader in (
        PlanLoader(data(), make_plan(), **options),
        DataLoader(data(), batch_sampler=PlanSampler(make_plan()), **options),
    ):
        prepared = accelerator.prepare(loader)
        for epoch in range(2):
            assert seen(prepared) == [batch.tolist() for batch in make_plan().batches(epoch)]


def test_save_state_keeps_the_place_of_a_registered_loader(tmp_path):
    def prepared():
        accelerator = accelerator_of()
        loader = accelerator.prepare(PlanLoader(data(), make_plan()))
        accelerator.register_for_checkpointing(loader)
        return accelerator, loader

    accelerator, loader = prepared()
    seen(loader)
    batches = iter(loader)
    next(batches)
    accelerator.save_state(tmp_path)
    accelerator, loader = prepared()
    accelerator.load_state(tmp_path)
    assert seen(loader) == [batch.tolist() for batch in make_plan().batches(1)][1:]


def test_batches_can_be_skipped():
    from accelerate import skip_first_batches

    loader = accelerator_of().prepare(PlanLoader(data(), make_plan()))
    assert seen(skip_first_batches(loader, 2)) == [batch.tolist() for batch in make_plan().batches(0)][2:]
