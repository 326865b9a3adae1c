"""Images and labels in an `.npz` file."""

import numpy as np
import torch
from tests.fuzz.mutations import choice, mutated
from tests.fuzz.mutations import npz as lying

from orthoframe.data import load_data
from orthoframe.errors import DataError

REFUSALS = (DataError,)
WEIGHT = 20


def prepare(folder):
    random = np.random.default_rng(0)
    pixels = random.integers(256, size=(8, 3, 4), dtype=np.uint8)
    labels = np.arange(8) % 2
    return [
        {"x": pixels, "y": labels},
        {"x": pixels, "y": np.array(["cat", "dög"])[labels]},
        {"x_train": pixels, "y_train": labels, "x_test": pixels[:3], "y_test": labels[:3]},
    ]


def make(random, valid, folder):
    data = lying(random, choice(random, valid))
    if random.random() < 0.3:
        data = mutated(random, data, lying(random, choice(random, valid)))
    path = folder / "images.npz"
    path.write_bytes(data)
    return path


def read(path):
    data = load_data(f"npz:{path}")
    for part in (data.train, data.test):
        assert part.pixels.dtype == torch.uint8
        assert part.pixels.ndim == 4
        assert len(part.pixels) == len(part.labels)
        assert not len(part.labels) or 0 <= part.labels.min() <= part.labels.max() < len(part.classes)
    assert len(data.train)
