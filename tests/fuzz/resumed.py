"""A whole run that is resumed from a broken newest checkpoint, or with broken settings."""

import hashlib
import json

import torch
from safetensors.torch import load, save
from tests.fuzz.mutations import choice, mutated, mutated_json
from tests.fuzz.runs import copied, small_run

from orthoframe.errors import OrthoframeError
from orthoframe.runs import CHECKPOINT, PREVIOUS
from orthoframe.training import RunListener, resume

REFUSALS = (OrthoframeError,)
WEIGHT = 0.2
_TENSORS = (torch.zeros(0), torch.zeros(3, 3), torch.tensor(float("nan")), torch.zeros(2, dtype=torch.int8))
_DIGEST = 32  # bytes of the checksum


def prepare(folder):
    return small_run(folder)


def make(random, run, folder):
    broken = copied(run, folder / "broken", ("config.json", "run.json", PREVIOUS))
    newest, kind = (run / CHECKPOINT).read_bytes(), random.random()
    if kind < 0.3:
        newest = mutated(random, newest, (run / PREVIOUS).read_bytes())
    elif kind < 0.8:
        newest = _lying(random, newest)
    else:
        settings = json.loads((run / "config.json").read_text())
        (broken / "config.json").unlink()
        (broken / "config.json").write_text(mutated_json(random, settings))
    (broken / CHECKPOINT).write_bytes(newest)
    return broken, (run / "encoder.safetensors").read_bytes() if not 0.3 <= kind < 0.8 else None


def _lying(random, data):
    """A checkpoint whose checksum is right, of which an entry is another."""
    tensors = load(data[_DIGEST:])
    if random.random() < 0.6:
        progress = json.loads(tensors["json"].numpy().tobytes())
        text = bytearray(mutated_json(random, progress).encode())
        tensors["json"] = torch.frombuffer(text, dtype=torch.uint8)
    else:
        name = choice(random, list(tensors))
        tensors[name] = choice(random, _TENSORS)
        if random.random() < 0.3:
            tensors.pop(name)
    body = save(tensors)
    return hashlib.sha256(body).digest() + body


def read(given):
    folder, expected = given
    resume(folder, RunListener(), report=False)
    found = (folder / "encoder.safetensors").read_bytes()
    assert expected is None or found == expected
