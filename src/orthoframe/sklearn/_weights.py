"""Weights of rows: how often each is drawn into the batches."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from orthoframe.errors import Option, OptionError, brief

_POWERS = {"square-root": 0.5, "balanced": 1.0}  # of one over the size of the class


def relative_weights(
    sample_weight: ArrayLike | None, class_weight: object, labels: NDArray[Any]
) -> NDArray[np.float64]:
    """Weights of rows times the weights of their classes, `[rows]`; the largest is 1, and 0 leaves a row out.

    Raises:
        ValueError: For weights that are negative, not finite, not one per row, or all zero.
    """
    weights = _relative(_check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True))
    if class_weight is None:
        return weights
    present = weights > 0
    classes, numbers = np.unique(labels[present], return_inverse=True)
    if isinstance(class_weight, str) and class_weight in _POWERS:
        factors = np.bincount(numbers, weights[present]) ** -_POWERS[class_weight]
    elif isinstance(class_weight, dict):
        factors = np.asarray(compute_class_weight(class_weight, classes=classes, y=labels[present]), np.float64)
        if not (np.isfinite(factors).all() and factors.min() >= 0 and factors.any()):
            allowed = " must have finite weights, none negative and not all zero, not "
            raise OptionError(Option("class_weight"), allowed, brief(class_weight))
    else:
        allowed = " must be None, 'square-root', 'balanced', or a dictionary with the weight of each class, not "
        raise OptionError(Option("class_weight"), allowed, brief(repr(class_weight)))
    weights[present] *= factors[numbers]
    return _relative(weights)


def _relative(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rounded to single precision, so that weights that differ only by a factor give the same bytes."""
    relative: NDArray[np.float64] = (weights / weights.max()).astype(np.float32).astype(np.float64)
    return relative
