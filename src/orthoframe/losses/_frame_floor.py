"""How low the frame term can go, and what it is at a collapse."""

import torch
from torch import Tensor

from orthoframe._rows import Weights, all_but_own, label_tensor, positive_array
from orthoframe.losses._floor import AnyLabels
from orthoframe.options import Reduction, check_choice, check_number, check_size, check_temperature


def frame_floor(
    labels: AnyLabels,
    num_classes: int,
    *,
    temperature: float = 0.1,
    shares: Weights | None = None,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Smallest frame term that non-negative unit features can have.

    The term of a row of class y is at least log(1 + sum_{c != y} (q_c/q_y) e^(-(1 - m)/tau)), with equality where the
    row is that of its class in the frame, and for k at least 2 there alone. `angle_bound`, `decay_rate` and
    `fastest_temperature` say what a gap above it proves, and how fast it closes.

    Args:
        labels: `[rows]`, integers from 0 to k - 1.
        num_classes: k.
        temperature: As in `frame_loss`.
        shares: As in `frame_loss`.
        margin: As in `frame_loss`.
        reduction: `"mean"`, `"sum"`, or `"none"` for each row.

    Returns:
        float64; a scalar, or `[rows]` with `reduction="none"`.

    Raises:
        ValueError: For an option that is not allowed, or a label that is not from 0 to k - 1.

    Examples:
        >>> frame_floor([0, 1, 2], 3, temperature=1.0)
        tensor(0.5514, dtype=torch.float64)
    """
    push = -(1.0 - check_number("margin", margin)) / check_temperature(temperature)
    return _reduced(labels, num_classes, push, shares, reduction)


def frame_collapsed(
    labels: AnyLabels,
    num_classes: int,
    *,
    temperature: float = 0.1,
    shares: Weights | None = None,
    margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Frame term of rows that all coincide, and are equally far from all rows of the frame.

    The term of a row of class y is then -log q_y: such features say nothing, and what is left are the shares. With a
    margin it is log(1 + sum_{c != y} (q_c/q_y) e^(m/tau)). If the shares are those of the rows, no other common row has
    a lower mean without a margin, or with equal shares: a collapsed training is stuck at the entropy of the shares,
    log(k) if they are equal. The arguments and the result are those of `frame_floor`.

    Examples:
        >>> frame_collapsed([0, 1, 2], 3)  # log(3)
        tensor(1.0986, dtype=torch.float64)
    """
    push = check_number("margin", margin) / check_temperature(temperature)
    return _reduced(labels, num_classes, push, shares, reduction)


def check_labels(classes: Tensor, num_classes: int) -> None:
    """Refuse labels without a row in the frame."""
    if len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < num_classes:
        wrong = int(classes.min()) if int(classes.min()) < 0 else int(classes.max())
        raise ValueError(f"label {wrong} has no row in the frame: labels go from 0 to {num_classes - 1}")


def _reduced(labels: AnyLabels, num_classes: int, log_push: float, shares: Weights | None, reduction: str) -> Tensor:
    """Reduce the terms of rows to which the other classes weigh e^log_push, relative to their own."""
    k = check_size("num_classes", num_classes)
    check_choice("reduction", reduction, Reduction)
    part = torch.ones(k, dtype=torch.float64) if shares is None else torch.from_numpy(positive_array(shares, "shares"))
    if part.shape != (k,):
        raise ValueError(f"shares must have shape [{k}], one per class, not {list(part.shape)}")
    classes = label_tensor(labels, torch.device("cpu"))
    check_labels(classes, k)
    others = all_but_own(part).log() - part.log() + log_push
    terms = torch.logaddexp(torch.zeros_like(others), others)[classes]
    return terms if reduction == "none" else terms.sum() if reduction == "sum" else terms.sum() / max(1, len(terms))
