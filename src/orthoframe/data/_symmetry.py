"""Whether images look the same in a mirror, so that mirror images may be trained on."""

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import binom
from torch import Tensor

from orthoframe.data._images import LabelledImages
from orthoframe.data._imbalance import imbalanced_indices

_MOST, _ROWS = 2000, 256  # images that are looked at, and that are read together
_SIDE = 12  # pixels of an image that is compared
_RIDGE = 0.1  # of the mean square of a column
_LEAST, _DEVIATIONS = 0.05, 3.0  # of Cohen's kappa, from which the classifier knows the images at all
_SURE = 0.01  # the probability of a difference by chance at which it counts
_SMALL = 0.1  # of the accuracy, which mirror images may cost


def is_mirror_symmetric(images: LabelledImages, seed: int = 0) -> bool:
    """Whether a classifier that has seen no mirror images knows them as well as others.

    It knows those of photographs, but not those of digits, of signs that point somewhere, or of shoes that all point to
    one side. A linear classifier of small images is fitted to each half of them and classifies the other half, as it is
    and mirrored. It must know the images beyond chance, or it says nothing. Mirror images must not be classified worse:
    neither over all classes, where a tenth of the accuracy and one standard deviation are allowed, nor in a class
    beyond chance, as where a sign mirrors another.

    Args:
        images: Training images; of many, a part of each class is looked at.
        seed: Of the draw of that part.

    Examples:
        >>> bars = torch.zeros(40, 1, 16, 16, dtype=torch.uint8)
        >>> bars[:20, :, :, 1:4] = 200  # on the left, and the others on the right
        >>> bars[20:, :, :, 12:15] = 200
        >>> is_mirror_symmetric(LabelledImages(bars, torch.arange(2).repeat_interleave(20), ("left", "right")))
        False
    """
    k = len(images.classes)
    counts = [min(count, max(2, _MOST // k)) for count in images.class_counts]
    kept = imbalanced_indices(images.labels, counts, seed=seed)
    kept = kept[np.argsort(images.labels[kept].numpy(), kind="stable")]
    labels = images.labels[kept].cpu()
    batches = np.array_split(kept, 1 + len(kept) // _ROWS)
    pixels = torch.cat([F.adaptive_avg_pool2d(part.double(), _SIDE) for part in images.batches(batches)])
    right, mirrored = torch.zeros(2, len(kept), dtype=torch.bool)
    classes = torch.zeros(len(kept), dtype=torch.int64)
    half = torch.arange(len(kept)) % 2 == 0  # of each class, because images are in the order of classes
    for train, test in ((half, ~half), (~half, half)):
        scores = _scores(pixels[train], labels[train], torch.cat([pixels[test], pixels[test].flip(-1)]), k)
        classes[test], mirror_classes = scores.argmax(1).chunk(2)
        right[test], mirrored[test] = classes[test] == labels[test], mirror_classes == labels[test]
    if not _is_above_chance(classes, labels, k):
        return False
    lost = torch.bincount(labels[right & ~mirrored], minlength=k).numpy()
    gained = torch.bincount(labels[mirrored & ~right], minlength=k).numpy()
    by_chance = binom.sf(lost - 1, lost + gained, 0.5)  # that as many are lost
    changed = float(lost.sum() + gained.sum())
    allowed = _SMALL * float(right.sum()) + changed**0.5
    return bool(lost.sum() - gained.sum() <= allowed and by_chance.min() >= _SURE / k)


def _is_above_chance(classes: Tensor, labels: Tensor, num_classes: int) -> bool:
    """Whether predictions agree with labels clearly more often than independent ones would, by Cohen's kappa."""
    predicted, true = (torch.bincount(each, minlength=num_classes).double() / len(each) for each in (classes, labels))
    chance, agreement = float(predicted @ true), float((classes == labels).double().mean())
    kappa = (agreement - chance) / (1 - chance + 1e-12)
    return bool(kappa >= max(_LEAST, _DEVIATIONS * (chance / (len(labels) * (1 - chance + 1e-12))) ** 0.5))


def _scores(train: Tensor, labels: Tensor, test: Tensor, num_classes: int) -> Tensor:
    """Ridge regression on the classes, each of which counts the same."""
    mean, rows = train.mean(0), train.flatten(1) - train.mean(0).flatten()
    weights = 1 / torch.bincount(labels, minlength=num_classes).clamp(min=1)[labels].double()
    targets = F.one_hot(labels, num_classes).double()
    gram = rows.T @ (rows * weights[:, None])
    penalty = _RIDGE * gram.diagonal().mean() + 1e-9
    solved: Tensor = torch.linalg.solve(gram + penalty * torch.eye(len(gram)), rows.T @ (targets * weights[:, None]))
    scores: Tensor = (test - mean).flatten(1) @ solved
    return scores
