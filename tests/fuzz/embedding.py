"""A folder of features that `embed` wrote, and the arrays that `fit` reads."""

import json
import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tests.fuzz.mutations import choice, mutated, mutated_json
from tests.fuzz.mutations import npz as lying

from orthoframe.cli._embeddings import read_table
from orthoframe.embedding import FeatureExtractor, ImageList, embed
from orthoframe.errors import DataError, InputError

REFUSALS = (DataError, InputError)
WEIGHT = 10


def prepare(folder):
    path = folder / "image.png"
    Image.new("RGB", (2, 2)).save(path)
    names, labels = tuple(f"{place}.png" for place in range(6)), np.arange(6) % 2
    images = ImageList(
        source="images",
        paths=(path,) * 6,
        names=names,
        labels=labels,
        classes=("cat", "dög"),
        splits=np.array(["train", "test"] * 3),
    )
    flat = FeatureExtractor(
        name="pixels", network=torch.nn.Flatten(), image_shape=(3, 2, 2), dim=12, mean=(0.0,) * 3, std=(1.0,) * 3
    )
    embed(images, flat, folder / "features", shard_size=3, workers=0)
    files = {file.name: file.read_bytes() for file in (folder / "features").iterdir()}
    rows = np.random.default_rng(0).normal(size=(6, 4))
    pairs = {"x": rows, "y": labels}, {"x_train": rows, "y_train": labels, "x_test": rows[:2], "y_test": labels[:2]}
    return files, pairs


def make(random, valid, folder):
    files, pairs = valid
    if random.random() < 0.4:
        data = lying(random, choice(random, pairs))
        (folder / "rows.npz").write_bytes(mutated(random, data) if random.random() < 0.3 else data)
        return folder / "rows.npz"
    for name, data in files.items():
        (folder / name).write_bytes(data)
    name = choice(random, sorted(files))
    path = folder / name
    if name == "manifest.json":
        path.write_text(mutated_json(random, json.loads(files[name])))
    else:
        with np.load(path) as arrays:
            path.write_bytes(lying(random, dict(arrays)))
        if random.random() < 0.3:
            path.write_bytes(mutated(random, path.read_bytes(), files[name]))
    return folder


def read(path):
    assert os.path.exists(path)
    table = read_table(Path(path))
    assert table.rows.ndim == 2
    assert table.rows.dtype in (np.float32, np.float64)
    assert len(table.names) == len(table.rows)
    for given in (table.labels, table.splits):
        assert given is None or given.shape == (len(table.rows),)
