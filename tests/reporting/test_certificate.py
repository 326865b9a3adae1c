"""The picture of a certificate, for few and for many classes."""

import io

import numpy as np
import pytest

from orthoframe import certify
from orthoframe.batches import meeting_counts
from orthoframe.reporting import certificate_figure


@pytest.mark.parametrize("classes", [1, 2, 5, 60])
@pytest.mark.parametrize("holds", [True, False])
def test_it_draws(classes, holds):
    labels = np.repeat(np.arange(classes), 4)
    whole = np.arange(len(labels))
    batches = [[*whole, *whole]] if holds else np.array_split(whole, 3 * classes)
    certificate = certify(labels, batches)
    assert certificate.holds == (holds and classes > 0)
    file = io.BytesIO()
    certificate_figure(certificate, meeting_counts(labels, batches)).savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_meeting_counts_are_counted():
    random = np.random.default_rng(0)
    labels = random.integers(6, size=50)
    batches = [random.integers(50, size=5) for _ in range(40)]
    expected = np.zeros((6, 6), dtype=int)
    for batch in batches:
        for a in set(labels[batch].tolist()):
            for b in set(labels[batch].tolist()):
                expected[a, b] += 1
    assert np.array_equal(meeting_counts(labels, batches), expected)
