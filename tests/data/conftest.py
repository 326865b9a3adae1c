"""Real files where there are some, and a server for pretended ones."""

import os
from pathlib import Path

import pytest
from tests.data.server import serving


@pytest.fixture
def real_data(request):
    """The folder with the real files of the data set that the test is named for."""
    name = request.param
    chosen = os.environ.get("ORTHOFRAME_DATA")
    folder = Path(chosen) if chosen else Path(__file__).parents[3] / "shared" / "data"
    if not (folder / name).is_dir():
        pytest.skip(f"there is no {name} under {folder}; ORTHOFRAME_DATA names the folder that has it")
    return name, folder


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as running:
        yield running
