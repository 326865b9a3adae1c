import pytest
from tests.training.runs import arguments

from orthoframe.cli import main


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """A small run that the command has finished: read it, and leave it as it is."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    assert main(["train", *arguments(), "--out", str(folder)]) == 0
    return folder
