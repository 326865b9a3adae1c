"""How low the loss can go, and what it is when everything has collapsed."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from orthoframe.losses._checks import check_options
from orthoframe.losses._options import Denominator, Reduction, Singletons

Integers = Tensor | Sequence[int]


def loss_floor(
    labels: Integers | None = None,
    *,
    class_counts: Integers | None = None,
    key_labels: Integers | None = None,
    key_counts: Integers | None = None,
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
    check_options(temperature, denominator, singletons, reduction)
    sizes = _sizes(labels, class_counts, key_labels, key_counts)
    return _reduced(sizes, -1.0 / temperature, denominator, singletons, reduction)


def collapsed_loss(
    labels: Integers | None = None,
    *,
    class_counts: Integers | None = None,
    key_labels: Integers | None = None,
    key_counts: Integers | None = None,
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
    check_options(1.0, denominator, singletons, reduction)
    sizes = _sizes(labels, class_counts, key_labels, key_counts)
    return _reduced(sizes, 0.0, denominator, singletons, reduction)


class _Sizes(NamedTuple):
    """What each class of a batch meets; float64 `[k]`."""

    names: Tensor
    anchors: Tensor
    positives: Tensor
    negatives: Tensor
    other_classes: Tensor
    classes: Tensor | None  # [rows], the class of each row, if labels were given


def _sizes(
    labels: Integers | None, class_counts: Integers | None, key_labels: Integers | None, key_counts: Integers | None
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


def _integers(name: str, values: Integers) -> Tensor:
    tensor = torch.as_tensor(values, device="cpu")
    if tensor.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {list(tensor.shape)}")
    if (tensor.is_floating_point() or tensor.is_complex()) and len(tensor):
        raise TypeError(f"{name} must be integers, not {tensor.dtype}")
    return tensor.long()


def _reduced(sizes: _Sizes, log_push: float, denominator: str, singletons: str, reduction: str) -> Tensor:
    """Reduce the terms of classes whose negatives weigh e^log_push, relative to their positives."""
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
