"""The supervised contrastive loss: a function for one batch, and a module that is exact across processes."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from orthoframe._processes import rank_and_world_size
from orthoframe._rows import RowLabels, Rows, Weights, widened
from orthoframe.losses._autograd import refuse_singletons, supcon_terms, supcon_total
from orthoframe.losses._batch import (
    CheckedBatch,
    LossInputs,
    LossSpec,
    checked_batch,
    checked_weights,
    join_rows,
)
from orthoframe.losses._distributed import exchange_headers, gather_others, refuse_batch, sum_over_processes
from orthoframe.options import (
    TEMPERATURE,
    Compare,
    Denominator,
    Reduction,
    Singletons,
    check_choice,
    check_margin,
    check_temperature,
)

_WEIGHTS = ("class_weights", "anchor_weights")


def supcon_loss(
    features: Rows,
    labels: RowLabels,
    *,
    keys: Rows | None = None,
    key_labels: RowLabels | None = None,
    compare: Compare = "all",
    temperature: float | Tensor = TEMPERATURE,
    denominator: Denominator = "all",
    margin: float = 0.0,
    class_weights: Weights | None = None,
    anchor_weights: Weights | None = None,
    singletons: Singletons = "skip",
    reduction: Reduction = "mean",
    normalize: bool = True,
) -> Tensor:
    r"""Supervised contrastive loss: pull rows of a class together, push other classes away.

    With unit rows h, similarities s_ij = h_i.h_j, temperature tau and P(i) the other rows of the class of i, each
    anchor i has the term

        l_i = log sum_{l != i} e^(s_il/tau) - (1/|P(i)|) sum_{j in P(i)} s_ij/tau

    for `denominator="all"`; the other denominators change the sum under the logarithm. With a margin m, cosines of
    positives count as s - m, in both parts. With class weights w, the exponential of row l counts w times, w that of
    its class; with anchor weights a, the term of an anchor counts a times, a that of its class. For non-negative
    features all of these have the same optimum, an orthogonal frame (`loss_floor`): they are other ways to it.

    An anchor without a positive has no term, although it is still a negative of the others. With
    `denominator="negatives"`, batches of a single class have no terms either. If no anchor has a term, the loss is 0
    and its gradient zero.

    Memory grows with the rows, not with their square. Rows in half precision are computed in float32, others in their
    own dtype. A row that is not longer than 1e-12 counts as zero, as in `measure` and everywhere else: it has no
    direction, its similarities are 0 and its gradient is zero. The loss and its gradient are finite if the features
    are, and NaN if one of them is not.

    Args:
        features: `[rows, dim]`, any floating dtype. Several views of a sample are several rows. A tensor on any device,
            an array, or nested lists; an array gets no gradient.
        labels: `[rows]`, any integers that int64 holds.
        keys: `[keys, dim]`, further rows that anchors are compared with but that are not anchors themselves: fixed
            prototypes, a queue, rows of other processes. They get a gradient if they require one.
        key_labels: `[keys]`, the classes of the keys.
        compare: `"all"`: anchors with all other rows and the keys; `"keys"`: with the keys alone, so that all positives
            and negatives are keys.
        temperature: tau, from 0.001 to 1e6; or a tensor, one for all anchors or one for each `[rows]`, which gets a
            gradient if it requires one. The values of a tensor are not checked, and it takes the slower general way.
        denominator: `"all"` (the paper's), `"sincere"`, `"negatives"` or `"class-average"`; see `Denominator`.
        margin: m, from -1 to 10, subtracted from the cosines of positives. Not for `denominator="negatives"`, where
            it would only add a constant.
        class_weights: `[k]`, indexed by label, from 1e-6 to 1e6. Those in a tensor on a GPU are not checked.
        anchor_weights: `[k]`, likewise; the mean is weighted.
        singletons: What to do with anchors that have no term: `"skip"` leaves them out of the mean, `"count"` keeps
            them as zeros, `"error"` raises and names the class and position (it waits for a GPU, the others do not).
        reduction: `"mean"`, `"sum"`, or `"none"` for the term of each row (0 where it has none).
        normalize: Whether to divide each row by its norm first. Without it, rows are used as they are, and should
            already have unit norm: floors and bounds do not apply to other rows.

    Returns:
        A scalar, or `[rows]` with `reduction="none"`: a tensor, also for arrays.

    Raises:
        TypeError: For a wrong dtype or type.
        ValueError: For a wrong shape or option, labels beyond int64 or without a weight, or a singleton with
            `singletons="error"`.

    Examples:
        >>> import torch
        >>> frame = torch.eye(2).repeat_interleave(2, 0)  # two classes of two rows each
        >>> supcon_loss(frame, torch.tensor([0, 0, 1, 1]), temperature=1.0, reduction="sum")
        tensor(2.2058)
        >>> supcon_loss(frame, torch.tensor([0, 1, 2, 3]))  # no positives: nothing to learn
        tensor(0.)
    """
    _check_options(denominator, singletons, compare, margin, reduction)
    batch = checked_batch(features, labels, keys, key_labels, compare, temperature)
    device = batch.features.device
    batch = batch._replace(
        class_weights=checked_weights(class_weights, "class_weights", device),
        anchor_weights=checked_weights(anchor_weights, "anchor_weights", device),
    )
    spec = batch.spec(denominator, float(margin), compare, normalize)
    return _single_loss(batch.inputs(), spec, singletons, reduction)


def _single_loss(inputs: LossInputs, spec: LossSpec, singletons: str, reduction: str) -> Tensor:
    """Loss of a batch in one process."""
    if reduction == "none":
        loss, missing = supcon_terms(inputs, spec)
    else:
        loss, _, missing = supcon_total(inputs, spec, mean=reduction == "mean", skip=singletons != "count")
    return refuse_singletons(loss, missing, inputs.labels, spec) if singletons == "error" else loss


class _Shared(NamedTuple):
    """A process group, which copies of a module share: it cannot be copied itself."""

    group: dist.ProcessGroup | None

    def __deepcopy__(self, memo: object) -> "_Shared":
        return self


class SupConLoss(nn.Module):
    """Supervised contrastive loss as a module; see `supcon_loss` for the formula and the options.

    Under `torch.distributed` with several processes and `gather=True`, each row is compared with the rows of all
    processes. The losses and, after `DistributedDataParallel` has averaged them, the gradients average to those of one
    process that holds the joined batch: also if batches differ in size, if a process has no anchor with a positive, or
    if the only positive of a row is on another process. Every process must call it, and `backward`, equally often.

    Args:
        temperature: tau, from 0.001 to 1e6; or a tensor with one value, which may be a parameter.
        denominator: `"all"` (the paper's), `"sincere"`, `"negatives"` or `"class-average"`.
        singletons: `"skip"`, `"count"` or `"error"`; a singleton is a row whose class has no other row in the joined
            batch and among the keys.
        gather: Whether to compare with the rows of other processes.
        margin: Subtracted from the cosines of positives.
        class_weights: `[k]`, weights of classes on exponentials; a buffer, which keeps its dtype.
        anchor_weights: `[k]`, weights of classes on anchors; likewise.
        compare: `"all"`, or `"keys"` for keys alone; then rows of other processes are not compared with.
        reduction: `"mean"`, `"sum"`, or `"none"` for the terms of the rows of this process, which are not scaled for
            `DistributedDataParallel`.
        normalize: Whether to divide each row by its norm first.
        group: The processes that share a batch, and over which gradients are averaged; all of them by default. Where
            data is parallel in some of the processes only (tensor parallelism beside it, or models of several groups),
            give the group of `DistributedDataParallel` or of the data dimension of a device mesh.

    Examples:
        >>> import torch
        >>> loss = SupConLoss(temperature=1.0)
        >>> loss(torch.eye(2).repeat_interleave(2, 0), torch.tensor([0, 0, 1, 1]))
        tensor(0.5514)
        >>> loss
        SupConLoss(temperature=1.0, denominator='all', singletons='skip', gather=True)
    """

    temperature: float | Tensor
    class_weights: Tensor | None
    anchor_weights: Tensor | None

    def __init__(
        self,
        temperature: float | Tensor = TEMPERATURE,
        denominator: Denominator = "all",
        singletons: Singletons = "skip",
        gather: bool = True,
        *,
        margin: float = 0.0,
        class_weights: Weights | None = None,
        anchor_weights: Weights | None = None,
        compare: Compare = "all",
        reduction: Reduction = "mean",
        normalize: bool = True,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        _check_options(denominator, singletons, compare, margin, reduction)
        self.temperature = temperature if isinstance(temperature, Tensor) else check_temperature(temperature)
        self.denominator, self.singletons, self.gather = denominator, singletons, gather
        self.margin, self.compare, self.reduction, self.normalize = float(margin), compare, reduction, normalize
        self._shared = _Shared(group)
        for name, values in zip(_WEIGHTS, (class_weights, anchor_weights), strict=True):
            self.register_buffer(name, checked_weights(values, name, torch.device("cpu")))

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The processes that share a batch; None for all of them."""
        return self._shared.group

    def __setattr__(self, name: str, value: Any) -> None:
        # The temperature may become a number, a tensor (a buffer, which moves with the module) or a parameter.
        if name == "temperature":
            for attributes in (self.__dict__, self._buffers, self._parameters):
                attributes.pop(name, None)
            if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
                return
        super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> "SupConLoss":
        """Weights move with the module and keep their dtype: float16 has no room for them."""
        kept = {name: weights for name in _WEIGHTS if (weights := getattr(self, name)) is not None}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, weights in kept.items():
            setattr(self, name, weights.to(getattr(self, name).device))
        return self

    def forward(
        self, features: Rows, labels: RowLabels, keys: Rows | None = None, key_labels: RowLabels | None = None
    ) -> Tensor:
        """Loss of the rows of this process; arguments as in `supcon_loss`. Keys are compared with these rows only."""
        several = self.gather and rank_and_world_size(self.group)[1] > 1
        try:
            _check_options(self.denominator, self.singletons, self.compare, self.margin, self.reduction)
            batch = checked_batch(features, labels, keys, key_labels, self.compare, self.temperature)
            batch = batch._replace(class_weights=self.class_weights, anchor_weights=self.anchor_weights)
            if several and not torch.compiler.is_compiling():
                batch.inputs().check_labels()  # before the others wait for it
        except Exception:  # whatever it is, the other processes must be told
            if several:
                refuse_batch(features, self.group)
            raise
        if several:
            return self._across_processes(batch)
        return _single_loss(batch.inputs(), self._spec(batch), self.singletons, self.reduction)

    def _spec(self, batch: CheckedBatch) -> LossSpec:
        return batch.spec(self.denominator, self.margin, self.compare, self.normalize)

    def _across_processes(self, batch: CheckedBatch) -> Tensor:
        number = -1.0 if isinstance(batch.temperature, Tensor) else batch.temperature
        words = ",".join((self.denominator, self.singletons, self.compare, self.reduction, str(self.normalize)))
        headers = exchange_headers(batch.features, batch.labels, [number, self.margin], words, self.group)
        # Gradients are summed over processes, and would be rounded at each.
        batch = batch._replace(features=widened(batch.features))
        if self.compare == "all":
            others, labels = gather_others(batch.features, batch.labels, headers, self.group)
            if batch.keys is not None and batch.key_labels is not None:
                others, labels = join_rows(others, labels, batch.keys, batch.key_labels)
            batch = batch._replace(keys=others, key_labels=labels)
        inputs, spec = batch.inputs(), self._spec(batch)
        if self.reduction == "none":
            return _single_loss(inputs, spec, self.singletons, "none")
        total, count, missing = supcon_total(inputs, spec, mean=False, skip=self.singletons != "count")
        sums = sum_over_processes(torch.stack([count.double(), missing.sum()]), self.group, headers)
        if self.singletons == "error" and bool(sums[1]):
            refuse_singletons(total, missing, inputs.labels, spec)
            raise ValueError('a row of another rank has no positive, and singletons="error"; its own error says which')
        # DDP divides gradients by the number of processes; the mean is over the anchors of all of them.
        divisor = 1.0 if self.reduction == "sum" else sums[0].masked_fill(sums[0] == 0, 1.0)
        scaled: Tensor = total * (len(headers) / divisor)
        return scaled

    def extra_repr(self) -> str:
        """The options, for `print(module)`."""
        names = ("temperature", "denominator", "singletons", "margin", "compare", "reduction", "normalize", "gather")
        usual = {"margin": 0.0, "compare": "all", "reduction": "mean", "normalize": True}
        options = {name: getattr(self, name) for name in names if getattr(self, name) != usual.get(name)}
        shown = {name: "tensor" if isinstance(value, Tensor) else value for name, value in options.items()}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _check_options(denominator: str, singletons: str, compare: str, margin: float, reduction: str) -> None:
    check_margin(margin, denominator)
    check_choice("singletons", singletons, Singletons)
    check_choice("compare", compare, Compare)
    check_choice("reduction", reduction, Reduction)
