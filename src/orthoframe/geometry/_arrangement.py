"""How class means are arranged: distances to a frame and to an ETF, pairs of classes, and what counts as a frame."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from orthoframe._rows import unit_rows
from orthoframe.errors import Coded
from orthoframe.options import FRAME_COSINE, FRAME_DISTANCE, FRAME_RATIO

COLLAPSE = 0.01
"""Classes are collapsed up to this `beta_nc` and `spread`, if `CLASS_COLLAPSE` agrees."""
CLASS_COLLAPSE = 0.1
"""No collapsed class has a larger spread: that of one class of ten that are at `COLLAPSE` on average."""
COINCIDENCE = 1e-4
"""Class means coincide if they differ, on average, by at most this part of their squared length."""
_BLOCK = 2**22  # products of class means that are computed together


class Arrangement(Coded):
    """How class means are arranged; the sentence of each member lacks its full stop."""

    ONE_CLASS = "one-class", "One class: there is nothing to compare"
    COINCIDENT = "coincident", "Class means coincide: there is nearly nothing between classes"
    FRAME = "frame", "Class means form an orthogonal frame"
    ETF = "etf", "Class means form a simplex ETF, not an orthogonal frame"
    NEITHER = "neither", "Class means form neither an orthogonal frame nor a simplex ETF"


def is_frame(delta_of: float, max_cosine: float, norm_ratio: float = 1.0, min_cosine: float = 0.0) -> bool:
    """Whether class means are an orthogonal frame: the one definition, for embeddings, runs and studies.

    Args:
        delta_of: Distance of their Gram matrix to that of a frame.
        max_cosine: The largest of a pair; NaN if there is no pair.
        norm_ratio: The longest mean over the shortest.
        min_cosine: The smallest of a pair, which features that are not negative need not look at.

    Examples:
        >>> is_frame(0.05, max_cosine=1.0)  # 800 classes, two of which coincide
        False
    """
    near = max_cosine > FRAME_COSINE or min_cosine < -FRAME_COSINE  # False for NaN
    return delta_of <= FRAME_DISTANCE and not near and norm_ratio <= FRAME_RATIO


def frame_distance(means: Tensor) -> float:
    """Delta_GM: the distance of the Gram matrix of `[k, d]` means to that of an orthogonal frame."""
    k = len(means)
    return _distance(means, k, frame_gram(k) if k <= means.shape[1] else None)


def etf_distance(means: Tensor) -> float:
    """The distance of the Gram matrix of centred means `[k, d]` to that of a simplex ETF; NaN for one class."""
    k, centred = len(means), means - means.mean(0)
    if k < 2:
        return math.nan
    return _distance(centred, k - 1, etf_gram(k) if k - 1 <= means.shape[1] else None)


def _distance(means: Tensor, rank: int, target: Tensor | None) -> float:
    """|| G/|G| - P/|P| ||, G the Gram matrix of means and P a projector of this rank.

    Without a target matrix the means have too few dimensions for that rank; their rows lie in the range of P, and
    tr(GP) = tr(G). The distance is then far from 0, and its square no small difference, so that products of dimensions
    instead of classes suffice.
    """
    if target is not None:
        return distance_to_gram(means @ means.T, target)
    norm = float(torch.linalg.norm(means.T @ means))
    return math.sqrt(2 - 2 * float(means.square().sum()) / (norm * math.sqrt(rank))) if norm else math.nan


def distance_to_gram(gram: Tensor, target: Tensor) -> float:
    """|| G/|G| - T/|T| || of two matrices `[k, k]`, Frobenius norms, between 0 and 2.

    It is 0 if G is a positive multiple of T, and NaN if one of them is zero.

    Examples:
        >>> distance_to_gram(3 * torch.eye(4), torch.eye(4))
        0.0
    """
    return float(torch.linalg.norm(gram / torch.linalg.norm(gram) - target / torch.linalg.norm(target)))


def classifier_distance(weights: Tensor, means: Tensor) -> float:
    """NC3 (Papyan et al.): || W/|W| - M/|M| ||, Frobenius norms, M the class means less their unweighted mean.

    It is 0 if the weights are a positive multiple of the centred means, 2 if a negative one, and NaN if one of them is
    zero.

    Examples:
        >>> classifier_distance(torch.tensor([[3.0, -3.0], [-3.0, 3.0]]), torch.eye(2))
        0.0
    """
    return distance_to_gram(weights, means - means.mean(0))


def frame_gram(k: int) -> Tensor:
    """Gram matrix of an orthogonal frame of k classes."""
    return torch.eye(k, dtype=torch.float64)


def etf_gram(k: int) -> Tensor:
    """Gram matrix of a simplex equiangular tight frame of k classes."""
    return torch.eye(k, dtype=torch.float64) - 1.0 / k


def coincide(means: Tensor) -> bool:
    """Whether class means `[k, d]` are one point, up to `COINCIDENCE`."""
    centred = means - means.mean(0)
    return float(centred.square().sum()) <= COINCIDENCE * float(means.square().sum())


def cosine_blocks(means: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Cosines of class means, each pair once: the first row of a block, and the block; NaN at and below the diagonal.

    The means of zero have a NaN everywhere. No more than a few million cosines are in memory at once.
    """
    directions, inverse_norms = unit_rows(means)
    directions = directions.masked_fill(inverse_norms == 0, math.nan)
    step, k = max(1, _BLOCK // len(means)), len(means)
    columns = torch.arange(k, device=means.device)
    for start in range(0, k, step):
        block = directions[start : start + step] @ directions.T
        yield start, block.masked_fill_(columns <= columns[start : start + step, None], math.nan)


def pair_cosines(means: Tensor) -> tuple[float, float]:
    """The mean and the largest cosine of two class means; NaN if fewer than two are not zero."""
    total, pairs, largest = 0.0, 0, -math.inf
    for _, block in cosine_blocks(means):
        present = ~block.isnan()
        total, pairs = total + float(block.nansum()), pairs + int(present.sum())
        largest = max(largest, float(block.nan_to_num(nan=-math.inf).max()))
    return (total / pairs, largest) if pairs else (math.nan, math.nan)


def smallest_cosine(means: Tensor) -> float:
    """The smallest cosine of two class means; NaN if fewer than two are not zero."""
    smallest = min(float(block.nan_to_num(nan=math.inf).min()) for _, block in cosine_blocks(means))
    return smallest if smallest < math.inf else math.nan


def near_pairs(means: Tensor, cosine: float) -> Tensor:
    """`[2, pairs]`: classes whose means have a larger cosine than this, the first of each pair before the second."""
    pairs = [(block > cosine).nonzero() + torch.tensor([start, 0]) for start, block in cosine_blocks(means)]
    return torch.cat(pairs).T
