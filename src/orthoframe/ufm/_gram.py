"""Where training ends if features may be negative: the optimal Gram matrix of class means."""

import reprlib

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, minres
from torch import Tensor
from torch.nn.functional import normalize

from orthoframe._rows import Counts, Weights, count_array, per_class
from orthoframe.errors import OptionError
from orthoframe.options import TEMPERATURE, Denominator, check_margin, check_temperature

# Newton's method ends with a step that changes no cosine by more than _STILL.
_STILL, _STARTS, _NEWTON_STEPS = 1e-9, 5, 60
# Relative differences of values, and relative curvatures, that count as zero.
_ROUNDING, _LEVEL = 1e-14, 1e-12
# Up to _DENSE unknowns the Hessian is a matrix. Beyond, only its products with vectors are computed, which is fast but
# may end at a saddle: after _IN_VAIN steps it becomes a matrix all the same, up to _LARGEST unknowns.
_DENSE, _IN_VAIN, _LARGEST = 1000, 8, 2500
# The relative residual of a system that is solved by products, and their largest number.
_RESIDUAL, _PRODUCTS = 1e-6, 3000


@torch.inference_mode(False)
@torch.enable_grad()
def predict_gram(
    class_counts: Counts,
    *,
    temperature: float = TEMPERATURE,
    denominator: Denominator = "all",
    margin: float = 0.0,
    class_weights: Weights | None = None,
    anchor_weights: Weights | None = None,
) -> Tensor:
    r"""Gram matrix of class means at the optimum of free unit features that may be negative.

    At the optimum, rows of a class coincide, and the loss of one batch with n_c rows of class c depends only on the
    Gram matrix G of the classes. With `denominator="all"` it is

        sum_c n_c log((n_c - 1) e^(1/tau) + sum_{c' != c} n_c' e^(G_cc'/tau)) - n_c/tau

    which is convex in G and minimised over positive semi-definite G with unit diagonal. It stays convex with a margin
    and with weights, but where an orthogonal frame does not depend on them, this optimum does. Classes of equal count
    and weights are interchangeable, so the size of the problem is the number of different ones: a thousand classes of
    ten different counts take a fraction of a second, and more than about forty may take minutes. Balanced classes give
    the simplex ETF; with imbalance, the small classes crowd together. Features need as many dimensions as classes.

    Args:
        class_counts: `[k]`, rows of each class. The row of a class of one is a negative of the others but not an
            anchor, so the loss does not determine the cosines among such classes.
        temperature: tau, from 0.001 to 1e6.
        denominator: As in `supcon_loss`.
        margin: As in `supcon_loss`.
        class_weights: `[k]`, as in `supcon_loss`.
        anchor_weights: `[k]`, as in `supcon_loss`.

    Returns:
        `[k, k]`, float64; the cosines of class means, exact to about 1e-9.

    Raises:
        ValueError: For an argument that is not allowed.
        TypeError: For counts that are not integers.
        RuntimeError: If the optimum was not found to that accuracy.

    Examples:
        >>> predict_gram([50, 50, 5, 5], temperature=1.0)[0]
        tensor([ 1.0000, -0.8954, -0.2012, -0.2012], dtype=torch.float64)
    """
    temperature, margin = check_temperature(temperature), check_margin(margin, denominator)
    counts = _counts(class_counts)
    weights = per_class(class_weights, len(counts), "class_weights")
    anchor_weights = per_class(anchor_weights, len(counts), "anchor_weights")
    if len(counts) == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    if not bool((counts > 1).any()):
        raise OptionError("every class has a single row: there is no anchor, and the loss decides nothing")
    groups = _Groups(torch.stack([counts.double(), weights, anchor_weights]), temperature, denominator, margin)
    for start in range(_STARTS):
        point, change = _descend(groups, seed=start)
        if change <= _STILL:
            return groups.gram(point)
    raise RuntimeError(
        f"no optimum was found to {_STILL} for counts {reprlib.repr(counts.tolist())} at temperature {temperature}; "
        "fewer different counts, or another temperature, may help"
    )


def gram_loss(
    gram: Tensor,
    class_counts: Tensor,
    *,
    temperature: float,
    denominator: Denominator,
    margin: float = 0.0,
    class_weights: Weights | None = None,
    anchor_weights: Weights | None = None,
) -> float:
    """Loss, in sum form, of one batch in which rows of a class coincide, from the Gram matrix of the classes."""
    counts, k = class_counts.double(), len(class_counts)
    weights = per_class(class_weights, k, "class_weights")
    positives = {"all": counts - 1, "negatives": torch.zeros_like(counts)}.get(denominator, torch.ones_like(counts))
    rows = (weights if denominator == "class-average" else weights * counts).log() + margin / temperature
    table = rows.expand(k, -1).clone()
    table.diagonal().copy_((weights * positives).log())
    terms = torch.logsumexp(table + (gram - 1) / temperature, 1)
    return float((per_class(anchor_weights, k, "anchor_weights") * counts * terms)[counts > 1].sum())


class _Groups:
    """The loss as a function of one vector for each group of classes of equal count and weights.

    The class means of a group are p_g plus a part that is orthogonal to everything outside the group: their cosine to
    other groups is p_g.p_h, and |p_g|^2 = (1 + (k_g - 1) a_g)/k_g, where a_g is the cosine within the group and k_g its
    size. p_g lies in the unit ball: it is the first part of a unit vector, whose last entry is left out where k_g = 1,
    so that |p_g| = 1.
    """

    def __init__(self, classes: Tensor, temperature: float, denominator: Denominator, margin: float) -> None:
        kinds, self.group, sizes = torch.unique(classes, dim=1, return_inverse=True, return_counts=True)
        rows, class_weights, anchor_weights = kinds
        self.sizes: Tensor = sizes.double()
        self.temperature, self.logarithm = temperature, denominator != "negatives"
        weights = class_weights * (torch.ones_like(rows) if denominator == "class-average" else rows)
        positives = class_weights * (rows - 1 if denominator == "all" else torch.ones_like(rows))
        self.anchors = rows > 1
        force = self.sizes * rows * anchor_weights
        self.log_force = force[self.anchors].log()
        self.log_positives = positives[self.anchors].log() - margin / temperature
        others = weights * (self.sizes - torch.eye(len(rows), dtype=torch.float64))
        self.log_weights = others[self.anchors].log()  # -inf where a group has no other class
        # The force on a group grows with its rows: on this scale, unknowns have comparable curvatures.
        self.scale: Tensor = force.sqrt()[:, None]
        self.shape = (len(rows), len(rows) + 1)

    def cosines(self, point: Tensor) -> Tensor:
        """`[groups, groups]`: cosines of classes in two groups; on the diagonal, of two classes in one."""
        extra = point[:, -1:].masked_fill((self.sizes == 1)[:, None], 0.0)
        free = torch.cat([point[:, :-1], extra], 1)
        shared = (free / torch.linalg.vector_norm(free, dim=1, keepdim=True))[:, :-1]
        between = shared @ shared.T
        within = (self.sizes * between.diagonal() - 1) / (self.sizes - 1).clamp(min=1)
        return torch.diagonal_scatter(between, within)

    def __call__(self, point: Tensor) -> Tensor:
        """The logarithm of the loss above its lowest conceivable value; for `negatives`, the loss."""
        cosines = self.cosines(point)[self.anchors]
        pushed = torch.logsumexp(self.log_weights + (cosines - 1) / self.temperature, 1)
        if not self.logarithm:
            return torch.dot(self.log_force.softmax(0), pushed)
        share = pushed - self.log_positives
        # log(log(1 + e^share)), which is share where that is far below 0
        terms = torch.where(share < -36, share, torch.logaddexp(share.clamp(min=-36), torch.zeros_like(share)).log())
        return torch.logsumexp(self.log_force + terms, 0)

    def gram(self, point: Tensor) -> Tensor:
        """`[k, k]`, the Gram matrix of all classes."""
        gram: Tensor = self.cosines(point)[self.group][:, self.group]
        return gram.fill_diagonal_(1.0)


def _descend(groups: _Groups, seed: int) -> tuple[Tensor, float]:
    """L-BFGS from a random start, then Newton steps; the point, and the largest change of a cosine in the last step."""

    def slope(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        point = torch.from_numpy(flat.copy()).view(groups.shape).requires_grad_()
        value = groups(point / groups.scale)
        (gradient,) = torch.autograd.grad(value, point)
        return float(value.detach()), gradient.reshape(-1).numpy()

    start = torch.randn(groups.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-8, "maxcor": 30}
    start = groups.scale * normalize(start, dim=1)
    result = minimize(slope, start.reshape(-1).numpy(), jac=True, method="L-BFGS-B", options=options)
    point = normalize(torch.from_numpy(result.x).view(groups.shape), dim=1)
    for number in range(_NEWTON_STEPS):
        value = float(groups(point))
        dense = point.numel() <= (_DENSE if number < _IN_VAIN else _LARGEST)
        step = _newton_step(groups, point, dense)
        while float(groups(point + step)) > value + _ROUNDING * (1 + abs(value)):
            step = step / 4
        moved = point + step
        change = float((groups.cosines(moved) - groups.cosines(point)).abs().max())
        point = normalize(moved, dim=1)
        if change <= _STILL:
            break
    return point, change


def _newton_step(groups: _Groups, point: Tensor, dense: bool) -> Tensor:
    """A step by the inverse Hessian; not along rotations and lengths, which change nothing."""
    scaled = (point * groups.scale).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(groups(scaled / groups.scale), scaled, create_graph=True)

    def product(flat: Tensor) -> Tensor:
        result: Tensor = torch.autograd.grad(gradient, scaled, flat.view_as(scaled), retain_graph=True)[0]
        return result.reshape(-1)

    size, slope = scaled.numel(), gradient.detach().reshape(-1)
    if dense:
        hessian = torch.vmap(product)(torch.eye(size, dtype=scaled.dtype)).reshape(size, size)
        values, vectors = torch.linalg.eigh((hessian + hessian.T) / 2)
        flat = values.abs() <= _LEVEL * values.abs().max()
        step: Tensor = vectors @ (values.abs().reciprocal().masked_fill(flat, 0.0) * (vectors.T @ -slope))
    else:
        operator = LinearOperator((size, size), matvec=lambda v: product(torch.from_numpy(v.copy())).numpy())
        step = torch.from_numpy(minres(operator, -slope.numpy(), rtol=_RESIDUAL, maxiter=_PRODUCTS)[0])
    return step.view_as(scaled) / groups.scale


def _counts(class_counts: Counts) -> Tensor:
    counts = count_array(class_counts)
    if not len(counts):
        raise ValueError("class_counts must be a list of at least one count, not an empty one")
    if counts.min() < 1:
        raise ValueError("class_counts must be at least 1, not 0; leave out classes without rows")
    return torch.from_numpy(counts)
