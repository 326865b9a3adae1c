"""The supervised contrastive loss of one batch."""

import torch
from torch import Tensor

from orthoframe.losses._checks import check_keys, check_options, check_rows
from orthoframe.losses._core import Form
from orthoframe.losses._options import Denominator, Reduction, Singletons
from orthoframe.losses._terms import Average, supcon_terms, supcon_total


def supcon_loss(
    features: Tensor,
    labels: Tensor,
    *,
    keys: Tensor | None = None,
    key_labels: Tensor | None = None,
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

    for `denominator="all"`; the other denominators change the sum under the logarithm. An anchor without a positive
    has no term, though it is still a negative of the others. Nor has any anchor one with `denominator="negatives"` in a
    batch of a single class. If no anchor has a term the loss is 0 and its gradient zero.

    Memory grows with the rows, never with their square; rows in half precision are computed in float32, others in
    their own dtype. A row of zeros has no direction: its similarities are 0 and its gradient is zero.

    Args:
        features: `[rows, dim]`, any floating dtype. Several views of a sample are several rows.
        labels: `[rows]`, any integers.
        keys: `[keys, dim]`, further rows that anchors are compared with but that are not anchors themselves: fixed
            prototypes, a queue, rows of other processes. They get a gradient if they require one.
        key_labels: `[keys]`, the classes of the keys.
        temperature: tau > 0.
        denominator: `"all"` (the paper's), `"sincere"`, `"negatives"` or `"class-average"`; see `Denominator`.
        singletons: What to do with anchors that have no term: `"skip"` leaves them out of the mean, `"count"` keeps
            them as zeros, `"error"` raises and names the class and position.
        reduction: `"mean"`, `"sum"`, or `"none"` for the term of each row (0 where it has none).
        normalize: Whether to divide each row by its norm first. Without it rows are taken as they are, and should be
            unit already; the diagonal is still left out, but floors and bounds no longer apply to other rows.

    Returns:
        A scalar, or `[rows]` with `reduction="none"`.

    Raises:
        TypeError: For a wrong dtype or type.
        ValueError: For a wrong shape or option, or a singleton with `singletons="error"`.

    Examples:
        >>> import torch
        >>> frame = torch.eye(2).repeat_interleave(2, 0)  # two classes, two rows each, an orthogonal frame
        >>> supcon_loss(frame, torch.tensor([0, 0, 1, 1]), temperature=1.0, reduction="sum")
        tensor(2.2058)
        >>> supcon_loss(frame, torch.tensor([0, 1, 2, 3]))  # no positives: nothing to learn
        tensor(0.)
    """
    check_options(temperature, denominator, singletons, reduction)
    form = Form(
        temperature=float(temperature),
        denominator=denominator,
        forbid_singletons=singletons == "error",
        normalize=normalize,
        key_gradient=keys is not None and keys.requires_grad,
    )
    rows, all_labels = joined_rows(features, labels, keys, key_labels)
    if reduction == "none":
        return supcon_terms(rows, all_labels, features.shape[0], form)[0]
    average: Average = "none" if reduction == "sum" else "all" if singletons == "count" else "present"
    return supcon_total(rows, all_labels, features.shape[0], form, average)[0]


def joined_rows(
    features: Tensor, labels: Tensor, keys: Tensor | None, key_labels: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Anchors and then keys, checked, in the dtype in which they are computed."""
    labels = check_rows(features, labels)
    key_labels = check_keys(features, keys, key_labels)
    rows = features
    if keys is not None and key_labels is not None:
        dtype = torch.promote_types(features.dtype, keys.dtype)
        rows, labels = torch.cat([features.to(dtype), keys.to(dtype)]), torch.cat([labels, key_labels])
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows, labels
