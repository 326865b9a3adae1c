"""The supervised contrastive loss: a function of one batch, and a module that is exact across processes."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from orthoframe._rows import feature_tensor, label_tensor, rank_and_world_size
from orthoframe.losses._autograd import Average, supcon_terms, supcon_total
from orthoframe.losses._distributed import exchange_headers, gather_others, sum_over_processes
from orthoframe.losses._kernels import LossSpec
from orthoframe.options import Denominator, Reduction, Singletons, check_choice, check_temperature

Rows = Tensor | NDArray[Any] | Sequence[Sequence[float]]
RowLabels = Tensor | NDArray[Any] | Sequence[int]

_HALF = (torch.float16, torch.bfloat16)


def supcon_loss(
    features: Rows,
    labels: RowLabels,
    *,
    keys: Rows | None = None,
    key_labels: RowLabels | None = None,
    temperature: float = 0.1,
    denominator: Denominator = "all",
    singletons: Singletons = "skip",
    reduction: Reduction = "mean",
    normalize: bool = True,
) -> Tensor:
    r"""Supervised contrastive loss: pull rows of a class together, push other classes away.

    With unit rows h, similarities s_ij = h_i.h_j, temperature tau and P(i) the other rows of the class of i, each
    anchor i has the term

        l_i = log sum_{l != i} e^(s_il/tau) - (1/|P(i)|) sum_{j in P(i)} s_ij/tau

    for `denominator="all"`; the other denominators change the sum under the logarithm. An anchor without a positive has
    no term, although it is still a negative of the others. With `denominator="negatives"`, batches of a single class
    have no terms either. If no anchor has a term, the loss is 0 and its gradient zero.

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
        temperature: tau, from 0.001 to 1e6.
        denominator: `"all"` (the paper's), `"sincere"`, `"negatives"` or `"class-average"`; see `Denominator`.
        singletons: What to do with anchors that have no term: `"skip"` leaves them out of the mean, `"count"` keeps
            them as zeros, `"error"` raises and names the class and position.
        reduction: `"mean"`, `"sum"`, or `"none"` for the term of each row (0 where it has none).
        normalize: Whether to divide each row by its norm first. Without it, rows are used as they are, and should
            already have unit norm: floors and bounds do not apply to other rows.

    Returns:
        A scalar, or `[rows]` with `reduction="none"`: a tensor, also for arrays.

    Raises:
        TypeError: For a wrong dtype or type.
        ValueError: For a wrong shape or option, labels beyond int64, or a singleton with `singletons="error"`.

    Examples:
        >>> import torch
        >>> frame = torch.eye(2).repeat_interleave(2, 0)  # two classes, two rows each, an orthogonal frame
        >>> supcon_loss(frame, torch.tensor([0, 0, 1, 1]), temperature=1.0, reduction="sum")
        tensor(2.2058)
        >>> supcon_loss(frame, torch.tensor([0, 1, 2, 3]))  # no positives: nothing to learn
        tensor(0.)
    """
    _check_options(temperature, denominator, singletons)
    check_choice("reduction", reduction, Reduction)
    features, labels, keys, key_labels = _checked_batch(features, labels, keys, key_labels)
    keys_learn = keys is not None and keys.requires_grad
    spec = LossSpec(float(temperature), denominator, normalize, keys_learn, forbid_singletons=singletons == "error")
    rows, labels = _joined(features, labels, keys, key_labels)
    if reduction == "none":
        return supcon_terms(rows, labels, len(features), spec)
    average: Average = "none" if reduction == "sum" else "all" if singletons == "count" else "present"
    return supcon_total(rows, labels, len(features), spec, average)[0]


class SupConLoss(nn.Module):
    """Mean supervised contrastive loss; see `supcon_loss` for the formula.

    Under `torch.distributed` with several processes and `gather=True`, each row is compared with the rows of all
    processes. The losses and, after `DistributedDataParallel` has averaged them, the gradients average to those of one
    process that holds the joined batch: also if batches differ in size, if a process has no anchor with a positive, or
    if the only positive of a row is on another process. Every process must call it, and `backward`, equally often.

    Args:
        temperature: tau, from 0.001 to 1e6.
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
        _check_options(temperature, denominator, singletons)
        self.temperature, self.denominator = temperature, denominator
        self.singletons, self.gather = singletons, gather

    def forward(
        self, features: Rows, labels: RowLabels, keys: Rows | None = None, key_labels: RowLabels | None = None
    ) -> Tensor:
        """Loss of the rows of this process; arguments as in `supcon_loss`. Keys are compared with these rows only."""
        if self.gather and rank_and_world_size()[1] > 1:
            return self._across_processes(features, labels, keys, key_labels)
        return supcon_loss(features, labels, keys=keys, key_labels=key_labels, **self._options())

    def _across_processes(
        self, given: Rows, given_labels: RowLabels, given_keys: Rows | None, given_key_labels: RowLabels | None
    ) -> Tensor:
        options = self._options()
        try:
            _check_options(**options)
            features, labels, keys, key_labels = _checked_batch(given, given_labels, given_keys, given_key_labels)
        except Exception:  # whatever it is, the other processes must be told
            exchange_headers(given, options, refused=True)
            raise
        headers = exchange_headers(features, options, refused=False)
        if features.dtype in _HALF:
            features = features.float()  # gradients are summed over processes, and would be rounded at each
        others, other_labels = gather_others(features, labels, headers)
        if keys is not None and key_labels is not None:
            others, other_labels = _joined(others, other_labels, keys, key_labels)
        rows, row_labels = _joined(features, labels, others, other_labels)
        spec = LossSpec(float(self.temperature), self.denominator, key_gradient=others.requires_grad)
        total, missing = supcon_total(rows, row_labels, len(features), spec, "none")
        all_missing, anchors = sum_over_processes(missing, len(features), device=features.device)
        if self.singletons == "error" and all_missing:
            if missing:
                supcon_total(rows, row_labels, len(features), spec._replace(forbid_singletons=True), "none")
            raise ValueError('a row of another rank has no positive, and singletons="error"; its own error says which')
        # DDP divides gradients by the number of processes; the mean is over the anchors of all of them.
        count = anchors - all_missing if self.singletons == "skip" else anchors
        return total * (len(headers) / max(1, count))

    def extra_repr(self) -> str:
        """The options, for `print(module)`."""
        return ", ".join(f"{name}={value!r}" for name, value in {**self._options(), "gather": self.gather}.items())

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("temperature", "denominator", "singletons")}


def _check_options(temperature: object, denominator: str, singletons: str) -> None:
    check_temperature(temperature)
    check_choice("denominator", denominator, Denominator)
    check_choice("singletons", singletons, Singletons)


def _checked_batch(
    given: Rows, given_labels: RowLabels, keys: Rows | None, key_labels: RowLabels | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Rows and keys as tensors, and their labels as int64, on their device."""
    features, labels = checked_rows(given, given_labels, "features", "labels")
    if keys is None and key_labels is None:
        return features, labels, None, None
    if keys is None or key_labels is None:
        here, missing = ("key_labels", "keys") if keys is None else ("keys", "key_labels")
        raise ValueError(f"{here} was given without {missing}; give both or neither")
    if not isinstance(keys, Tensor):
        keys = feature_tensor(keys, "keys").to(features.device)
    keys, key_labels = checked_rows(keys, key_labels, "keys", "key_labels")
    if keys.shape[1] != features.shape[1]:
        raise ValueError(f"keys have dimension {keys.shape[1]} and features {features.shape[1]}; they must agree")
    if keys.device != features.device:
        raise ValueError(f"keys are on {keys.device} and features on {features.device}; move the keys")
    return features, labels, keys, key_labels


def checked_rows(given: Rows, given_labels: RowLabels, name: str, label_name: str) -> tuple[Tensor, Tensor]:
    """Rows `[rows, dim]` as a floating tensor, and their labels as int64 on its device."""
    rows = feature_tensor(given, name)
    if rows.ndim != 2:
        advice = f"; for [samples, views, dim] use {name}.flatten(0, 1) and {label_name}.repeat_interleave(views)"
        raise ValueError(
            f"{name} must have shape [rows, dim], not {list(rows.shape)}{advice if rows.ndim == 3 else ''}"
        )
    if rows.dtype not in (torch.float64, torch.float32, *_HALF):
        raise TypeError(f"{name} must be float64, float32, float16 or bfloat16, not {rows.dtype}")
    labels = label_tensor(given_labels, rows.device, label_name)
    if labels.shape != rows.shape[:1]:
        raise ValueError(f"{label_name} must have shape [{len(rows)}], one per row of {name}, not {list(labels.shape)}")
    return rows, labels


def _joined(features: Tensor, labels: Tensor, keys: Tensor | None, key_labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """Anchors and then keys, in the dtype in which they are computed."""
    rows = features
    if keys is not None and key_labels is not None:
        dtype = torch.promote_types(features.dtype, keys.dtype)
        rows, labels = torch.cat([features.to(dtype), keys.to(dtype)]), torch.cat([labels, key_labels])
    return rows.float() if rows.dtype in _HALF else rows, labels
