"""Which classes are taken for which, counted one by one."""

import numpy as np
import torch

from orthoframe.geometry import Accuracy, Confusion, accuracy_of


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
