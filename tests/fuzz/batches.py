"""Batches as JSON lines."""

import json

import numpy as np
from tests.fuzz.mutations import choice, mutated, mutated_json

from orthoframe.batches import read_batches
from orthoframe.errors import InputError

REFUSALS = (InputError,)
WEIGHT = 40
_SAMPLES = 9


def prepare(folder):
    return [[0, 5, 2], [8, 1], [], [3, 4, 6, 7]]


def make(random, valid, folder):
    lines = [json.dumps(batch) for batch in valid]
    line = int(random.integers(len(lines)))
    lines[line] = choice(random, (mutated_json(random, valid[line]), lines[line], "[" * 100_000, "9" * 5000, ""))
    data = choice(random, ("\n", "\r\n", "\n\n")).join(lines).encode()
    if random.random() < 0.5:
        data = mutated(random, data, b"[1, 2]\n")
    path = folder / "batches.jsonl"
    path.write_bytes(data)
    return path


def read(path):
    found = list(read_batches(path, _SAMPLES))
    said = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    assert [batch.tolist() for batch in found] == said
    assert all(batch.dtype == np.int64 and ((batch >= 0) & (batch < _SAMPLES)).all() for batch in found)
