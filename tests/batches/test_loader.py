"""The loader that finds its rank, and can be resumed inside an epoch."""

import itertools

import numpy as np
import pytest
import torch

from orthoframe import BatchPlan, PlanLoader, PlanSampler

LABELS = np.repeat([0, 1, 2], [60, 30, 10])


def make(**options):
    return PlanLoader(torch.arange(len(LABELS)), BatchPlan(LABELS, 20, seed=2), **options)


def epochs(number):
    plan = BatchPlan(LABELS, 20, seed=2)
    return [batch.tolist() for epoch in range(number) for batch in plan.batches(epoch)]


def test_each_pass_is_an_epoch():
    loader = make()
    assert len(loader) == 5
    assert [batch.tolist() for _ in range(3) for batch in loader] == epochs(3)
    loader.set_epoch(0)
    assert [batch.tolist() for batch in loader] == epochs(1)


@pytest.mark.parametrize("workers", [0, 2])
def test_who_counts_batches_and_asks_for_no_more_gets_the_next_epoch_too(workers):
    options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    for loader in (make(**options), PlanSampler(BatchPlan(LABELS, 20, seed=2))):
        seen = [batch for _ in range(3) for batch in itertools.islice(iter(loader), 5)]
        assert [batch if isinstance(batch, list) else batch.tolist() for batch in seen] == epochs(3)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("done", [0, 3, 5, 7, 10])
def test_a_state_counts_what_was_handed_out_and_not_what_workers_fetched(workers, done):
    options = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    loader, resumed = make(**options), make(**options)
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
    loader = make()
    next(iter(loader))
    loader.set_epoch(4)
    assert (loader.state_dict()["epoch"], loader.state_dict()["batches_done"]) == (4, 0)


def test_a_data_set_of_another_length_is_refused():
    with pytest.raises(ValueError, match="data set has 3 samples and the plan 100"):
        PlanLoader([1, 2, 3], BatchPlan(LABELS, 20))
