"""How low the loss can go, what it is at a collapse, what a gap says about angles, and how fast it closes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from orthoframe.options import Denominator, Reduction, Singletons, check_choice, check_number

Counts = Tensor | Sequence[int]
Number = float | Tensor


def loss_floor(
    labels: Counts | None = None,
    *,
    class_counts: Counts | None = None,
    key_labels: Counts | None = None,
    key_counts: Counts | None = None,
    temperature: float = 0.1,
    denominator: Denominator = "all",
    singletons: Singletons = "skip",
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Smallest loss that non-negative unit features can have in one batch.

    An anchor with P positives and M negatives, keys among them, has a term of at least

    - `all`: log(P + M e^(-1/tau))
    - `sincere`: log(1 + M e^(-1/tau))
    - `negatives`: log(M) - 1/tau
    - `class-average`: log(1 + (k - 1) e^(-1/tau)), k the classes that the anchor is compared with, its own included

    with equality where rows of a class coincide and classes are orthogonal: an orthogonal frame, whatever the class
    sizes. It needs features of at least as many dimensions as classes. The floor of several batches is the sum of
    theirs. Features with negative entries can go lower.

    Args:
        labels: `[rows]`, the class of each row (not counts: `[2, 2]` is two rows of class 2); or give `class_counts`.
        class_counts: `[k]`, rows of each class.
        key_labels: `[keys]`, classes of the rows that are not anchors; with `labels`.
        key_counts: `[k]`, the same as counts; with `class_counts`.
        temperature: tau > 0.
        denominator: As in `supcon_loss`.
        singletons: As in `supcon_loss`: whether anchors without a term count in the mean.
        reduction: `"mean"`, `"sum"`, or `"none"`: for each row of `labels`, or each class of `class_counts`.

    Returns:
        float64; a scalar, or a vector with `reduction="none"` (0 where there is no term).

    Raises:
        ValueError: For options or counts that are not allowed; for a class without a term with `singletons="error"`.

    Examples:
        >>> loss_floor([0, 0, 1, 1], temperature=1.0, reduction="sum")
        tensor(2.2058, dtype=torch.float64)
        >>> loss_floor(class_counts=[20, 20, 4, 4])
        tensor(2.6370, dtype=torch.float64)
    """
    check_temperature(temperature)
    sizes = _sizes(labels, class_counts, key_labels, key_counts)
    return _reduced(sizes, -1.0 / temperature, denominator, singletons, reduction)


def collapsed_loss(
    labels: Counts | None = None,
    *,
    class_counts: Counts | None = None,
    key_labels: Counts | None = None,
    key_counts: Counts | None = None,
    denominator: Denominator = "all",
    singletons: Singletons = "skip",
    reduction: Reduction = "mean",
) -> Tensor:
    """Loss of a batch whose rows all coincide: the value at which a training that has collapsed is stuck.

    At every temperature it is log(N - 1) for `all`, N the number of rows and keys; log(1 + M) for `sincere` and log(M)
    for `negatives`, M the number of negatives; log(k) for `class-average`.

    Args:
        labels: As in `loss_floor`.
        class_counts: As in `loss_floor`.
        key_labels: As in `loss_floor`.
        key_counts: As in `loss_floor`.
        denominator: As in `loss_floor`.
        singletons: As in `loss_floor`.
        reduction: As in `loss_floor`.

    Returns:
        float64, as `loss_floor`.

    Examples:
        >>> collapsed_loss(class_counts=[256, 256])  # log(511)
        tensor(6.2364, dtype=torch.float64)
    """
    sizes = _sizes(labels, class_counts, key_labels, key_counts)
    return _reduced(sizes, 0.0, denominator, singletons, reduction)


def angle_bound(
    gap: Number,
    positives: Number,
    negatives: Number,
    *,
    temperature: float = 0.1,
    denominator: Denominator = "all",
) -> Tensor:
    r"""Largest departure from an orthogonal frame that a gap above the floor allows.

    For the anchors of one class in a batch, let D be the mean of (1 - mean cosine to positives + mean cosine to
    negatives): 0 at an orthogonal frame. If the mean of their terms is `gap` above the floor, then

        D <= tau log(1 + (e^gap - 1)/q),   q = M/(P x + M),   x = e^(1/tau)

    for `all`, with P positives and M negatives of an anchor; q = M/(x + M) for `sincere`, 1 for `negatives`, and
    (k - 1)/(x + k - 1) for `class-average`, where the cosines to negatives are averaged class by class. q is small at
    small temperatures: a gap proves something only once it is below q.

    Args:
        gap: Mean term minus floor, at least 0 (rounding below 0 counts as 0); compute it in float64.
        positives: P, rows and keys of the anchor's class without the anchor.
        negatives: M, rows and keys of other classes; for `class-average` the number of other classes.
        temperature: tau > 0.
        denominator: Which loss it is.

    Returns:
        The bound, float64, of the shape that the arguments broadcast to; infinite without negatives.

    Examples:
        >>> angle_bound(1e-4, positives=49, negatives=450)
        tensor(0.0215, dtype=torch.float64)
    """
    check_temperature(temperature)
    gap = torch.as_tensor(gap, dtype=torch.float64, device="cpu").clamp(min=0.0)
    share = _log_share(positives, negatives, temperature, denominator)
    # log((e^gap - 1)/q), where e^gap and q may both be out of range
    ratio = gap + torch.log(-torch.expm1(-gap)) - share
    bound = temperature * torch.logaddexp(ratio, torch.zeros_like(ratio))
    return torch.where(share == -torch.inf, torch.inf, bound)


def decay_rate(
    positives: Number, negatives: Number, *, temperature: float = 0.1, denominator: Denominator = "all"
) -> Tensor:
    r"""Rate at which the spread of a class decays near the orthogonal frame.

    Under the gradient flow of the loss in sum form, free features of a class with P + 1 rows approach their mean as
    e^(-rate t), with

        rate = 2 (P + 1)/P q/tau

    and q as in `angle_bound`. The distance of the loss to its floor falls twice as fast.

    Args:
        positives: P, rows of the anchor's class without the anchor.
        negatives: M, rows of other classes; for `class-average` the number of other classes.
        temperature: tau > 0.
        denominator: Which loss it is.

    Returns:
        The rate, float64; 0 without negatives.

    Examples:
        >>> decay_rate(positives=49, negatives=450, temperature=0.476)
        tensor(2.2685, dtype=torch.float64)
    """
    check_temperature(temperature)
    near, _ = _doubles(positives, negatives)
    return 2 * (near + 1) / near * _log_share(positives, negatives, temperature, denominator).exp() / temperature


def fastest_temperature(positives: Number, negatives: Number, *, denominator: Denominator = "all") -> Tensor:
    r"""Temperature at which free features near the orthogonal frame approach it fastest.

    All forces near the frame scale as q/tau, q as in `angle_bound`. With rho = M/P (`all`), M (`sincere`) or k - 1
    (`class-average`) the largest is at

        tau = 1/(1 + W(rho/e)),   W Lambert's function.

    A network may want a smaller temperature early on: a large one can merge classes before they are told apart. Without
    negatives there is no force at all, and the limit of the formula, 1, is returned.

    Args:
        positives: P, rows and keys of the anchor's class without the anchor.
        negatives: M, rows and keys of other classes; for `class-average` the number of other classes.
        denominator: Which loss it is.

    Returns:
        The temperature, float64.

    Raises:
        ValueError: For `denominator="negatives"`, whose forces grow without bound as the temperature falls.

    Examples:
        >>> fastest_temperature(positives=1, negatives=torch.tensor([1, 9, 100, 1000]))
        tensor([0.7822, 0.4760, 0.2750, 0.1845], dtype=torch.float64)
    """
    check_choice("denominator", denominator, Denominator)
    if denominator == "negatives":
        raise ValueError('denominator="negatives" has no fastest temperature: its forces scale as 1/tau')
    from scipy.special import lambertw  # here, because importing orthoframe should not load scipy

    positives, negatives = _doubles(positives, negatives)
    rho = negatives / positives if denominator == "all" else negatives + torch.zeros_like(positives)
    return 1.0 / (1.0 + torch.as_tensor(lambertw((rho / math.e).numpy()).real))


class _Sizes(NamedTuple):
    """What each class of a batch meets; float64 `[k]`."""

    names: Tensor
    anchors: Tensor
    positives: Tensor
    negatives: Tensor
    other_classes: Tensor
    classes: Tensor | None  # [rows], the class of each row, if labels were given


def _sizes(
    labels: Counts | None, class_counts: Counts | None, key_labels: Counts | None, key_counts: Counts | None
) -> _Sizes:
    if (labels is None) == (class_counts is None):
        raise ValueError("give labels or class_counts, one of the two")
    if (key_labels is not None and labels is None) or (key_counts is not None and class_counts is None):
        raise ValueError("key_labels go with labels, and key_counts with class_counts")
    classes = None
    if labels is not None:
        rows, keys = _integers("labels", labels), _integers("key_labels", [] if key_labels is None else key_labels)
        names, every = torch.unique(torch.cat([rows, keys]), return_inverse=True)
        classes = every[: len(rows)]
        anchors = torch.bincount(classes, minlength=len(names))
        extra = torch.bincount(every[len(rows) :], minlength=len(names))
    else:
        anchors = _integers("class_counts", class_counts if class_counts is not None else [])
        extra = torch.zeros_like(anchors) if key_counts is None else _integers("key_counts", key_counts)
        names = torch.arange(len(anchors), device="cpu")
        if len(extra) != len(anchors):
            raise ValueError(f"key_counts has {len(extra)} classes and class_counts {len(anchors)}; they must agree")
        if bool((anchors < 0).any()) or bool((extra < 0).any()):
            raise ValueError("class_counts and key_counts must not be negative")
    total = (anchors + extra).double()
    return _Sizes(
        names=names,
        anchors=anchors.double(),
        positives=total - 1,
        negatives=total.sum() - total,
        other_classes=(total > 0).sum() - 1.0 + torch.zeros_like(total),
        classes=classes,
    )


def _integers(name: str, values: Counts) -> Tensor:
    tensor = torch.as_tensor(values, device="cpu")
    if tensor.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {list(tensor.shape)}")
    if (tensor.is_floating_point() or tensor.is_complex()) and len(tensor):
        raise TypeError(f"{name} must be integers, not {tensor.dtype}")
    return tensor.long()


def _reduced(sizes: _Sizes, log_push: float, denominator: str, singletons: str, reduction: str) -> Tensor:
    """Reduce the terms of classes whose negatives weigh e^log_push, relative to their positives."""
    check_choice("denominator", denominator, Denominator)
    check_choice("singletons", singletons, Singletons)
    check_choice("reduction", reduction, Reduction)
    push = math.exp(log_push)
    if denominator == "all":
        terms = (sizes.positives + sizes.negatives * push).log()
    elif denominator == "sincere":
        terms = (sizes.negatives * push).log1p()
    elif denominator == "negatives":
        terms = sizes.negatives.log() + log_push
    else:
        terms = (sizes.other_classes * push).log1p()
    missing = sizes.positives < 1
    if denominator == "negatives":
        missing |= sizes.negatives == 0
    terms = terms.masked_fill(missing, 0.0)
    unlearnable = missing & (sizes.anchors > 0)
    if singletons == "error" and bool(unlearnable.any()):
        name = int(sizes.names[int(unlearnable.nonzero()[0, 0])])
        raise ValueError(
            f'class {name} has no positive or no negative in the batch, and singletons="error"; '
            'use "skip", or bind the class'
        )
    if reduction == "none":
        return terms if sizes.classes is None else terms[sizes.classes]
    total = (terms * sizes.anchors).sum()
    if reduction == "sum":
        return total
    counted = sizes.anchors if singletons == "count" else sizes.anchors.masked_fill(missing, 0.0)
    return total / counted.sum().clamp(min=1)


def _log_share(positives: Number, negatives: Number, temperature: float, denominator: str) -> Tensor:
    """Logarithm of q, the part of the denominator that negatives hold at the orthogonal frame."""
    check_choice("denominator", denominator, Denominator)
    near, far = _doubles(positives, negatives)
    if denominator != "all":
        near = torch.ones_like(near)
    pushed = far.log() - 1.0 / temperature + torch.zeros_like(near)
    if denominator == "negatives":
        return torch.where(pushed > -torch.inf, 0.0, -torch.inf)
    return pushed - torch.logaddexp(near.log(), pushed)


def _doubles(positives: Number, negatives: Number) -> tuple[Tensor, Tensor]:
    positives = torch.as_tensor(positives, dtype=torch.float64, device="cpu")
    negatives = torch.as_tensor(negatives, dtype=torch.float64, device="cpu")
    if bool((positives < 1).any()) or bool((negatives < 0).any()):
        raise ValueError("an anchor needs at least 1 positive, and its negatives must not be fewer than 0")
    return positives, negatives


def check_temperature(temperature: object) -> None:
    """Refuse what is not a positive, finite number."""
    check_number("temperature", temperature, above=0, advice=("0.1 is usual",))
