"""Small runs, and processes that make them, and are killed for real."""

import csv
import json
import os
import signal
import sys
from contextlib import contextmanager
from functools import partial

import pytest
import torch

from orthoframe import measure
from orthoframe.runs import load_encoder
from orthoframe.training import Interrupted, RunListener, Settings, make_task, train
from processes import forked

SMALL = {"majority": 24, "ratio": 2.0, "width": 16, "epochs": 3, "batch_size": 32}
"""A run of a fifth of a second: 180 digits."""


def small(**options):
    return Settings.of(recipe="plain", **{**SMALL, **options})


def noted(notes):
    """A listener that keeps the sentences of a run."""
    return RunListener(on_note=lambda note: notes.append("".join(map(str, note))))


def arguments(**options):
    """The same for the command."""
    options = {"recipe": "plain", **SMALL, **options}
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def rows_of(folder):
    """metrics.csv, with numbers for what is there."""
    with (folder / "metrics.csv").open(newline="") as file:
        return [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(file)]


def json_of(path):
    return json.loads(path.read_text())


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def recomputed(folder):
    """The geometry, the features and the labels of the training images, from what the run handed out."""
    trained = load_encoder(folder)
    task = make_task(Settings.from_dict(json_of(folder / "config.json")))
    assert trained.classes == task.train.classes
    assert trained.normaliser == task.normaliser
    features = trained.features(task.train.pixels)
    if trained.classifier is not None:  # of features of any length
        features = torch.nn.functional.normalize(features, dim=1)
    means = torch.stack([features[task.train.labels == c].double().mean(0) for c in range(len(trained.classes))])
    assert torch.allclose(trained.centres, means, rtol=0, atol=1e-6)  # rows are normalised once more, in float32
    return measure(features, task.train.labels), task


@contextmanager
def started(worker, *values):
    """A process that runs `worker(*values)`."""
    process = forked().Process(target=worker, args=values)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def finished(worker, *values, seconds=60):
    """Its exit status; that of a process that a signal ended is negative."""
    with started(worker, *values) as process:
        process.join(seconds)
        assert process.exitcode is not None, "it did not end"
        return process.exitcode


def command(words, log, save_seconds=None, at_event=None, hangup=signal.SIG_DFL):
    """`orthoframe WORDS` in a process of its own; its output goes to the file `log`.

    Args:
        words: The arguments.
        log: Where both outputs go.
        save_seconds: Between checkpoints; 0 for one after each step.
        at_event: Kills itself with SIGKILL when it is about to open or rename a file in the run folder for the n-th
            time: every moment at which the folder differs from the one before has a number.
        hangup: What a hangup does at first, whether or not these tests run under nohup.
    """
    signal.signal(signal.SIGHUP, hangup)
    torch.set_num_threads(1)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from orthoframe import training
    from orthoframe.cli import main

    if save_seconds is not None:
        for name in ("train", "resume"):
            setattr(training, name, partial(getattr(training, name), save_seconds=save_seconds))
    if at_event is not None:
        _die_at(at_event, words[-1])
    sys.exit(main(words))


def _die_at(number, folder):
    left = number

    def hook(event, details):
        nonlocal left
        if event not in ("open", "os.rename") or not str(details[0]).startswith(folder):
            return
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    sys.addaudithook(hook)


def interrupt(settings, folder, epoch, steps):
    """Ctrl-C, when this many epochs and steps are done."""

    def on_step(loop):
        if (loop.state.epoch, loop.state.steps) == (epoch, steps):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(settings, folder, RunListener(on_step=on_step))


def same(folder, undisturbed):
    """Whether it ended as the other did: bytes of the encoder, and all numbers but the seconds."""
    tables = [[{**row, "seconds": 0} for row in rows_of(path)] for path in (folder, undisturbed)]
    assert tables[0] == tables[1]
    for name in ("geometry.jsonl", "certificate.json", "verdict.json", "config.json", "run.json"):
        if name != "certificate.json" or (undisturbed / name).exists():  # a linear classifier has none
            assert (folder / name).read_bytes() == (undisturbed / name).read_bytes()
    left = {path.name for path in folder.iterdir()}
    assert not [name for name in left if name.startswith(".orthoframe.")]
    return (folder / "encoder.safetensors").read_bytes() == (undisturbed / "encoder.safetensors").read_bytes()
