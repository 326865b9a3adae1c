"""The batches of a plan for a DataLoader, whole or one process's share of them."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Sampler

from orthoframe._rows import rank_and_world_size
from orthoframe.batches._plan import BatchPlan


class PlanSampler(Sampler[list[int]]):
    """The `batch_sampler` of a `torch.utils.data.DataLoader`, alone or as one of several ranks.

    Each rank gets every `world_size`-th row of a batch: together the ranks have the plan's batch, all have the same
    number of batches, and each gets at least one row of every batch. With Lightning or Fabric pass
    `use_distributed_sampler=False`, or they would wrap it. `PlanLoader` is a DataLoader around it that knows its rank.

    Each pass over the sampler is one epoch; `set_epoch` is needed only to jump. A state says how many batches of the
    epoch are done; loading it needs no replay, and the number of ranks may be another than before.

    Args:
        plan: The plan.
        rank: This process, from 0.
        world_size: Number of processes.

    Attributes:
        start: The batch at which the next pass begins: 0, unless it was resumed.
        done: Batches of the running pass, or the last, that were handed out, those before a resumption included.

    Raises:
        ValueError: For a rank out of range; when iterating, for a batch with fewer rows than ranks.

    Examples:
        >>> plan = BatchPlan([0, 0, 1, 1], batch_size=2, scheme="partition", binding="fixed")
        >>> [len(rows) for rows in PlanSampler(plan, rank=1, world_size=2)]
        [2, 2]
    """

    def __init__(self, plan: BatchPlan, rank: int = 0, world_size: int = 1) -> None:
        if not (world_size >= 1 and 0 <= rank < world_size):
            raise ValueError(f"rank must be from 0 to world_size - 1, not {rank} with world_size {world_size}")
        self.plan, self.rank, self.world_size = plan, rank, world_size
        self._epoch = 0  # of the next pass
        self.start = 0
        self._running = self.done = 0  # where the current, or the last, pass is
        self._total = -1  # batches of that pass
        self._lengths: dict[int, int] = {}

    def __iter__(self) -> Iterator[list[int]]:
        batches = self.plan.batches(self._epoch)
        smallest = min(range(len(batches)), key=lambda number: len(batches[number]), default=0)
        if batches and len(batches[smallest]) < self.world_size:
            raise ValueError(
                f"batch {smallest} of epoch {self._epoch} has {len(batches[smallest])} rows, too few for "
                f'{self.world_size} ranks; use drop_last=True, binding="fixed" or another batch_size'
            )
        self._running, self._total, self.done = self._epoch, len(batches), self.start
        for number in range(self.start, len(batches)):
            self.done = number + 1
            if number + 1 == len(batches):
                # Before the last batch is handed out: who counts batches, as Lightning does, never asks for one more.
                self._epoch, self.start = self._running + 1, 0
            yield batches[number][self.rank :: self.world_size].tolist()

    def __len__(self) -> int:
        if self._epoch not in self._lengths:
            self._lengths = {self._epoch: len(self.plan.batches(self._epoch))}
        return self._lengths[self._epoch] - self.start

    @property
    def sampler(self) -> "PlanSampler":
        """Itself: Lightning and Fabric look for `set_epoch` here."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; a resumed run that names the epoch it resumes goes on inside it."""
        if epoch != self._epoch:
            self._go_to(epoch, 0)

    def state_dict(self, batches_done: int | None = None) -> dict[str, Any]:
        """Where the run is.

        Args:
            batches_done: Batches of the epoch that the training has finished, those before a resumption included. Give
                it if the DataLoader has workers: they fetch batches ahead, which the sampler cannot tell from finished
                ones.
        """
        epoch, done = self._running, self.done if batches_done is None else batches_done
        if done == self._total:
            epoch, done = epoch + 1, 0
        return {"epoch": epoch, "batches_done": done, "plan": self.plan.fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken.

        Raises:
            ValueError: If the state comes from a plan with other batches.
        """
        if state["plan"] != self.plan.fingerprint():
            raise ValueError(
                "the state was saved with another plan (labels, seed or options differ); resume with the same plan, or "
                "start anew"
            )
        self._go_to(int(state["epoch"]), int(state["batches_done"]))

    def _go_to(self, epoch: int, batch: int) -> None:
        self._epoch = self._running = epoch
        self.start = self.done = batch
        self._total = -1


class PlanLoader(DataLoader[Any]):
    """A `DataLoader` over the batches of a plan that finds its rank itself and can be resumed inside an epoch.

    Each pass is one epoch: make one loader, and keep it, for a new one begins with the first epoch. Under
    `torch.distributed` each process gets its rows of every batch, as `PlanSampler` deals them; the process group
    may be started after the loader was made, as Lightning does. Batches that workers fetched ahead do not count as
    done. With Lightning and several processes pass `use_distributed_sampler=False`.

    Args:
        dataset: As many samples as the plan has labels, in their order.
        plan: The plan.
        **options: Those of `DataLoader`: `num_workers`, `collate_fn`, `pin_memory` and so on.

    Raises:
        ValueError: If the data set and the plan differ in length, or an option would decide the batches.

    Examples:
        >>> plan = BatchPlan([0, 0, 1, 1], batch_size=2, scheme="partition", binding="none")
        >>> [sorted(batch.tolist()) for batch in PlanLoader([10, 20, 30, 40], plan)]
        [[10, 30], [20, 40]]
    """

    batch_sampler: PlanSampler

    def __init__(self, dataset: Any, plan: BatchPlan, **options: Any) -> None:
        given = {"batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"} & set(options)
        if given:
            raise ValueError(f"the plan decides the batches; leave {', '.join(sorted(given))} out")
        if len(dataset) != len(plan.labels.classes):
            raise ValueError(
                f"the data set has {len(dataset)} samples and the plan {len(plan.labels.classes)}; "
                "make the plan from the labels of this data set"
            )
        super().__init__(dataset, batch_sampler=PlanSampler(plan), **options)
        self._done = 0  # batches of the running pass that were handed out
        self._find_rank()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        self._find_rank()
        self._done = self.batch_sampler.start
        for batch in super().__iter__():
            self._done += 1
            yield batch

    def __len__(self) -> int:
        """Batches of the epoch; also if it was resumed, for frameworks count from its beginning."""
        return len(self.batch_sampler) + self.batch_sampler.start

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of an epoch; see `PlanSampler.set_epoch`."""
        self.batch_sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the training is."""
        return self.batch_sampler.state_dict(min(self._done, self.batch_sampler.done))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken; see `PlanSampler.load_state_dict`."""
        self.batch_sampler.load_state_dict(state)
        self._done = self.batch_sampler.start

    def _find_rank(self) -> None:
        self.batch_sampler.rank, self.batch_sampler.world_size = rank_and_world_size()
