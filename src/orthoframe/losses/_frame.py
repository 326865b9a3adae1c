"""The frame term: each row is pulled to the row of its class in a fixed orthogonal frame, by itself."""

import math
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from orthoframe._processes import rank_and_world_size
from orthoframe._rows import RowLabels, Rows, Weights, feature_tensor, positive_array, unit_rows, widened
from orthoframe.errors import Option, OptionError
from orthoframe.losses._batch import checked_rows, checked_temperature
from orthoframe.losses._distributed import sum_over_processes
from orthoframe.losses._floors import check_frame_labels
from orthoframe.losses._supcon import SupConLoss
from orthoframe.options import (
    TEMPERATURE,
    Reduction,
    check_choice,
    check_margin,
    check_number,
    check_size,
    check_temperature,
)

_NO_LABEL = torch.iinfo(torch.int64).min  # cross-entropy would leave out rows of class -100


def make_frame(num_classes: int, dim: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """A fixed orthogonal frame of non-negative unit rows: class c owns the axes c, c + k, c + 2k, ...

    Args:
        num_classes: k, the number of rows.
        dim: Dimensions, at least k.
        dtype: Of the result.

    Returns:
        `[num_classes, dim]`.

    Raises:
        OptionError: For fewer dimensions than classes.

    Examples:
        >>> make_frame(2, 4)
        tensor([[0.7071, 0.0000, 0.7071, 0.0000],
                [0.0000, 0.7071, 0.0000, 0.7071]])
    """
    k, dim = check_size("num_classes", num_classes), check_size("dim", dim)
    if dim < k:
        raise OptionError(Option("dim"), f" must be at least {k}, the number of classes, not {dim}")
    owner = torch.arange(dim) % k
    frame = F.one_hot(owner, k).T.to(torch.float64)
    return (frame / frame.sum(1, keepdim=True).sqrt()).to(dtype)


def frame_loss(
    features: Rows,
    labels: RowLabels,
    frame: Rows,
    *,
    temperature: float | Tensor = TEMPERATURE,
    shares: Weights | None = None,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Cross-entropy of cosines to the rows of a fixed orthogonal frame: the frame term.

    With unit rows h, a frame W, and q_c the share of the rows that are of class c, row i of class y has the term

        f_i = -log softmax_y(h_i.W_c/tau + log q_c),

    in which the margin m is subtracted from the cosine of its class: h_i.W_y - m. For non-negative features, each term
    is smallest where its row is W_y, and there alone; see `frame_floor`. So every row has its optimum by itself, no two
    examples have to meet in a batch, and any list of batches leads to the frame.

    Args:
        features: `[rows, dim]`; divided by their norms. A row that is not longer than 1e-12 counts as zero.
        labels: `[rows]`, integers from 0 to k - 1.
        frame: `[k, dim]`, non-negative orthogonal rows, divided by their norms: `make_frame`.
        temperature: tau, from 0.001 to 1e6; or a tensor, one for all rows or one for each.
        shares: `[k]`, positive; only their ratios count. `BatchPlan.shares()` has those of a plan. Equal by default.
        margin: m, from -1 to 10, subtracted from the cosine of the row's class.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Returns:
        A scalar, or `[rows]` with `reduction="none"`; 0 without rows.

    Raises:
        TypeError: For a wrong dtype or type.
        ValueError: For a wrong shape or option, or a label that has no row in the frame.

    Examples:
        >>> frame = make_frame(3, 3)
        >>> frame_loss(frame, [0, 1, 2], frame, temperature=1.0)  # its floor: log(1 + 2/e)
        tensor(0.5514)
    """
    check_choice("reduction", reduction, Reduction)
    check_margin(margin, "all")
    rows, classes = checked_rows(features, labels, "features", "labels")
    temperature = checked_temperature(temperature, classes)
    targets = feature_tensor(frame, "frame")
    if targets.ndim != 2 or rows.shape[1] != targets.shape[1]:
        raise ValueError(f"frame must have shape [k, {rows.shape[1]}], as features have it, not {list(targets.shape)}")
    prior = None if shares is None else log_shares(shares, len(targets))
    return _frame_terms(rows, classes, targets, temperature, prior, margin, reduction)


class _UnitRows(torch.autograd.Function):
    """`unit_rows`, whose gradient takes two passes over the rows and no float64: u -> (g - u (u.g)) / norm."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor) -> tuple[Tensor, Tensor]:
        return unit_rows(rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Tensor | None) -> Tensor | None:
        if grad is None:
            return None
        rows, unit, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():  # with create_graph=True: this, too, is differentiated
            unit, inverse = unit_rows(rows)
        radial = torch.linalg.vecdot(unit, grad)[:, None]
        gradient: Tensor = torch.addcmul(grad, unit, radial, value=-1) * inverse
        return gradient


def _frame_terms(
    rows: Tensor,
    classes: Tensor,
    frame: Tensor,
    temperature: float | Tensor,
    prior: Tensor | None,
    margin: float,
    reduction: str,
) -> Tensor:
    with torch.autocast(rows.device.type, enabled=False):
        wide = widened(rows)
        unit, _ = unit_rows(wide) if torch.compiler.is_compiling() else _UnitRows.apply(wide)  # type: ignore[no-untyped-call]
        # Unit in this dtype: rows that were rounded in another would move the floor.
        cosines = torch.mm(unit, unit_rows(frame.to(unit))[0].T)
        try:
            if margin:
                columns = classes[:, None]
                cosines = cosines.scatter_add(1, columns, cosines.new_full(columns.shape, -margin))
            if isinstance(temperature, Tensor) and temperature.ndim:
                temperature = temperature[:, None]
            logits = cosines / temperature
            if prior is not None:
                logits = logits + prior.to(logits)
            if reduction == "mean" and not len(rows):
                return logits.sum()
            return F.cross_entropy(logits, classes, ignore_index=_NO_LABEL, reduction=reduction)
        except (IndexError, RuntimeError):  # labels are checked only now, because reading them waits for a GPU
            check_frame_labels(classes, len(frame))
            raise


class FrameLoss(nn.Module):
    """Mean frame term, and optionally a weighted supervised contrastive loss.

    Both have the orthogonal frame as their only optimum for non-negative features; their sum has the sum of their
    floors. Under `torch.distributed` with several processes the mean is over the rows of all of them, after
    `DistributedDataParallel` has averaged gradients, also if batches differ in size.

    Args:
        num_classes: k.
        dim: Dimensions of the features, at least k.
        temperature: tau of both parts, from 0.001 to 1e6; or a tensor with one value, which may be a parameter. May be
            set at any time.
        supcon: The weight of the contrastive loss; 0 leaves it out. A schedule sets the attribute of that name.
        shares: `[k]`, the share of each class in the rows that are seen; equal by default.
        margin: Subtracted from the cosine of the row's class in the frame term, and from those of positives in the
            contrastive part.
        gather: Whether the contrastive part compares rows with those of other processes.
        group: The processes that share a batch, as in `SupConLoss`; all of them by default.

    Attributes:
        frame: `[k, dim]`, a buffer.
        log_shares: `[k]`, a buffer.
        contrastive: The contrastive part, a `SupConLoss`; its other options (`denominator`, `singletons`) may be set.

    Examples:
        >>> loss = FrameLoss(3, 3, temperature=1.0)
        >>> loss(torch.eye(3), torch.arange(3))
        tensor(0.5514)
    """

    frame: Tensor
    log_shares: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        temperature: float | Tensor = TEMPERATURE,
        supcon: float = 0.0,
        *,
        shares: Weights | None = None,
        margin: float = 0.0,
        gather: bool = True,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("frame", make_frame(num_classes, dim))
        self.register_buffer("log_shares", log_shares(shares, num_classes).float())
        self.supcon = check_number("supcon", supcon, least=0)
        self.contrastive = SupConLoss(temperature, gather=gather, margin=margin, group=group)

    @property
    def temperature(self) -> float | Tensor:
        """The temperature of both parts."""
        return self.contrastive.temperature

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "temperature":  # here, because a module takes a parameter for one of its own
            self.contrastive.temperature = value if isinstance(value, Tensor) else check_temperature(value)
        else:
            super().__setattr__(name, value)

    @property
    def margin(self) -> float:
        """The margin of both parts."""
        return self.contrastive.margin

    @margin.setter
    def margin(self, value: float) -> None:
        self.contrastive.margin = check_margin(value, "all")

    def forward(
        self, features: Rows, labels: RowLabels, keys: Rows | None = None, key_labels: RowLabels | None = None
    ) -> Tensor:
        """Loss of the rows of this process; keys are for the contrastive part, as in `SupConLoss`."""
        group = self.contrastive.group
        _, processes = rank_and_world_size(group)
        reduction = "sum" if processes > 1 else "mean"
        try:
            rows, classes = checked_rows(features, labels, "features", "labels")
            rows = widened(rows)  # gradients of the two parts are summed, and would be rounded at each
            if rows.shape[1] != self.frame.shape[1]:
                raise ValueError(f"features have dimension {rows.shape[1]}, and the frame {self.frame.shape[1]}")
            temperature = checked_temperature(self.temperature, classes)
            loss = _frame_terms(rows, classes, self.frame, temperature, self.log_shares, self.margin, reduction)
        except Exception:
            if processes > 1:  # the others wait for it
                sum_over_processes(torch.full((), math.nan, dtype=torch.float64, device=self.frame.device), group)
            raise
        if processes > 1:
            count = sum_over_processes(torch.full((), float(len(rows)), dtype=torch.float64, device=loss.device), group)
            loss = loss * (processes / count.clamp(min=1.0))
        if self.supcon:
            loss = loss + self.supcon * self.contrastive(rows, classes, keys, key_labels)
        return loss

    def extra_repr(self) -> str:
        """The options, for `print(module)`."""
        k, dim = self.frame.shape
        return f"{k}, {dim}, temperature={self.temperature}, supcon={self.supcon}, margin={self.margin}"


def log_shares(shares: Weights | None, num_classes: int) -> Tensor:
    """`[k]`, logarithms of the shares, which then sum to 1.

    Raises:
        ValueError: For shares that are not one per class, or not positive; those on a GPU are not checked.
    """
    if shares is None:
        return torch.full((num_classes,), -math.log(num_classes), dtype=torch.float64)
    if not isinstance(shares, Tensor) or (shares.device.type == "cpu" and not torch.compiler.is_compiling()):
        shares = torch.from_numpy(positive_array(shares, "shares"))
    if shares.shape != (num_classes,):
        raise ValueError(f"shares must have shape [{num_classes}], one per class, not {list(shares.shape)}")
    return shares.log() - shares.sum().log()
