"""A run that the command has finished."""

import pytest
from tests.training.runs import arguments

from orthoframe.cli import main


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """Its folder; to be read, and left as it is."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    assert main(["train", *arguments(epochs=4), "--out", str(folder)]) == 0
    return folder
