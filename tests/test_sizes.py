"""Whole numbers of every size: lengths of arrays end somewhere, and seeds and batch sizes do not."""

from functools import partial
from typing import get_args

import numpy as np
import pytest

from orthoframe import BatchPlan, coverage, measure, solve_ufm
from orthoframe.data import Augment, imbalanced_indices, step_counts
from orthoframe.encoders import FrameHead, make_encoder, make_frame_encoder
from orthoframe.errors import OptionError
from orthoframe.options import Model
from orthoframe.sklearn import FrameClassifier

LARGE = [2**31, 2**63, 2**70]


@pytest.mark.parametrize("size", LARGE)
def test_sizes_that_no_array_has(size):
    """Refused by name before anything is made of them."""
    rows, classes = np.eye(4), [0, 0, 1, 1]
    refused = {
        "num_classes": [lambda: measure(rows, classes, num_classes=size), lambda: step_counts(size, 2, 1.0)],
        "dim": [lambda: solve_ufm(classes, size)],
        "in_features": [lambda: FrameHead(size, 4)],
        "out_features": [lambda: FrameHead(4, size)],
        "width": [partial(make_encoder, name, (1, 8, 8), width=size) for name in get_args(Model)],
        "features": [lambda: make_frame_encoder("mlp", (1, 8, 8), features=size)],
        "padding": [lambda: Augment(padding=size)],
        "hidden": [lambda: FrameClassifier(hidden=(size,)).fit(rows, classes)],
    }
    for name, calls in refused.items():
        for call in calls:
            with pytest.raises(OptionError, match=f"^{name} must be at most 2147483647, not {size}$"):
                call()


@pytest.mark.parametrize("seed", LARGE)
def test_seeds_of_every_size(seed):
    classes = [0, 0, 1, 1]
    assert len(imbalanced_indices(classes, [2, 1], seed=seed)) == 3
    assert solve_ufm(classes, 4, seed=seed).converged
    assert 0 <= coverage([3, 3], seed, 2, simulations=10, seed=seed).probability <= 1
    assert len(BatchPlan(classes, 2, seed=seed).batches(seed)) == 2
