import pytest

from orthoframe.watching import Watch


@pytest.fixture
def no_picture(monkeypatch):
    """For tests that look at numbers: drawing takes longer than training."""
    monkeypatch.setattr(Watch, "draw", lambda self, folder: None)
