"""Hostile features, labels and batches, as the commands read them."""

import contextlib
import io
import json
import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import save
from tests.fuzz import mutations
from tests.fuzz.mutations import Target, choice, mutated, mutated_json
from tests.fuzz.mutations import npz as lying

from orthoframe.batches import read_batches
from orthoframe.cli.certify import CertifyCommand, PlanOptions
from orthoframe.cli.fit import read_table
from orthoframe.cli.measure import MeasureCommand
from orthoframe.embedding import FeatureExtractor, ImageList, embed
from orthoframe.errors import DataError, InputError, OrthoframeError

_NUMBER_CELLS = (
    "",
    "nan",
    "inf",
    "-1e400",
    "1e308",
    "x",
    "0x10",
    "1_000",
    '"',
    "1,2",
    " 3 ",
    "\x00",
    "1e-320",
    "9" * 400,
)


def prepare_features(folder):
    return np.abs(np.random.default_rng(0).normal(size=(6, 4))).astype(np.float32)


def hostile_features(random, rows, folder):
    ending = choice(random, (".npy", ".npz", ".safetensors", ".csv"))
    np.save(folder / "labels.npy", np.array([0, 0, 1, 1, 2, 2]))
    path = folder / f"features{ending}"
    path.write_bytes(_feature_bytes(random, ending, rows))
    return path, folder / "labels.npy"


def _feature_bytes(random, ending, rows):
    """A hostile file of this kind."""
    if random.random() < 0.05:  # values that are not finite, or too large
        rows = rows * np.float32(choice(random, (np.nan, np.inf, 0.0, 1e38, 1e-45)))
    if ending == ".npy":
        data = mutations.npy(random, rows)
    elif ending == ".npz":
        data = mutations.npz(random, {"features": rows, "other": rows[:, 0]})
    elif ending == ".safetensors":
        data = save({"features": rows, "other": np.ascontiguousarray(rows[:, 0])})
        data = mutations.safetensors(random, data) if random.random() < 0.7 else data
    else:
        data = _table(random, rows).encode()
    return mutated(random, data, b"1,2\n") if random.random() < 0.4 else data


def _table(random, rows):
    table = [["a", "b", "c", "d"], *([str(value) for value in row] for row in rows.tolist())]
    for _ in range(int(random.integers(0, 4))):
        row = choice(random, table)
        row[int(random.integers(len(row)))] = choice(random, _NUMBER_CELLS)
    return choice(random, ("\n", "\r\n", "\r")).join(",".join(row) for row in table)


def check_features(paths):
    features, labels = paths
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        assert MeasureCommand(features, labels, json=True).run() == 0
    report = json.loads(printed.getvalue(), parse_constant=_refuse)
    assert [entry["rows"] for entry in report["classes"]] == [2, 2, 2]


def _refuse(text):
    raise AssertionError(f"{text} is not JSON")


_LABEL_CELLS = ("", "0", "01", "9" * 30, "-1", "1.5", "nan", "x" * 3000, "\x00", '"', '"a,b"', "é", "\ufeff", "1_0")


def prepare_labels(folder):
    return [
        np.array([0, 0, 1, 1, 2, 2]),
        np.array(["a", "b", "c"] * 2),
        np.array([0, 1, 2**64 - 1], dtype=np.uint64),
        np.array([0.0, 1.0, 1.0]),
        np.array([True, False]),
        np.array([-(2**63), 2**63 - 1, 0]),
    ]


def hostile_labels(random, valid, folder):
    ending, labels = choice(random, (".npy", ".npz", ".safetensors", ".txt", ".csv")), choice(random, valid)
    if ending == ".npy":
        data = mutations.npy(random, labels)
    elif ending == ".npz":
        data = mutations.npz(random, {"labels": labels, "other": labels})
    elif ending == ".safetensors":
        data = mutations.safetensors(random, save({"labels": valid[0], "other": valid[0]}))
    else:
        values = [str(label) for label in labels.tolist()]
        for _ in range(int(random.integers(0, 3))):
            values[int(random.integers(len(values)))] = choice(random, _LABEL_CELLS)
        data = "\n".join(["class"] * (ending == ".csv") + values).encode()
    if random.random() < 0.4:
        data = mutated(random, data, b"1\n2\n")
    path = folder / f"labels{ending}"
    path.write_bytes(data)
    return path


def check_labels(path):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = CertifyCommand(path, json=True, plan=PlanOptions(scheme="full")).run()
    report = json.loads(printed.getvalue())
    assert report["holds"] is (status == 0)
    names = [entry["name"] for entry in report["classes"]]
    assert len(set(map(str, names))) == len(names)


def prepare_embedding(folder):
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


def hostile_embedding(random, valid, folder):
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


def check_embedding(path):
    assert os.path.exists(path)
    table = read_table(Path(path))
    assert table.rows.ndim == 2
    assert table.rows.dtype in (np.float32, np.float64)
    for column in (table.labels, table.names, table.splits):
        assert column is None or column.shape == (len(table.rows),)


_SAMPLES = 9


def prepare_batches(folder):
    return [[0, 5, 2], [8, 1], [], [3, 4, 6, 7]]


def hostile_batches(random, valid, folder):
    lines = [json.dumps(batch) for batch in valid]
    line = int(random.integers(len(lines)))
    lines[line] = choice(random, (mutated_json(random, valid[line]), lines[line], "[" * 100_000, "9" * 5000, ""))
    data = choice(random, ("\n", "\r\n", "\n\n")).join(lines).encode()
    if random.random() < 0.5:
        data = mutated(random, data, b"[1, 2]\n")
    path = folder / "batches.jsonl"
    path.write_bytes(data)
    return path


def check_batches(path):
    batches = list(read_batches(path, _SAMPLES))
    said = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    assert [batch.tolist() for batch in batches] == said
    assert all(batch.dtype == np.int64 and ((batch >= 0) & (batch < _SAMPLES)).all() for batch in batches)


TARGETS = {
    "features": Target((OrthoframeError,), 2, prepare_features, hostile_features, check_features),
    "labels": Target((OrthoframeError,), 12, prepare_labels, hostile_labels, check_labels),
    "embedding": Target((DataError, InputError), 10, prepare_embedding, hostile_embedding, check_embedding),
    "batches": Target((InputError,), 40, prepare_batches, hostile_batches, check_batches),
}
