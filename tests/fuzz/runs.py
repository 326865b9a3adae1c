"""A small run that training made: its encoder, its checkpoints, everything that it writes."""

import os
import shutil

import numpy as np

from orthoframe.training import RunListener, Settings, train

_SETTINGS = {"imbalance": "none", "width": 4, "epochs": 2, "batch_size": 4, "augment": False, "model": "mlp"}


def small_run(folder):
    """A run of two epochs on eight images; its folder. Its last two checkpoints are both there."""
    random = np.random.default_rng(0)
    np.savez(folder / "images.npz", x=random.integers(256, size=(10, 2, 3), dtype=np.uint8), y=np.arange(10) % 2)
    train(
        Settings.of(recipe="plain", data=f"npz:{folder / 'images.npz'}", **_SETTINGS),
        folder / "run",
        RunListener(),
        report=False,
    )
    return folder / "run"


def copied(run, folder, names):
    """A folder with these files alone: links, so that one that is to be changed must be replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        os.link(run / name, folder / name)
    return folder
