"""What a gap above the floor says about angles, and how fast it closes."""

import math

import torch
from torch import Tensor

from orthoframe.errors import Option, OptionError
from orthoframe.options import TEMPERATURE, Denominator, check_margin, check_temperature

Number = float | Tensor


def angle_bound(
    gap: Number,
    positives: Number,
    negatives: Number,
    *,
    temperature: float = TEMPERATURE,
    denominator: Denominator = "all",
    margin: float = 0.0,
    own_weight: Number = 1.0,
) -> Tensor:
    r"""Largest deviation from an orthogonal frame that a gap above the floor allows.

    For the anchors of one class in a batch, let D be the mean of (1 - mean cosine to positives + mean cosine to
    negatives): 0 at an orthogonal frame. If the mean of their terms is `gap` above the floor, then

        D <= tau log(1 + (e^gap - 1)/q),   q = M/(w P x + M),   x = e^((1 - m)/tau)

    for `all`, with P positives and M negatives of an anchor, the margin m, and the weight w of its class; q = M/(w x +
    M) for `sincere`, 1 for `negatives`, and K/(w x + K) with K other classes for `class-average`, where the cosines to
    negatives are averaged class by class. With class weights, M and K are sums of weights, and the cosines to negatives
    are averaged with them. q is small at small temperatures: a gap only proves something if it is below q.

    The frame term of a row of class y has the bound of one positive, `positives=1`, with `own_weight=q_y` and
    `negatives=1 - q_y`, q_y being the share of its class; the cosines are those to the rows of the frame, and the bound
    holds for each row alone.

    Args:
        gap: Mean term minus floor, in float64, before anchor weights; rounding errors below 0 count as 0.
        positives: P, rows and keys of the anchor's class without the anchor.
        negatives: M, rows and keys of other classes, or the sum of their weights; for `class-average` the number of
            other classes, or the sum of their weights.
        temperature: tau, from 0.001 to 1e6.
        denominator: Which loss it is.
        margin: m, as in `supcon_loss`.
        own_weight: w, the class weight of the anchor's class.

    Returns:
        The bound, float64, broadcast over the arguments; infinite without negatives.

    Examples:
        >>> angle_bound(1e-4, positives=49, negatives=450)
        tensor(0.0215, dtype=torch.float64)
        >>> angle_bound(1e-4, positives=49, negatives=450, margin=0.5)  # sharper
        tensor(0.0002, dtype=torch.float64)
    """
    gap = torch.as_tensor(gap, dtype=torch.float64, device="cpu").clamp(min=0.0)
    share = _log_share(positives, negatives, own_weight, temperature, margin, denominator)
    # log((e^gap - 1)/q), where e^gap and q may both be out of range
    ratio = gap + torch.log(-torch.expm1(-gap)) - share
    bound = temperature * torch.logaddexp(ratio, torch.zeros_like(ratio))
    return torch.where(share == -torch.inf, torch.inf, bound)


def decay_rate(
    positives: Number,
    negatives: Number,
    *,
    temperature: float = TEMPERATURE,
    denominator: Denominator = "all",
    margin: float = 0.0,
    own_weight: Number = 1.0,
    fixed: bool = False,
) -> Tensor:
    r"""Rate at which the spread of a class decays near the orthogonal frame.

    Under the gradient flow of the loss in sum form, free features of a class with P + 1 rows approach their mean as
    e^(-rate t), with

        rate = 2 (P + 1)/P q/tau

    and q as in `angle_bound`. If the positives are fixed, a row approaches them at the rate q/tau: it moves alone, and
    nothing moves towards it. That is the rate of the frame term, with the arguments that `angle_bound` describes, and
    of keys with `compare="keys"`. An anchor weight multiplies the rate. The gap between the loss and its floor closes
    twice as fast.

    Args:
        positives: P, rows of the anchor's class without the anchor.
        negatives: As in `angle_bound`.
        temperature: As in `angle_bound`.
        denominator: As in `angle_bound`.
        margin: As in `angle_bound`.
        own_weight: As in `angle_bound`.
        fixed: Whether the positives stay where they are: a row of a fixed frame, or keys.

    Returns:
        The rate, float64; 0 without negatives.

    Examples:
        >>> decay_rate(positives=49, negatives=450, temperature=0.476)
        tensor(2.2685, dtype=torch.float64)
    """
    near, _ = _doubles(positives, negatives)
    share = _log_share(positives, negatives, own_weight, temperature, margin, denominator).exp()
    return share / temperature * (1.0 if fixed else 2 * (near + 1) / near)


def fastest_temperature(
    positives: Number,
    negatives: Number,
    *,
    denominator: Denominator = "all",
    margin: float = 0.0,
    own_weight: Number = 1.0,
) -> Tensor:
    r"""Temperature at which free features near the orthogonal frame approach it fastest.

    All forces near the frame scale as q/tau, q as in `angle_bound`. With rho = M/(w P) (`all`), M/w (`sincere`) or K/w
    (`class-average`) they are largest at

        tau = (1 - m)/(1 + W(rho/e)),   W Lambert's function.

    A network may need a smaller temperature at first, because a large one can merge classes before they are separated.
    Without negatives there is no force, and the limit of the formula, 1 - m, is returned.

    Args:
        positives: As in `angle_bound`.
        negatives: As in `angle_bound`.
        denominator: As in `angle_bound`.
        margin: As in `angle_bound`; below 1.
        own_weight: As in `angle_bound`.

    Returns:
        The temperature, float64.

    Raises:
        OptionError: For `denominator="negatives"` and for margins of 1 or more, with which forces grow without bound
            as the temperature falls.

    Examples:
        >>> fastest_temperature(positives=1, negatives=torch.tensor([1, 9, 100, 1000]))
        tensor([0.7822, 0.4760, 0.2750, 0.1845], dtype=torch.float64)
    """
    room = 1.0 - check_margin(margin, denominator)
    if denominator == "negatives" or room <= 0:
        option = Option("denominator", denominator) if denominator == "negatives" else Option("margin", margin)
        raise OptionError(option, " has no fastest temperature: its forces grow without bound as the temperature falls")
    from scipy.special import lambertw  # here, because importing orthoframe should not load scipy

    near, far = _doubles(positives, negatives)
    rho = far / _attached(near, own_weight, denominator)
    return room / (1.0 + torch.as_tensor(lambertw((rho / math.e).numpy()).real))


def _log_share(
    positives: Number, negatives: Number, own_weight: Number, temperature: float, margin: float, denominator: str
) -> Tensor:
    """Logarithm of q, the share of the negatives in the denominator at the orthogonal frame."""
    check_temperature(temperature)
    room = 1.0 - check_margin(margin, denominator)
    near, far = _doubles(positives, negatives)
    attached = _attached(near, own_weight, denominator)
    pushed = far.log() - room / temperature + torch.zeros_like(attached)
    if denominator == "negatives":
        return torch.where(pushed > -torch.inf, 0.0, -torch.inf)
    return pushed - torch.logaddexp(attached.log(), pushed)


def _attached(near: Tensor, own_weight: Number, denominator: str) -> Tensor:
    """What the positives weigh in the denominator, before their exponential."""
    weight = torch.as_tensor(own_weight, dtype=torch.float64, device="cpu")
    if not bool(((weight > 0) & weight.isfinite()).all()):
        raise ValueError("own_weight must be positive and finite")
    return weight * (near if denominator == "all" else torch.ones_like(near))


def _doubles(positives: Number, negatives: Number) -> tuple[Tensor, Tensor]:
    near, far = (torch.as_tensor(count, dtype=torch.float64, device="cpu") for count in (positives, negatives))
    if not bool((near >= 1).all()) or not bool((far >= 0).all()):  # NaN is refused too
        raise ValueError("positives must be at least 1, and negatives at least 0")
    return near, far
