"""The newest checkpoint is broken; the previous one is whole."""

import io

from tests.fuzz.mutations import mutated
from tests.fuzz.runs import copied, small_run

from orthoframe.runs import CHECKPOINT, PREVIOUS, RunFolder

REFUSALS = ()
WEIGHT = 18
_SENTENCE = 300


def prepare(folder):
    run, states = small_run(folder), []
    for name in (CHECKPOINT, PREVIOUS):
        alone = copied(run, folder / "alone", ("config.json", "run.json", name))
        states.append(_bytes(RunFolder(alone).load_checkpoint()[0]))
    return run, [(run / name).read_bytes() for name in (CHECKPOINT, PREVIOUS)], states


def make(random, valid, folder):
    run, (newest, previous), states = valid
    if not (folder / "broken").exists():
        copied(run, folder / "broken", ("config.json", "run.json", PREVIOUS))
    (folder / "broken" / CHECKPOINT).write_bytes(mutated(random, newest, previous))
    return folder / "broken", *states


def read(given):
    folder, newest, previous = given
    found, complaints = RunFolder(folder).load_checkpoint()
    for complaint in complaints:
        assert CHECKPOINT in complaint
        assert len(complaint) <= _SENTENCE
        assert "\n" not in complaint
    # A splice may be one of the two files.
    assert _bytes(found) in ((previous,) if complaints else (newest, previous))
    assert len(complaints) <= 1


def _bytes(checkpoint):
    file = io.BytesIO()
    checkpoint.write(file)
    return file.getvalue()
