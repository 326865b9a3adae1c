"""How low a loss can go, and what it is at a collapse: of the contrastive loss, and of the frame term."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import (
    AnyLabels,
    Counts,
    Integers,
    Labels,
    Weights,
    all_but_own,
    count_array,
    label_array,
    label_tensor,
    per_class,
    positive_array,
)
from orthoframe.options import (
    TEMPERATURE,
    Compare,
    Denominator,
    Reduction,
    Singletons,
    check_choice,
    check_margin,
    check_number,
    check_size,
    check_temperature,
)

Arguments = ParamSpec("Arguments")

# `_lead` below is how far the cosine to positives is above the cosine to negatives: 1 at the frame, 0 at a collapse.


def _takes_arguments_of(
    other: Callable[Arguments, Tensor],
) -> Callable[[Callable[..., Tensor]], Callable[Arguments, Tensor]]:
    """Show the signature of another function, to which all arguments are passed, to readers, editors and mypy."""

    def show(function: Callable[..., Tensor]) -> Callable[Arguments, Tensor]:
        function.__signature__ = inspect.signature(other)  # type: ignore[attr-defined]
        return function

    return show


def loss_floor(
    labels: AnyLabels | None = None,
    *,
    class_counts: Counts | None = None,
    key_labels: AnyLabels | None = None,
    key_counts: Counts | None = None,
    compare: Compare = "all",
    temperature: float = TEMPERATURE,
    denominator: Denominator = "all",
    margin: float = 0.0,
    class_weights: Weights | None = None,
    anchor_weights: Weights | None = None,
    singletons: Singletons = "skip",
    reduction: Reduction = "mean",
    _lead: float = 1.0,
) -> Tensor:
    r"""Smallest loss that non-negative unit features can have in one batch.

    An anchor with P positives and M negatives, keys among them, has a term of at least

    - `all`: log(w P + M e^(-(1 - m)/tau))
    - `sincere`: log(w + M e^(-(1 - m)/tau))
    - `negatives`: log(M) - 1/tau
    - `class-average`: log(w + K e^(-(1 - m)/tau)), K the other classes that the anchor is compared with

    with the margin m and the weight w of its class, which is 1 by default. Negatives and other classes count with their
    weights, and the term is multiplied by the anchor weight. There is equality where rows of a class coincide and
    classes are orthogonal: an orthogonal frame, whatever the class sizes, the margin and the weights. Features need at
    least as many dimensions as there are classes. The floor of several batches is the sum of their floors. Features
    with negative entries can go lower.

    Args:
        labels: `[rows]`, the class of each row (not counts: `[2, 2]` is two rows of class 2); or give `class_counts`.
        class_counts: `[k]`, rows of each class.
        key_labels: `[keys]`, classes of the rows that are not anchors; with `labels`.
        key_counts: `[k]`, the same as counts; with `class_counts`.
        compare: As in `supcon_loss`: with `"keys"`, positives and negatives are keys.
        temperature: tau, from 0.001 to 1e6.
        denominator: As in `supcon_loss`.
        margin: As in `supcon_loss`.
        class_weights: As in `supcon_loss`: indexed by label, or one per class of `class_counts`.
        anchor_weights: As in `supcon_loss`; indexed in the same way.
        singletons: As in `supcon_loss`: whether anchors without a term count in the mean.
        reduction: `"mean"`, `"sum"`, or `"none"`: for each row of `labels`, or each class of `class_counts`.

    Returns:
        float64; a scalar, or a vector with `reduction="none"` (0 where there is no term).

    Raises:
        ValueError: For an argument that is not allowed, or a class without a term with `singletons="error"`.

    Examples:
        >>> loss_floor([0, 0, 1, 1], temperature=1.0, reduction="sum")
        tensor(2.2058, dtype=torch.float64)
        >>> loss_floor(class_counts=[20, 20, 4, 4])
        tensor(2.6370, dtype=torch.float64)
    """
    push = -(_lead - check_margin(margin, denominator)) / check_temperature(temperature)
    check_choice("compare", compare, Compare)
    check_choice("singletons", singletons, Singletons)
    check_choice("reduction", reduction, Reduction)
    if (labels is None) == (class_counts is None):
        raise ValueError("give labels or class_counts, one of the two")
    if (key_labels is not None and labels is None) or (key_counts is not None and class_counts is None):
        raise ValueError("key_labels go with labels, and key_counts with class_counts")
    if labels is not None:
        batch = classes_of_labels(labels, key_labels, class_weights, anchor_weights)
    else:
        assert class_counts is not None
        batch = _classes_of_counts(class_counts, key_counts, class_weights, anchor_weights)
    return _reduced_terms(batch, push, compare, denominator, singletons, reduction)


@_takes_arguments_of(loss_floor)
def collapsed_loss(*labels: Any, **options: Any) -> Tensor:
    """Loss of a batch in which all rows coincide: the value at which a collapsed training is stuck.

    It is log(N - 1) for `all` with N rows and keys; log(1 + M) for `sincere` and log(M) for `negatives` with M
    negatives; log(k) for `class-average` with k classes. With weights and a margin it is the floor with e^(m/tau)
    instead of e^(-(1 - m)/tau); only with a margin does it depend on the temperature. The arguments and the result are
    those of `loss_floor`.

    Examples:
        >>> collapsed_loss(class_counts=[256, 256])  # log(511)
        tensor(6.2364, dtype=torch.float64)
    """
    return loss_floor(*labels, **options, _lead=0.0)


def frame_floor(
    labels: AnyLabels,
    num_classes: int,
    *,
    temperature: float = TEMPERATURE,
    shares: Weights | None = None,
    margin: float = 0.0,
    reduction: Reduction = "mean",
    _lead: float = 1.0,
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
    push = -(_lead - check_number("margin", margin)) / check_temperature(temperature)
    k = check_size("num_classes", num_classes)
    check_choice("reduction", reduction, Reduction)
    part = per_class(shares, k, "shares")
    classes = label_tensor(labels, torch.device("cpu"))
    check_frame_labels(classes, k)
    others = all_but_own(part).log() - part.log() + push
    terms = torch.logaddexp(torch.zeros_like(others), others)[classes]
    if reduction == "none":
        return terms
    return terms.sum() if reduction == "sum" else terms.sum() / max(1, len(terms))


@_takes_arguments_of(frame_floor)
def frame_collapsed(*labels: Any, **options: Any) -> Tensor:
    r"""Frame term of rows that all coincide, and are equally far from all rows of the frame.

    The term of a row of class y is then -log q_y: such features say nothing, and what is left are the shares. With a
    margin it is log(1 + sum_{c != y} (q_c/q_y) e^(m/tau)). If the shares are those of the rows, no other common row has
    a lower mean without a margin, or with equal shares: a collapsed training is stuck at the entropy of the shares,
    log(k) if they are equal. The arguments and the result are those of `frame_floor`.

    Examples:
        >>> frame_collapsed([0, 1, 2], 3)  # log(3)
        tensor(1.0986, dtype=torch.float64)
    """
    return frame_floor(*labels, **options, _lead=0.0)


def check_frame_labels(classes: Tensor, num_classes: int) -> None:
    """Refuse labels without a row in the frame."""
    if len(classes) and not 0 <= int(classes.min()) <= int(classes.max()) < num_classes:
        wrong = int(classes.min()) if int(classes.min()) < 0 else int(classes.max())
        raise ValueError(f"label {wrong} has no row in the frame: labels go from 0 to {num_classes - 1}")


class BatchClasses(NamedTuple):
    """What the floor of a batch depends on; arrays of one entry per class, `[k]`."""

    rows: Integers  # anchors
    keys: Integers
    class_weights: NDArray[np.float64]
    anchor_weights: NDArray[np.float64]
    names: Sequence[Any]  # labels
    entries: Integers  # the class of each label, or of each count, that was given


def classes_of_labels(
    labels: AnyLabels, key_labels: AnyLabels | None, class_weights: Weights | None, anchor_weights: Weights | None
) -> BatchClasses:
    """Number the classes of rows and keys, and count both; weights are indexed by label."""
    rows, keys = label_array(labels), label_array([] if key_labels is None else key_labels)
    parts = [part for part in (rows, keys) if len(part)]  # an empty list has no dtype of its own
    numbered = Labels.of(np.concatenate(parts) if parts else rows)
    anchors = np.bincount(numbered.classes[: len(rows)], minlength=len(numbered.names))
    return BatchClasses(
        rows=anchors,
        keys=numbered.counts - anchors,
        class_weights=_weights_of(numbered.names, class_weights, "class_weights"),
        anchor_weights=_weights_of(numbered.names, anchor_weights, "anchor_weights", where=anchors > 0),
        names=numbered.names,
        entries=numbered.classes[: len(rows)],
    )


def _classes_of_counts(
    class_counts: Counts, key_counts: Counts | None, class_weights: Weights | None, anchor_weights: Weights | None
) -> BatchClasses:
    rows = count_array(class_counts, "class_counts")
    keys = np.zeros_like(rows) if key_counts is None else count_array(key_counts, "key_counts")
    if len(keys) != len(rows):
        raise ValueError(f"key_counts has {len(keys)} classes and class_counts {len(rows)}; they must agree")
    names = range(len(rows))
    return BatchClasses(
        rows=rows,
        keys=keys,
        class_weights=_weights_of(names, class_weights, "class_weights"),
        anchor_weights=_weights_of(names, anchor_weights, "anchor_weights", where=rows > 0),
        names=names,
        entries=np.arange(len(rows)),
    )


def _weights_of(
    names: Sequence[Any], weights: Weights | None, option: str, where: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """The weights of classes with these labels; 1 without weights, and where none is needed."""
    array = np.ones(len(names))
    if weights is None:
        return array
    table = positive_array(weights, option)
    for number, label in enumerate(names):
        if where is not None and not where[number]:
            continue
        if not isinstance(label, int) or not 0 <= label < len(table):
            raise ValueError(
                f"label {label!r} has no entry in {option}, which is indexed by label and has {len(table)}"
            )
        array[number] = table[label]
    return array


def _reduced_terms(
    batch: BatchClasses, log_push: float, compare: str, denominator: str, singletons: str, reduction: str
) -> Tensor:
    """Reduce the terms of classes whose negatives weigh e^log_push, relative to their positives."""
    anchors, keys = torch.from_numpy(batch.rows).double(), torch.from_numpy(batch.keys).double()
    class_weights, anchor_weights = torch.from_numpy(batch.class_weights), torch.from_numpy(batch.anchor_weights)
    compared, positives = (keys, keys) if compare == "keys" else (anchors + keys, anchors + keys - 1)
    others = all_but_own(class_weights * (compared.clamp(max=1) if denominator == "class-average" else compared))
    missing = positives < 1
    terms = others.log() + log_push
    if denominator == "negatives":
        missing |= others == 0
    else:
        attached = class_weights * positives.clamp(min=0) if denominator == "all" else class_weights
        terms = torch.logaddexp(attached.log(), terms)
    terms = (anchor_weights * terms).masked_fill(missing, 0.0)
    refused = missing & (anchors > 0)
    if singletons == "error" and bool(refused.any()):
        number = int(refused.nonzero()[0, 0])
        reason = 'has no positive or no negative in the batch, and singletons="error"'
        raise ValueError(f'class {batch.names[number]} {reason}; use "skip", or bind the class')
    if reduction == "none":
        return terms[batch.entries]
    loss = (terms * anchors).sum()
    averaged = anchor_weights * (anchors if singletons == "count" else anchors.masked_fill(missing, 0.0))
    return loss if reduction == "sum" or not bool((averaged > 0).any()) else loss / averaged.sum()
