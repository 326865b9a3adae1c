"""The supervised contrastive loss as a module, exact across processes."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from orthoframe.losses._checks import check_keys, check_options, check_rows
from orthoframe.losses._core import Form
from orthoframe.losses._gather import agree, gather_others, sum_over_processes, world_size
from orthoframe.losses._options import Denominator, Singletons
from orthoframe.losses._supcon import joined_rows, supcon_loss
from orthoframe.losses._terms import supcon_total


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

    Examples:
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
        options = (self.temperature, self.denominator, self.singletons)
        refused: Exception | None = None
        try:
            check_options(*options)
            labels = check_rows(features, labels)
            key_labels = check_keys(features, keys, key_labels)
        except Exception as error:  # whatever it is, the other processes must hear of it
            refused = error
        headers = agree(features, options, refused is not None)
        if refused is not None:
            raise refused
        if features.dtype in (torch.float16, torch.bfloat16):
            features = features.float()  # gradients are summed over processes, and would be rounded at each
        others, other_labels = gather_others(features, labels, headers)
        if keys is not None and key_labels is not None:
            dtype = torch.promote_types(others.dtype, keys.dtype)
            others = torch.cat([others.to(dtype), keys.to(dtype)])
            other_labels = torch.cat([other_labels, key_labels])

        rows, row_labels = joined_rows(features, labels, others, other_labels)
        form = Form(float(self.temperature), self.denominator, False, normalize=True, key_gradient=others.requires_grad)
        total, missing = supcon_total(rows, row_labels, features.shape[0], form, "none")
        absent, anchors = sum_over_processes(missing, features.shape[0], device=features.device)
        if self.singletons == "error" and absent:
            if int(missing):
                supcon_total(rows, row_labels, features.shape[0], replace(form, forbid_singletons=True), "none")
            raise ValueError('a row of another rank has no positive, and singletons="error"; its own error says which')
        # DDP divides gradients by the number of processes; the mean is over the anchors of all of them.
        count = anchors - absent if self.singletons == "skip" else anchors
        return total * (world_size() / max(1, count))

    def extra_repr(self) -> str:
        """The options, for `print(module)`."""
        return (
            f"temperature={self.temperature}, denominator={self.denominator!r}, singletons={self.singletons!r}, "
            f"gather={self.gather}"
        )
