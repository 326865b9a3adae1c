"""Hostile files of runs."""

import hashlib
import io
import json
import os
import shutil

import numpy as np
import torch
from safetensors.torch import load, save
from tests.fuzz.mutations import Target, choice, mutated, mutated_json

from orthoframe.errors import InputError, OrthoframeError
from orthoframe.reporting import write_report
from orthoframe.runs import CHECKPOINT, PREVIOUS, RunFolder, read_run
from orthoframe.training import RunListener, Settings, resume, train

_SETTINGS = {"imbalance": "none", "width": 4, "epochs": 2, "batch_size": 4, "augment": False, "model": "mlp"}


def small_run(folder):
    """A run of two epochs on eight images; its folder. Its last two checkpoints are both there."""
    random = np.random.default_rng(0)
    np.savez(folder / "images.npz", x=random.integers(256, size=(10, 2, 3), dtype=np.uint8), y=np.arange(10) % 2)
    settings = Settings.of(recipe="plain", data=f"npz:{folder / 'images.npz'}", **_SETTINGS)
    train(settings, folder / "run", RunListener())
    return folder / "run"


_TABLES = ("metrics.csv", "geometry.jsonl")
_RESUMED = ("config.json", "run.json", *_TABLES)


def copied(run, folder, names):
    """A folder with these files alone: links, so that one that is to be changed must be replaced; tables grow."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        (shutil.copy if name in _TABLES else os.link)(run / name, folder / name)
    return folder


_SENTENCE = 300


def prepare_checkpoint(folder):
    run, states = small_run(folder), []
    for name in (CHECKPOINT, PREVIOUS):
        alone = copied(run, folder / "alone", (*_RESUMED, name))
        states.append(_bytes(RunFolder(alone).load_checkpoint()[0]))
    return run, [(run / name).read_bytes() for name in (CHECKPOINT, PREVIOUS)], states


def hostile_checkpoint(random, valid, folder):
    run, (newest, previous), states = valid
    if not (folder / "broken").exists():
        copied(run, folder / "broken", (*_RESUMED, PREVIOUS))
    (folder / "broken" / CHECKPOINT).write_bytes(mutated(random, newest, previous))
    return folder / "broken", *states


def check_checkpoint(case):
    folder, newest, previous = case
    checkpoint, complaints = RunFolder(folder).load_checkpoint()
    for complaint in complaints:
        assert CHECKPOINT in complaint
        assert len(complaint) <= _SENTENCE
        assert "\n" not in complaint
    # A splice may be one of the two files.
    assert _bytes(checkpoint) in ((previous,) if complaints else (newest, previous))
    assert len(complaints) <= 1


def _bytes(checkpoint):
    file = io.BytesIO()
    checkpoint.write(file)
    return file.getvalue()


_TENSORS = (torch.zeros(0), torch.zeros(3, 3), torch.tensor(float("nan")), torch.zeros(2, dtype=torch.int8))
_DIGEST = 32  # bytes of the checksum


def prepare_resumed(folder):
    return small_run(folder)


def hostile_resumed(random, run, folder):
    broken = copied(run, folder / "broken", (*_RESUMED, PREVIOUS))
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


def check_resumed(case):
    folder, expected = case
    resume(folder, RunListener())
    encoder = (folder / "encoder.safetensors").read_bytes()
    assert expected is None or encoder == expected


_FILES = ("config.json", "metrics.csv", "geometry.jsonl", "certificate.json", "verdict.json", "run.json")
_REPORTED = 0.05  # of the reports, which take longest


def prepare_run(folder):
    return small_run(folder)


def hostile_run(random, run, folder):
    name = choice(random, _FILES)
    broken = copied(run, folder / "broken", [other for other in _FILES if other != name])
    data = (run / name).read_bytes()
    if name.endswith(".json"):
        data = mutated_json(random, json.loads(data)).encode()
    elif name.endswith(".jsonl"):
        lines = data.splitlines()
        lines[0] = mutated_json(random, json.loads(lines[0])).encode()
        data = b"\n".join(lines)
    if name.endswith(".csv") or random.random() < 0.2:
        data = mutated(random, data, b"1,2\n")
    (broken / name).write_bytes(data)
    return broken, random.random() < _REPORTED


def check_run(case):
    folder, written = case
    run = read_run(folder)
    assert run.epochs
    if written:
        page = io.BytesIO()
        write_report([run], page)
        assert page.getvalue().rstrip().endswith(b"</html>")


TARGETS = {
    "checkpoint": Target((), 18, prepare_checkpoint, hostile_checkpoint, check_checkpoint),
    "resumed": Target((OrthoframeError,), 0.2, prepare_resumed, hostile_resumed, check_resumed),
    "run": Target((InputError,), 10, prepare_run, hostile_run, check_run),
}
