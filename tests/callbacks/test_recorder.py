"""Rows to measure: each once, and nothing of the training changed."""

import contextlib

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from orthoframe.callbacks import GeometryRecorder, evaluating, shared_rows


def test_modes_and_random_numbers_are_as_before():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2)))
    model[1][1].eval()
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with contextlib.suppress(ZeroDivisionError), evaluating(model):
        assert not any(part.training for part in model.modules())
        assert not torch.is_grad_enabled()
        torch.rand(5)
        raise ZeroDivisionError
    assert [part.training for part in model.modules()] == [True, True, True, True, False]
    assert torch.equal(torch.rand(3), expected)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([1, 2])


def test_a_loader_is_taken_as_it_is_and_a_stream_needs_one():
    loader = DataLoader(Stream())
    assert shared_rows(loader) is loader
    with pytest.raises(TypeError, match="not Stream; give data=DataLoader"):
        shared_rows(Stream())


def test_what_cannot_be_measured():
    recorder = GeometryRecorder(3, 1, None, "geometry")
    with pytest.raises(ValueError, match="no rows to measure"):
        recorder.measure(1, [])
    with pytest.raises(ValueError, match=r"shape \[rows, dim\], not \[2, 3, 4\]"):
        recorder.measure(1, [(torch.rand(2, 3, 4), torch.zeros(2))])
    assert recorder.history == []
