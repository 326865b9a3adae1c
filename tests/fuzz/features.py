"""Features that `orthoframe measure` reads: .npy, .npz, .safetensors and .csv."""

import contextlib
import io
import json

import numpy as np
from safetensors.numpy import save
from tests.fuzz import mutations
from tests.fuzz.mutations import choice, mutated

from orthoframe.cli.measure import MeasureCommand
from orthoframe.errors import OrthoframeError

REFUSALS = (OrthoframeError,)
WEIGHT = 2
_CELLS = ("", "nan", "inf", "-1e400", "1e308", "x", "0x10", "1_000", '"', "1,2", " 3 ", "\x00", "1e-320", "9" * 400)


def prepare(folder):
    return np.abs(np.random.default_rng(0).normal(size=(6, 4))).astype(np.float32)


def make(random, rows, folder):
    ending = choice(random, (".npy", ".npz", ".safetensors", ".csv"))
    np.save(folder / "labels.npy", np.array([0, 0, 1, 1, 2, 2]))
    path = folder / f"features{ending}"
    path.write_bytes(content(random, ending, rows))
    return path, folder / "labels.npy"


def content(random, ending, rows):
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
        row[int(random.integers(len(row)))] = choice(random, _CELLS)
    return choice(random, ("\n", "\r\n", "\r")).join(",".join(row) for row in table)


def read(given):
    features, labels = given
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        assert MeasureCommand(features, labels, json=True).run() == 0
    found = json.loads(printed.getvalue(), parse_constant=_refuse)
    assert [entry["rows"] for entry in found["classes"]] == [2, 2, 2]


def _refuse(text):
    raise AssertionError(f"{text} is not JSON")
