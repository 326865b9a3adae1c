"""Labels that `orthoframe certify` reads: .npy, .npz, .safetensors, .txt and .csv."""

import contextlib
import io
import json

import numpy as np
from safetensors.numpy import save
from tests.fuzz import mutations
from tests.fuzz.mutations import choice, mutated

from orthoframe.cli._plan import PlanOptions
from orthoframe.cli.certify import CertifyCommand
from orthoframe.errors import OrthoframeError

REFUSALS = (OrthoframeError,)
WEIGHT = 12
_CELLS = ("", "0", "01", "9" * 30, "-1", "1.5", "nan", "x" * 3000, "\x00", '"', '"a,b"', "é", "\ufeff", "1_0")


def prepare(folder):
    return [
        np.array([0, 0, 1, 1, 2, 2]),
        np.array(["a", "b", "c"] * 2),
        np.array([0, 1, 2**64 - 1], dtype=np.uint64),
        np.array([0.0, 1.0, 1.0]),
        np.array([True, False]),
        np.array([-(2**63), 2**63 - 1, 0]),
    ]


def make(random, valid, folder):
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
            values[int(random.integers(len(values)))] = choice(random, _CELLS)
        data = "\n".join(["class"] * (ending == ".csv") + values).encode()
    if random.random() < 0.4:
        data = mutated(random, data, b"1\n2\n")
    path = folder / f"labels{ending}"
    path.write_bytes(data)
    return path


def read(path):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = CertifyCommand(path, json=True, plan=PlanOptions(scheme="full")).run()
    found = json.loads(printed.getvalue())
    assert found["holds"] is (status == 0)
    names = [entry["name"] for entry in found["classes"]]
    assert len(set(map(str, names))) == len(names)
