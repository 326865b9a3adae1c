"""How low the loss can go, and what it is at a collapse."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Integers, Labels, Weights, all_but_own, count_array, label_array, positive_array
from orthoframe.options import (
    Compare,
    Denominator,
    Reduction,
    Singletons,
    check_choice,
    check_margin,
    check_temperature,
)

AnyLabels = Tensor | NDArray[Any] | Sequence[Any]
Counts = Tensor | NDArray[Any] | Sequence[int]


class _Counted(NamedTuple):
    """What the floor of a batch depends on; arrays of one entry per class, `[k]`."""

    rows: Integers  # anchors
    keys: Integers
    class_weights: NDArray[np.float64]
    anchor_weights: NDArray[np.float64]
    labels: Labels | None  # numbered, if labels were given, not counts


def loss_floor(
    labels: AnyLabels | None = None,
    *,
    class_counts: Counts | None = None,
    key_labels: AnyLabels | None = None,
    key_counts: Counts | None = None,
    compare: Compare = "all",
    temperature: float = 0.1,
    denominator: Denominator = "all",
    margin: float = 0.0,
    class_weights: Weights | None = None,
    anchor_weights: Weights | None = None,
    singletons: Singletons = "skip",
    reduction: Reduction = "mean",
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
    check_temperature(temperature)
    push = -(1.0 - check_margin(margin, denominator)) / temperature
    counted = _counted(labels, class_counts, key_labels, key_counts, class_weights, anchor_weights)
    return _reduced(counted, push, compare, denominator, singletons, reduction)


def collapsed_loss(
    labels: AnyLabels | None = None,
    *,
    class_counts: Counts | None = None,
    key_labels: AnyLabels | None = None,
    key_counts: Counts | None = None,
    compare: Compare = "all",
    temperature: float = 0.1,
    denominator: Denominator = "all",
    margin: float = 0.0,
    class_weights: Weights | None = None,
    anchor_weights: Weights | None = None,
    singletons: Singletons = "skip",
    reduction: Reduction = "mean",
) -> Tensor:
    """Loss of a batch in which all rows coincide: the value at which a collapsed training is stuck.

    It is log(N - 1) for `all` with N rows and keys; log(1 + M) for `sincere` and log(M) for `negatives` with M
    negatives; log(k) for `class-average` with k classes. With weights and a margin it is the floor with e^(m/tau)
    instead of e^(-(1 - m)/tau); only with a margin does it depend on the temperature. The arguments and the result are
    those of `loss_floor`.

    Examples:
        >>> collapsed_loss(class_counts=[256, 256])  # log(511)
        tensor(6.2364, dtype=torch.float64)
    """
    check_temperature(temperature)
    push = check_margin(margin, denominator) / temperature
    counted = _counted(labels, class_counts, key_labels, key_counts, class_weights, anchor_weights)
    return _reduced(counted, push, compare, denominator, singletons, reduction)


def count_classes(labels: AnyLabels, key_labels: AnyLabels | None) -> tuple[Labels, Integers, Integers]:
    """The numbered classes of rows and then keys, the rows of each class, and its keys."""
    rows, keys = label_array(labels), label_array([] if key_labels is None else key_labels)
    given = [part for part in (rows, keys) if len(part)]  # an empty list has no dtype of its own
    if len(given) == 2 and np.result_type(*given).kind == "f":  # of uint64 and int64, which would be rounded
        given = [part.astype(object) for part in given]
    found = Labels.of(np.concatenate(given) if given else rows)
    anchors = np.bincount(found.classes[: len(rows)], minlength=len(found.names))
    return found, anchors, found.counts - anchors


def weights_of(weights: Weights | None, names: Sequence[Any], name: str) -> NDArray[np.float64]:
    """The weights of classes with these labels; 1 without weights."""
    if weights is None:
        return np.ones(len(names))
    array = positive_array(weights, name)
    for label in names:
        if not isinstance(label, int) or not 0 <= label < len(array):
            raise ValueError(f"label {label!r} has no entry in {name}, which is indexed by label and has {len(array)}")
    return array[np.array(names, dtype=np.int64)]


def anchor_weights_of(weights: Weights | None, names: Sequence[Any], anchors: Integers) -> NDArray[np.float64]:
    """The anchor weights of classes; 1 of classes that have keys alone, whose labels need no weight."""
    found, has_anchors = np.ones(len(names)), anchors > 0
    with_anchors = [name for name, has in zip(names, has_anchors, strict=True) if has]
    found[has_anchors] = weights_of(weights, with_anchors, "anchor_weights")
    return found


def _counted(
    labels: AnyLabels | None,
    class_counts: Counts | None,
    key_labels: AnyLabels | None,
    key_counts: Counts | None,
    class_weights: Weights | None,
    anchor_weights: Weights | None,
) -> _Counted:
    if (labels is None) == (class_counts is None):
        raise ValueError("give labels or class_counts, one of the two")
    if (key_labels is not None and labels is None) or (key_counts is not None and class_counts is None):
        raise ValueError("key_labels go with labels, and key_counts with class_counts")
    found = None
    if class_counts is None:
        assert labels is not None
        found, anchors, keys = count_classes(labels, key_labels)
    else:
        anchors = count_array(class_counts, "class_counts")
        keys = np.zeros_like(anchors) if key_counts is None else count_array(key_counts, "key_counts")
        if len(keys) != len(anchors):
            raise ValueError(f"key_counts has {len(keys)} classes and class_counts {len(anchors)}; they must agree")
    names = range(len(anchors)) if found is None else found.names
    on_exponentials = weights_of(class_weights, names, "class_weights")
    on_anchors = anchor_weights_of(anchor_weights, names, anchors)
    return _Counted(anchors, keys, on_exponentials, on_anchors, found)


def _reduced(
    counted: _Counted, log_push: float, compare: str, denominator: str, singletons: str, reduction: str
) -> Tensor:
    """Reduce the terms of classes whose negatives weigh e^log_push, relative to their positives."""
    check_choice("compare", compare, Compare)
    check_choice("singletons", singletons, Singletons)
    check_choice("reduction", reduction, Reduction)
    rows, keys, _, _, labels = counted
    own, anchor = torch.from_numpy(counted.class_weights), torch.from_numpy(counted.anchor_weights)
    # Whole numbers up to here, because float64 would round them.
    compared, positives = (keys, keys) if compare == "keys" else (rows + keys, rows + keys - 1)
    others = all_but_own(own * _doubled(np.minimum(compared, 1) if denominator == "class-average" else compared))
    near, anchors = _doubled(positives), _doubled(rows)
    missing = near < 1
    terms = others.log() + log_push
    if denominator == "negatives":
        missing |= others == 0
    else:
        terms = torch.logaddexp((own * near.clamp(min=0) if denominator == "all" else own).log(), terms)
    terms = (anchor * terms).masked_fill(missing, 0.0)
    refused = missing & (anchors > 0)
    if singletons == "error" and bool(refused.any()):
        number = int(refused.nonzero()[0, 0])
        name = number if labels is None else labels.names[number]
        reason = 'has no positive or no negative in the batch, and singletons="error"'
        raise ValueError(f'class {name} {reason}; use "skip", or bind the class')
    if reduction == "none":
        # The numbers of the keys are behind those of the rows.
        return terms if labels is None else terms[labels.classes[: int(rows.sum())]]
    loss = (terms * anchors).sum()
    averaged = anchor * (anchors if singletons == "count" else anchors.masked_fill(missing, 0.0))
    return loss if reduction == "sum" or not bool((averaged > 0).any()) else loss / averaged.sum()


def _doubled(counts: Integers) -> Tensor:
    return torch.from_numpy(counts.astype(np.float64))
