"""The batches of a plan for a DataLoader, whole or the share of one process."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, Sampler

from orthoframe._processes import rank_and_world_size
from orthoframe.batches._plan import BatchPlan


class PlanSampler(Sampler[list[int]]):
    """A `batch_sampler` for `torch.utils.data.DataLoader`, in one process or several.

    Each rank gets every `world_size`-th row of a batch: together the ranks have the plan's batch, all have the same
    number of batches, and each has at least one row of every batch. With Lightning or Fabric pass
    `use_distributed_sampler=False`, or they would wrap it; with accelerate use `PlanLoader`, a DataLoader around it
    that knows its rank.

    Each pass over the sampler is one epoch; `set_epoch` is needed only to jump. The state is the number of batches of
    the epoch that are done; loading it replays nothing, and the number of ranks may have changed.

    Args:
        plan: The plan.
        rank: Rank of this process, from 0.
        world_size: Number of processes.

    Raises:
        ValueError: For a rank out of range; when iterating, for a batch with fewer rows than ranks, or if it was passed
            as `sampler`, or to a library that would split the batches again.

    Examples:
        >>> plan = BatchPlan([0, 0, 1, 1], batch_size=2, scheme="partition", binding="fixed")
        >>> [len(rows) for rows in PlanSampler(plan, rank=1, world_size=2)]
        [2, 2]
    """

    def __init__(self, plan: BatchPlan, rank: int = 0, world_size: int = 1) -> None:
        if not (world_size >= 1 and 0 <= rank < world_size):
            raise ValueError(f"rank must be from 0 to world_size - 1, not {rank} with world_size {world_size}")
        self.plan, self.rank, self.world_size = plan, rank, world_size
        self._lengths: dict[int, int] = {}  # batches of the next pass, by its epoch
        self._go_to(0, 0)

    def _go_to(self, epoch: int, batch: int) -> None:
        self._epoch, self.start = epoch, batch  # at which the next pass begins
        self._running, self.done = epoch, batch  # that the current or last pass has handed out
        self._total = -1  # batches in that pass

    def __iter__(self) -> Iterator[list[int]]:
        # At once, and not with the first batch, which accelerate's dispatcher requests in one process while others
        # wait for it.
        self._check_callers(sys._getframe(1))
        return self._batches()

    def _check_callers(self, frame: FrameType | None) -> None:
        """Refuse to be iterated by what would change the batches. The stack alone says so: nothing tells a sampler."""
        while frame is not None:
            caller: Any = frame.f_locals.get("self")
            if isinstance(caller, BatchSampler) and getattr(caller, "sampler", None) is self:
                raise ValueError(
                    "a PlanSampler yields whole batches and cannot be the sampler of a DataLoader; use "
                    "DataLoader(dataset, batch_sampler=PlanSampler(plan)) or PlanLoader(dataset, plan)"
                )
            if _processes_that_share(caller) > 1:
                raise ValueError(
                    f"{type(caller).__name__} would split the plan's batches among the processes a second time; with "
                    "accelerate use PlanLoader(dataset, plan), which accelerator.prepare leaves as it is; with "
                    "Lightning or Fabric pass use_distributed_sampler=False"
                )
            frame = frame.f_back

    def _batches(self) -> Iterator[list[int]]:
        batches = self.plan.batches(self._epoch)
        for number, batch in enumerate(batches):
            if len(batch) < self.world_size:
                raise ValueError(
                    f"batch {number} of epoch {self._epoch} has {len(batch)} rows, too few for {self.world_size} "
                    'processes; use drop_last=True, binding="fixed" or another batch_size'
                )
        self._running, self._total, self.done = self._epoch, len(batches), self.start
        for batch in batches[self.start :]:
            self.done += 1
            if self.done == self._total:
                # Before the last batch is handed out, because a loop that counts batches, as Lightning's does, never
                # requests StopIteration.
                self._epoch, self.start = self._running + 1, 0
            yield batch[self.rank :: self.world_size].tolist()

    def __len__(self) -> int:
        if self._epoch not in self._lengths:
            self._lengths = {self._epoch: len(self.plan.batches(self._epoch))}
        return self._lengths[self._epoch] - self.start

    @property
    def sampler(self) -> "PlanSampler":
        """The sampler itself, because Lightning and Fabric look for `set_epoch` here."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; if that is the epoch of a resumed run, go on where the run was."""
        if epoch != self._epoch:
            self._go_to(epoch, 0)

    def state_dict(self, batches_done: int | None = None) -> dict[str, Any]:
        """The epoch and the number of batches done, for `load_state_dict`.

        Args:
            batches_done: Batches of the epoch that are done, including those before it was resumed. Needed if the
                DataLoader has workers, because they prefetch batches; by default, all that were handed out.
        """
        epoch, done = self._running, self.done if batches_done is None else batches_done
        if done == self._total:
            epoch, done = epoch + 1, 0
        return {"epoch": epoch, "batches_done": done, "plan": self.plan.fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the state was saved.

        Raises:
            ValueError: If it was saved with a plan that has other batches.
        """
        if state["plan"] != self.plan.fingerprint():
            differ = "labels, seed or options differ"
            raise ValueError(f"the state was saved with another plan ({differ}); use the same plan, or start again")
        self._go_to(int(state["epoch"]), int(state["batches_done"]))


def _processes_that_share(caller: Any) -> int:
    """Among how many processes an object splits the batches that it iterates; 1 if it does not."""
    if isinstance(caller, DistributedSampler):  # also those with which Lightning and Fabric wrap a sampler
        return caller.num_replicas
    kind = type(caller)  # not __class__: accelerate's loaders claim to be those of torch
    if kind.__module__ == "accelerate.data_loader" and kind.__name__ in ("BatchSamplerShard", "DataLoaderDispatcher"):
        return int(caller.num_processes if kind.__name__ == "BatchSamplerShard" else caller.state.num_processes)
    return 1


class PlanLoader(DataLoader[Any]):
    """A `DataLoader` over the batches of a plan that finds its own rank and can be resumed inside an epoch.

    Each pass is one epoch, so make one loader and keep it: a new one starts with the first epoch. Under
    `torch.distributed` each process gets its rows of every batch, as with `PlanSampler`; the process group may be
    started after the loader was made, as Lightning does. Batches that workers prefetched do not count as done. With
    Lightning and several processes pass `use_distributed_sampler=False`. `prepare` of accelerate returns the loader as
    it is: move its batches to the device yourself.

    Args:
        dataset: The samples that the plan's labels belong to, in the same order.
        plan: The plan.
        **options: Options of `DataLoader`: `num_workers`, `collate_fn`, `pin_memory` and so on.

    Raises:
        ValueError: If the data set and the plan differ in length, or for an option that would change the batches.

    Examples:
        >>> plan = BatchPlan([0, 0, 1, 1], batch_size=2, scheme="partition", binding="none")
        >>> [sorted(batch.tolist()) for batch in PlanLoader([10, 20, 30, 40], plan)]
        [[10, 30], [20, 40]]
    """

    batch_sampler: PlanSampler
    _is_accelerate_prepared = True  # or `prepare` would split each process's rows again

    def __init__(self, dataset: Any, plan: BatchPlan, **options: Any) -> None:
        conflicts = {"batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"} & set(options)
        if conflicts:
            raise ValueError(f"the plan determines the batches; leave out {', '.join(sorted(conflicts))}")
        if len(dataset) != len(plan.labels.classes):
            raise ValueError(
                f"the data set has {len(dataset)} samples and the plan {len(plan.labels.classes)}; "
                "make the plan from the labels of this data set"
            )
        super().__init__(dataset, batch_sampler=PlanSampler(plan), **options)
        self._done = 0  # batches of the current pass that were handed out
        self._find_rank()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        self._find_rank()
        self._done = self.batch_sampler.start
        for batch in super().__iter__():
            self._done += 1
            yield batch

    def __len__(self) -> int:
        """Batches in the whole epoch, even after resuming, because frameworks count from its beginning."""
        return len(self.batch_sampler) + self.batch_sampler.start

    def set_epoch(self, epoch: int) -> None:
        """See `PlanSampler.set_epoch`."""
        self.batch_sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The epoch and the number of batches that the loop has received."""
        return self.batch_sampler.state_dict(min(self._done, self.batch_sampler.done))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `PlanSampler.load_state_dict`."""
        self.batch_sampler.load_state_dict(state)
        self._done = self.batch_sampler.start

    def _find_rank(self) -> None:
        self.batch_sampler.rank, self.batch_sampler.world_size = rank_and_world_size()
