"""A DataLoader that shows a plan, whatever runs the training."""

from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch.utils.data import DataLoader

from orthoframe.batches._plan import BatchPlan
from orthoframe.batches._sampler import PlanSampler


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
        if dist.is_available() and dist.is_initialized():
            self.batch_sampler.rank, self.batch_sampler.world_size = dist.get_rank(), dist.get_world_size()
