import pytest

from orthoframe.callbacks import GeometryRecorder


@pytest.fixture
def no_picture(monkeypatch):
    """For tests that look at numbers: drawing takes longer than training."""
    monkeypatch.setattr(GeometryRecorder, "draw", lambda self, folder: None)
