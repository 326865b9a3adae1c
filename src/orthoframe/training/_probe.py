"""A balanced linear classifier of features that the encoder has before its head."""

import numpy as np
import torch
from torch import Tensor

from orthoframe.geometry import LinearClassifier, accuracy_of

_STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # inverse penalties that are tried
_STRENGTH = 0.1  # where there is nothing to try them on
_ITERATIONS = 1000

Rows = tuple[Tensor, Tensor]
"""Features `[rows, dim]` and labels `[rows]`."""


def fit_probe(num_classes: int, train: Rows, validation: Rows | None = None) -> LinearClassifier:
    """Fit a logistic regression in which all classes count the same.

    Settling onto a frame can cost classes of a few images at the head, and not before it: there this classifier still
    tells them apart.

    Args:
        num_classes: k; a class without training rows is never predicted.
        train: Features before the head, and labels.
        validation: Others, on which the strength of its penalty is chosen.
    """
    from sklearn.linear_model import LogisticRegression  # a second to load

    rows, labels = train
    mean, scale = rows.double().mean(0), rows.double().std(0).clamp(min=1e-6)
    standard = ((rows.double() - mean) / scale).numpy()

    def fitted(strength: float) -> LinearClassifier:
        model = LogisticRegression(C=strength, class_weight="balanced", max_iter=_ITERATIONS)
        model.fit(standard, labels.numpy())
        weights, bias = np.zeros((num_classes, rows.shape[1])), np.full(num_classes, -np.inf)
        found, intercept = model.coef_, model.intercept_
        if len(model.classes_) == 2:  # which have one row of weights together
            found, intercept = np.concatenate([-found, found]) / 2, np.concatenate([-intercept, intercept]) / 2
        weights[model.classes_], bias[model.classes_] = found, intercept
        scaled = torch.from_numpy(weights) / scale
        return LinearClassifier(scaled, torch.from_numpy(bias) - scaled @ mean)

    if validation is None:
        return fitted(_STRENGTH)
    tried = [fitted(strength) for strength in _STRENGTHS]
    names = range(num_classes)
    return max(tried, key=lambda rule: accuracy_of(rule.scores(validation[0]), validation[1], names).balanced)
