"""Scores of rows by networks that were trained without them, and what these say about the classifier of all rows."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from orthoframe._rows import Integers, class_members
from orthoframe.geometry import Calibration, NearestCentre, fit_adjustment

if TYPE_CHECKING:
    from orthoframe.sklearn._classifier import FrameClassifier

_FOLDS = 3
_STREAM = 8  # of random numbers: 0 to 3 are those of the plan, 7 those of weights


def cross_fit(
    fitted: "FrameClassifier",
    rows: NDArray[Any],
    labels: NDArray[Any],
    sample_weight: NDArray[Any] | None,
    seed: int,
) -> tuple[float, Calibration | None]:
    """The lambda of the class-size adjustment, and the calibration of adjusted scores, by three networks."""
    numbers = np.searchsorted(fitted.classes_, labels)
    k = len(fitted.classes_)
    cosines = torch.full((len(numbers), k), -torch.inf, dtype=torch.float64)
    part = folds(numbers, k, np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, _STREAM]))))
    for fold in range(_FOLDS):
        inside, held = part != fold, np.flatnonzero(part == fold)
        if len(held) and len(np.unique(numbers[inside])) > 1:
            weights = None if sample_weight is None else sample_weight[inside]
            network = clone(fitted).set_params(adjust=None, random_state=(seed + 1 + fold) % 2**31)
            if isinstance(fitted.class_weight, dict):  # of the classes that are there, all of which it must name
                there = np.unique(labels[inside]).tolist()
                network.set_params(class_weight={each: fitted.class_weight.get(each, 1.0) for each in there})
            network.fit(rows[inside], labels[inside], weights)
            columns = torch.from_numpy(np.searchsorted(fitted.classes_, network.classes_))
            found = _cosines(network, rows[held])
            cosines[torch.from_numpy(held)[:, None], columns] = found
    given = torch.from_numpy(numbers.astype(np.int64))
    counts = fitted.geometry_.counts
    adjust = fit_adjustment(cosines, given, counts)
    rule = NearestCentre(torch.from_numpy(fitted.centres_), counts, adjust)
    return adjust, Calibration.fitted(rule.adjusted(cosines), given)


def _cosines(network: "FrameClassifier", rows: NDArray[Any]) -> Tensor:
    return NearestCentre(network.centres_).scores(network.transform(rows))


def folds(numbers: Integers, num_classes: int, random: np.random.Generator) -> Integers:
    """The fold of each row, `[rows]`: rows of a class are dealt out in random order, so that folds differ by one."""
    part, first = np.empty(len(numbers), dtype=np.int64), 0
    for own in class_members(numbers, num_classes):
        part[random.permutation(own)] = (first + np.arange(len(own))) % _FOLDS
        first += len(own)  # the next class goes on where this one ended
    return part
