"""The supervised contrastive loss as a module, exact across processes."""

import torch
from torch import Tensor, nn

from orthoframe.losses._checks import check_keys, check_options, check_rows
from orthoframe.losses._gather import agree, gather_others, sum_over_processes, world_size
from orthoframe.losses._options import Denominator, Singletons
from orthoframe.losses._supcon import anchor_terms, supcon_loss


class SupConLoss(nn.Module):
    """Mean supervised contrastive loss; see `supcon_loss` for the formula.

    Under `torch.distributed` with several processes and `gather=True`, each row is compared with the rows of all
    processes. The losses and, after the averaging of `DistributedDataParallel`, the gradients average to those of one
    process that holds the joined batch: also if batches differ in size, if a process has no anchor with a positive, or
    if a row finds its only positive on another process. Every process must call it, and `backward`, equally often.

    Args:
        temperature: tau > 0.
        denominator: `"all"` (the paper's), `"sincere"`, `"negatives"` or `"class-average"`.
        singletons: `"skip"`, `"count"` or `"error"`; a singleton is a row whose class has no other row in the joined
            batch and among the keys.
        gather: Whether to compare with the rows of other processes.

    Example:
        >>> import torch
        >>> loss = SupConLoss(temperature=1.0)
        >>> loss(torch.eye(2).repeat_interleave(2, 0), torch.tensor([0, 0, 1, 1]))
        tensor(0.5514)
        >>> loss
        SupConLoss(temperature=1.0, denominator='all', singletons='skip', gather=True)
    """

    def __init__(
        self,
        temperature: float = 0.1,
        denominator: Denominator = "all",
        singletons: Singletons = "skip",
        gather: bool = True,
    ) -> None:
        super().__init__()
        check_options(temperature, denominator, singletons)
        self.temperature = temperature
        self.denominator = denominator
        self.singletons = singletons
        self.gather = gather

    def forward(
        self, features: Tensor, labels: Tensor, keys: Tensor | None = None, key_labels: Tensor | None = None
    ) -> Tensor:
        """Loss of a batch, or of this process's part of it.

        Args:
            features: `[rows, dim]`.
            labels: `[rows]`.
            keys: `[keys, dim]`, rows to compare with that are not anchors; those of this process only.
            key_labels: `[keys]`.

        Returns:
            A scalar.
        """
        if self.gather and world_size() > 1:
            return self._across_processes(features, labels, keys, key_labels)
        return supcon_loss(
            features,
            labels,
            keys=keys,
            key_labels=key_labels,
            temperature=self.temperature,
            denominator=self.denominator,
            singletons=self.singletons,
        )

    def _across_processes(
        self, features: Tensor, labels: Tensor, keys: Tensor | None, key_labels: Tensor | None
    ) -> Tensor:
        refused: Exception | None = None
        try:
            labels = check_rows(features, labels)
            key_labels = check_keys(features, keys, key_labels)
        except (TypeError, ValueError) as error:
            refused = error
        headers = agree(features, refused is not None)
        if refused is not None:
            raise refused
        rows, row_labels = gather_others(features, labels, headers)
        if keys is not None and key_labels is not None:
            rows, row_labels = torch.cat([rows, keys.to(rows.dtype)]), torch.cat([row_labels, key_labels])

        terms, missing = self._terms(features, labels, rows, row_labels)
        absent, anchors = sum_over_processes(missing.sum(), torch.tensor(len(terms), device=missing.device))
        if self.singletons == "error" and absent:
            if bool(missing.any()):
                self._terms(features, labels, rows, row_labels, forbid_singletons=True)
            raise ValueError('a row of another rank has no positive, and singletons="error"; its own error says which')
        # DDP divides gradients by the number of processes; the mean is over the anchors of all of them.
        count = anchors - absent if self.singletons == "skip" else anchors
        return terms.sum() * (world_size() / max(1, count))

    def _terms(
        self, features: Tensor, labels: Tensor, keys: Tensor, key_labels: Tensor, forbid_singletons: bool = False
    ) -> tuple[Tensor, Tensor]:
        return anchor_terms(
            features,
            labels,
            keys,
            key_labels,
            temperature=self.temperature,
            denominator=self.denominator,
            forbid_singletons=forbid_singletons,
        )

    def extra_repr(self) -> str:
        """The options, for `print(module)`."""
        return (
            f"temperature={self.temperature}, denominator={self.denominator!r}, singletons={self.singletons!r}, "
            f"gather={self.gather}"
        )
