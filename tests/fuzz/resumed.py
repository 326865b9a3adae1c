"""A whole run that is resumed from a broken newest checkpoint, or with broken settings."""

import io
import json

import torch
from tests.fuzz.mutations import choice, mutated, mutated_json
from tests.fuzz.runs import copied, small_run

from orthoframe.errors import OrthoframeError
from orthoframe.training import RunListener, resume
from orthoframe.training._folder import CHECKPOINT, PREVIOUS

REFUSALS = (OrthoframeError,)
WEIGHT = 0.3
_TENSORS = (torch.zeros(0), torch.zeros(3, 3), torch.tensor(float("nan")), torch.zeros(2, dtype=torch.int8))
_OTHERS = (None, -1, 0, 10**6, 2**70, "x", [], {}, float("nan"), True, [1, 2], {"epoch": 1})


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
        (broken / "config.json").write_text(mutated_json(random, settings))
    (broken / CHECKPOINT).write_bytes(newest)
    return broken, (run / "encoder.safetensors").read_bytes() if kind < 0.3 else None


def _lying(random, data):
    """A checkpoint that torch reads, of which an entry is another."""
    state = torch.load(io.BytesIO(data), weights_only=True)
    here = state
    while True:
        name = choice(random, list(here) if isinstance(here, dict) else range(len(here)))
        if not isinstance(here[name], dict | list) or not here[name] or random.random() < 0.1:
            break
        here = here[name]
    if isinstance(here, dict) and random.random() < 0.2:
        del here[name]
    else:
        here[name] = choice(random, _TENSORS + _OTHERS)
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


def read(given):
    folder, expected = given
    resume(folder, RunListener(), report=False)
    found = (folder / "encoder.safetensors").read_bytes()
    assert expected is None or found == expected
