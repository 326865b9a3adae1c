"""What a gap above the floor says about angles, how fast it closes, and at which temperature fastest."""

import math

import torch
from torch import Tensor

from orthoframe.losses._checks import check_options
from orthoframe.losses._options import Denominator

Number = float | Tensor


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
    check_options(temperature, denominator, "skip")
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
    check_options(temperature, denominator, "skip")
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
    check_options(1.0, denominator, "skip")
    if denominator == "negatives":
        raise ValueError('denominator="negatives" has no fastest temperature: its forces scale as 1/tau')
    from scipy.special import lambertw  # here, because importing orthoframe should not load scipy

    positives, negatives = _doubles(positives, negatives)
    rho = negatives / positives if denominator == "all" else negatives + torch.zeros_like(positives)
    return 1.0 / (1.0 + torch.as_tensor(lambertw((rho / math.e).numpy()).real))


def _log_share(positives: Number, negatives: Number, temperature: float, denominator: str) -> Tensor:
    """Logarithm of q, the part of the denominator that negatives hold at the orthogonal frame."""
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
