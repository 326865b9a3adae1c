"""How low the loss can go, what it is at a collapse, what a gap says about angles, and how fast it closes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Integers, Labels, count_array, label_array
from orthoframe.errors import Option, OptionError
from orthoframe.options import Denominator, Reduction, Singletons, check_choice, check_temperature

AnyLabels = Tensor | NDArray[Any] | Sequence[Any]
Counts = Tensor | NDArray[Any] | Sequence[int]
Number = float | Tensor
# Anchors and keys of each class, [k]; and the numbered labels, if labels were given, not counts.
_Counted = tuple[Integers, Integers, Labels | None]


def loss_floor(
    labels: AnyLabels | None = None,
    *,
    class_counts: Counts | None = None,
    key_labels: AnyLabels | None = None,
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
    sizes. Features need at least as many dimensions as there are classes. The floor of several batches is the sum of
    their floors. Features with negative entries can go lower.

    Args:
        labels: `[rows]`, the class of each row (not counts: `[2, 2]` is two rows of class 2); or give `class_counts`.
        class_counts: `[k]`, rows of each class.
        key_labels: `[keys]`, classes of the rows that are not anchors; with `labels`.
        key_counts: `[k]`, the same as counts; with `class_counts`.
        temperature: tau, from 0.001 to 1e6.
        denominator: As in `supcon_loss`.
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
    counted = _counted(labels, class_counts, key_labels, key_counts)
    return _reduced(counted, -1.0 / temperature, denominator, singletons, reduction)


def collapsed_loss(
    labels: AnyLabels | None = None,
    *,
    class_counts: Counts | None = None,
    key_labels: AnyLabels | None = None,
    key_counts: Counts | None = None,
    denominator: Denominator = "all",
    singletons: Singletons = "skip",
    reduction: Reduction = "mean",
) -> Tensor:
    """Loss of a batch in which all rows coincide: the value at which a collapsed training is stuck.

    At every temperature it is log(N - 1) for `all` with N rows and keys; log(1 + M) for `sincere` and log(M) for
    `negatives` with M negatives; log(k) for `class-average` with k classes. The arguments and the result are those of
    `loss_floor`.

    Examples:
        >>> collapsed_loss(class_counts=[256, 256])  # log(511)
        tensor(6.2364, dtype=torch.float64)
    """
    counted = _counted(labels, class_counts, key_labels, key_counts)
    return _reduced(counted, 0.0, denominator, singletons, reduction)


def angle_bound(
    gap: Number, positives: Number, negatives: Number, *, temperature: float = 0.1, denominator: Denominator = "all"
) -> Tensor:
    r"""Largest deviation from an orthogonal frame that a gap above the floor allows.

    For the anchors of one class in a batch, let D be the mean of (1 - mean cosine to positives + mean cosine to
    negatives): 0 at an orthogonal frame. If the mean of their terms is `gap` above the floor, then

        D <= tau log(1 + (e^gap - 1)/q),   q = M/(P x + M),   x = e^(1/tau)

    for `all`, with P positives and M negatives of an anchor; q = M/(x + M) for `sincere`, 1 for `negatives`, and
    (k - 1)/(x + k - 1) for `class-average`, where the cosines to negatives are averaged class by class. q is small at
    small temperatures: a gap only proves something if it is below q.

    Args:
        gap: Mean term minus floor, in float64; rounding errors below 0 count as 0.
        positives: P, rows and keys of the anchor's class without the anchor.
        negatives: M, rows and keys of other classes; for `class-average` the number of other classes.
        temperature: tau, from 0.001 to 1e6.
        denominator: Which loss it is.

    Returns:
        The bound, float64, broadcast over the arguments; infinite without negatives.

    Examples:
        >>> angle_bound(1e-4, positives=49, negatives=450)
        tensor(0.0215, dtype=torch.float64)
    """
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

    and q as in `angle_bound`. The gap between the loss and its floor closes twice as fast.

    Args:
        positives: P, rows of the anchor's class without the anchor.
        negatives: M, rows of other classes; for `class-average` the number of other classes.
        temperature: tau, from 0.001 to 1e6.
        denominator: Which loss it is.

    Returns:
        The rate, float64; 0 without negatives.

    Examples:
        >>> decay_rate(positives=49, negatives=450, temperature=0.476)
        tensor(2.2685, dtype=torch.float64)
    """
    near, _ = _doubles(positives, negatives)
    return 2 * (near + 1) / near * _log_share(positives, negatives, temperature, denominator).exp() / temperature


def fastest_temperature(positives: Number, negatives: Number, *, denominator: Denominator = "all") -> Tensor:
    r"""Temperature at which free features near the orthogonal frame approach it fastest.

    All forces near the frame scale as q/tau, q as in `angle_bound`. With rho = M/P (`all`), M (`sincere`) or k - 1
    (`class-average`) they are largest at

        tau = 1/(1 + W(rho/e)),   W Lambert's function.

    A network may need a smaller temperature at first, because a large one can merge classes before they are separated.
    Without negatives there is no force, and the limit of the formula, 1, is returned.

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
        raise OptionError(Option("denominator", denominator), " has no fastest temperature: its forces scale as 1/tau")
    from scipy.special import lambertw  # here, because importing orthoframe should not load scipy

    near, far = _doubles(positives, negatives)
    rho = far / (near if denominator == "all" else torch.ones_like(near))
    return 1.0 / (1.0 + torch.as_tensor(lambertw((rho / math.e).numpy()).real))


def count_classes(labels: AnyLabels, key_labels: AnyLabels | None) -> tuple[Labels, Integers, Integers]:
    """The numbered classes of rows and then keys, the rows of each class, and its keys."""
    rows, keys = label_array(labels), label_array([] if key_labels is None else key_labels)
    given = [part for part in (rows, keys) if len(part)]  # an empty list has no dtype of its own
    if len(given) == 2 and np.result_type(*given).kind == "f":  # of uint64 and int64, which would be rounded
        given = [part.astype(object) for part in given]
    found = Labels.of(np.concatenate(given) if given else rows)
    anchors = np.bincount(found.classes[: len(rows)], minlength=len(found.names))
    return found, anchors, found.counts - anchors


def _counted(
    labels: AnyLabels | None, class_counts: Counts | None, key_labels: AnyLabels | None, key_counts: Counts | None
) -> _Counted:
    if (labels is None) == (class_counts is None):
        raise ValueError("give labels or class_counts, one of the two")
    if (key_labels is not None and labels is None) or (key_counts is not None and class_counts is None):
        raise ValueError("key_labels go with labels, and key_counts with class_counts")
    if class_counts is None:
        assert labels is not None
        found, rows, extra = count_classes(labels, key_labels)
        return rows, extra, found
    anchors = count_array(class_counts, "class_counts")
    keys = np.zeros_like(anchors) if key_counts is None else count_array(key_counts, "key_counts")
    if len(keys) != len(anchors):
        raise ValueError(f"key_counts has {len(keys)} classes and class_counts {len(anchors)}; they must agree")
    return anchors, keys, None


def _reduced(counted: _Counted, log_push: float, denominator: str, singletons: str, reduction: str) -> Tensor:
    """Reduce the terms of classes whose negatives weigh e^log_push, relative to their positives."""
    check_choice("denominator", denominator, Denominator)
    check_choice("singletons", singletons, Singletons)
    check_choice("reduction", reduction, Reduction)
    rows, keys, labels = counted
    whole = rows + keys
    # Sums and differences of whole numbers, because float64 would round them.
    positives, negatives, anchors = map(_doubled, (whole - 1, whole.sum() - whole, rows))
    push, missing = math.exp(log_push), positives < 1
    if denominator == "all":
        terms = (positives + negatives * push).log()
    elif denominator == "sincere":
        terms = (negatives * push).log1p()
    elif denominator == "negatives":
        terms = negatives.log() + log_push
        missing |= negatives == 0
    else:
        other_classes = int((positives >= 0).sum()) - 1
        terms = torch.full_like(positives, math.log1p(other_classes * push))
    terms = terms.masked_fill(missing, 0.0)
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
    if reduction == "sum":
        return loss
    averaged = anchors if singletons == "count" else anchors.masked_fill(missing, 0.0)
    return loss / averaged.sum().clamp(min=1)


def _doubled(counts: Integers) -> Tensor:
    return torch.from_numpy(counts.astype(np.float64))


def _log_share(positives: Number, negatives: Number, temperature: float, denominator: str) -> Tensor:
    """Logarithm of q, the share of the negatives in the denominator at the orthogonal frame."""
    check_temperature(temperature)
    check_choice("denominator", denominator, Denominator)
    near, far = _doubles(positives, negatives)
    if denominator != "all":
        near = torch.ones_like(near)
    pushed = far.log() - 1.0 / temperature + torch.zeros_like(near)
    if denominator == "negatives":
        return torch.where(pushed > -torch.inf, 0.0, -torch.inf)
    return pushed - torch.logaddexp(near.log(), pushed)


def _doubles(positives: Number, negatives: Number) -> tuple[Tensor, Tensor]:
    near, far = (torch.as_tensor(count, dtype=torch.float64, device="cpu") for count in (positives, negatives))
    if not bool((near >= 1).all()) or not bool((far >= 0).all()):  # NaN is refused too
        raise ValueError("positives must be at least 1, and negatives at least 0")
    return near, far
