"""One torch thread for each test process: two processes with two threads each would fight for two cores. No window."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# A test that runs on a busy machine must not fail for its speed, and must find the same examples each time.
settings.register_profile("orthoframe", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("orthoframe")


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """A test draws the same numbers whichever ran before it in this process."""
    torch.manual_seed(0)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
