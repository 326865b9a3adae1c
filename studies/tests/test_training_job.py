"""How far a training is from its end."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoframe.losses import angle_bound, loss_floor, supcon_loss
from orthoframe.training import Settings
from orthoframe_studies._jobs import decided
from orthoframe_studies._training_job import decay, mean_angle_bound, rows_in_a_batch


def plain(**options):
    """Settings of which all is decided that the key of a training has."""
    return decided(Settings.of(recipe="plain", **options))


FULL = plain(scheme="full", binding="none", temperature=0.5)


def test_equal_classes_have_the_bound_of_one():
    """A class may have all of the gap, which is ten times the mean then."""
    assert mean_angle_bound(FULL, [20] * 10, 1e-3) == pytest.approx(
        float(angle_bound(1e-2, positives=19, negatives=180, temperature=0.5))
    )


@given(st.lists(st.integers(2, 6), min_size=2, max_size=4), st.integers(0, 10**6), st.floats(0, 1))
def test_no_class_deviates_by_more(counts, seed, near):
    """The bound holds for every class, of features between a frame and chance."""
    labels = torch.tensor([c for c, count in enumerate(counts) for _ in range(count)])
    noise = torch.rand(len(labels), 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    features = torch.nn.functional.normalize(
        near * torch.eye(6, dtype=torch.float64)[labels] + (1 - near) * noise, dim=1
    )
    loss = supcon_loss(features, labels, temperature=0.5)
    bound = mean_angle_bound(FULL, counts, float(loss - loss_floor(labels, temperature=0.5)))
    cosines = features @ features.T
    for c, count in enumerate(counts):
        members = labels == c
        pulled = (float(cosines[members][:, members].sum()) - count) / (count * (count - 1))
        pushed = float(cosines[members][:, ~members].mean())
        assert 1 - pulled + pushed <= bound + 1e-9


def test_rows_of_a_batch():
    unbound, bound = plain(batch_size=20, binding="none"), plain(batch_size=20, binding="fixed", bound_examples=2)
    balanced = plain(batch_size=20, binding="none", scheme="balanced")
    assert rows_in_a_batch(unbound, [90, 10])[0] == [18.0, 2.0]
    assert rows_in_a_batch(bound, [90, 10]) == ([20.0, 4.0], [20 / 24, 4 / 24])
    assert rows_in_a_batch(balanced, [90, 10])[0] == [10.0, 10.0]
    assert rows_in_a_batch(FULL, [90, 10])[0] == [90.0, 10.0]


def test_the_rate_is_that_of_an_exponential():
    done = [float(n) for n in range(100)]
    assert decay(done, [math.exp(-0.07 * place) for place in done]) == pytest.approx(0.07)
    assert decay(done, [0.5] * 100) is None  # it never comes near
    assert decay(done, [0.1 * math.exp(0.01 * place) for place in done]) is None  # it leaves
