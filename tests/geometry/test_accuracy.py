"""Which classes are taken for which, how often predictions are right: counted one by one, and by scikit-learn."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from orthoframe.geometry import Accuracy, ClassRates, Confusion, accuracy_of, calibration_error, reliability


def test_counts_are_those_of_the_obvious_way():
    random = np.random.default_rng(0)
    scores, labels = random.normal(size=(200, 6)), random.integers(0, 5, 200)
    names = ["a", "b", "c", "d", "e", "f"]
    confusion = Confusion.of(scores, labels, names)
    counted = {}
    for row, label in zip(scores, labels, strict=True):
        if row.argmax() != label:
            counted[label, row.argmax()] = counted.get((label, row.argmax()), 0) + 1
    assert {(a, b): n for a, b, n in confusion.cells} == counted
    assert [n for _, _, n in confusion.cells] == sorted(counted.values(), reverse=True)
    assert confusion.wrong == sum(counted.values())
    assert confusion.rows == (*np.bincount(labels), 0)
    assert accuracy_of(scores, labels, names).overall == (200 - confusion.wrong) / 200
    a, b, n = confusion.cells[0]
    assert confusion.sentences(1) == [f"{names[a]} as {names[b]}: {n} of {confusion.rows[a]}"]


def test_many_classes_keep_the_largest_cells():
    labels = torch.arange(50).repeat_interleave(49)
    predicted = torch.cat([torch.tensor([p for p in range(50) if p != c]) for c in range(50)])
    predicted, labels = torch.cat([predicted, torch.tensor([7, 7])]), torch.cat([labels, torch.tensor([3, 3])])
    confusion = Confusion.of(predicted, labels, range(50))
    assert (len(confusion.cells), confusion.wrong, confusion.cells[0]) == (1000, 2452, (3, 7, 3))


def test_nothing_is_confused():
    confusion = Confusion.of(torch.arange(3), torch.arange(3), range(3))
    assert (confusion.cells, confusion.wrong, confusion.sentences()) == ((), 0, [])


def test_over_how_many_classes():
    values = {"overall": 1, "balanced": 1, "worst": 1, "worst_class": 0, "majority": 1, "minority": 1}
    assert Accuracy(**values, by_class=(1.0, 1.0)).over() == ""
    assert Accuracy(**values, by_class=(1.0, None, 1.0)).over() == " (over 2 of 3 classes)"


@given(seed=st.integers(0, 999), k=st.integers(2, 5), balanced=st.booleans())
def test_rates_are_those_of_scikit_learn(seed, k, balanced):
    """With a class without rows, and predictions that are none of the classes."""
    random = np.random.default_rng(seed)
    labels, predicted = random.integers(0, k - 1, 30), random.integers(0, k + 1, 30)
    rates = ClassRates.of(torch.from_numpy(predicted), torch.from_numpy(labels), k, balanced=balanced)
    weights = 1 / np.bincount(labels)[labels] if balanced else None
    classes = sorted(set(labels.tolist()))
    expected = precision_recall_fscore_support(
        labels, predicted, labels=classes, sample_weight=weights, zero_division=0
    )
    for name, values in zip(("precision", "recall", "f1"), expected[:3], strict=True):
        rate = getattr(rates, name)
        assert [rate[c] for c in classes] == pytest.approx(values.tolist(), abs=1e-12)
        assert rates.means()[name] == pytest.approx(values.mean(), abs=1e-12)
        assert [rate[c] for c in range(k) if c not in classes] == [None] * (k - len(classes))


@given(seed=st.integers(0, 999))
def test_reliability_bin_by_bin(seed):
    random = np.random.default_rng(seed)
    confidences, labels = random.dirichlet([0.3] * 4, 40), random.integers(0, 4, 40)
    table = reliability(torch.from_numpy(confidences), torch.from_numpy(labels))
    total = 0.0
    for place, (rows, confidence, accuracy) in enumerate(table.T.tolist()):
        inside = [i for i, row in enumerate(confidences) if place / 15 < row.max() <= (place + 1) / 15]
        assert rows == len(inside)
        if inside:
            assert confidence == pytest.approx(np.mean([confidences[i].max() for i in inside]))
            assert accuracy == pytest.approx(np.mean([confidences[i].argmax() == labels[i] for i in inside]))
            total += rows * abs(confidence - accuracy) / 40
    assert calibration_error(torch.from_numpy(confidences), torch.from_numpy(labels)) == pytest.approx(total)
