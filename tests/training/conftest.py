"""A run to which nothing happened, and one that was stopped on the way."""

import pytest
from tests.training.runs import interrupt, small

from orthoframe.training import train


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The folder of a run to which nothing happened: 3 epochs of 6 steps."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    train(small(), folder)
    return folder


@pytest.fixture
def interrupted(tmp_path):
    """The folder of a run that was stopped in the second epoch, with two checkpoints."""
    folder = tmp_path / "run"
    interrupt(small(), folder, epoch=1, steps=2)
    return folder
