"""The newest checkpoint is broken; the previous one is whole."""

import io

import torch

from orthoframe.training._folder import CHECKPOINT, PREVIOUS, RunFolder
from tests.fuzz.mutations import mutated
from tests.fuzz.runs import copied, small_run

REFUSALS = ()
WEIGHT = 20
_SENTENCE = 300


def prepare(folder):
    run = small_run(folder)
    return run, (run / CHECKPOINT).read_bytes(), (run / PREVIOUS).read_bytes()


def make(random, valid, folder):
    run, newest, previous = valid
    if not (folder / "broken").exists():
        copied(run, folder / "broken", ("config.json", "run.json", PREVIOUS))
    (folder / "broken" / CHECKPOINT).write_bytes(mutated(random, newest, previous))
    return folder / "broken", newest, previous


def read(given):
    folder, newest, previous = given
    state, complaints = RunFolder(folder).load_checkpoint()
    for complaint in complaints:
        assert CHECKPOINT in complaint
        assert len(complaint) <= _SENTENCE
        assert "\n" not in complaint
    # A byte that no checksum covers, such as a date, may be broken without harm.
    assert _same(state, previous if complaints else newest)
    assert len(complaints) <= 1


def _same(state, data):
    expected = torch.load(io.BytesIO(data), weights_only=True)
    return _bytes(state) == _bytes(expected)


def _bytes(state):
    file = io.BytesIO()
    torch.save(state, file)
    return file.getvalue()


