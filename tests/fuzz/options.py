"""The command line: options with hostile values, through the real entry function. Nothing is trained."""

import contextlib
import io
import os
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Annotated, Literal, get_args, get_origin

import numpy as np
from tests.fuzz.mutations import Target, choice

from orthoframe.cli import main

_LONGEST = 300
_NUMBERS = "0 1 2 -1 1.5 nan inf -inf 1e400 1e-320 99999999999999999999 0x10 1_000 0.1:0.5 0.1:0.5:0.9 : 1: 5x3 3x"
_WORDS = "x none None True é -- --json -h [] . / labels.npy x.png x.html missing/x.png npz: folder:missing ~nobody/x"
_VALUES = (*_NUMBERS.split(), *_WORDS.split(), "", "a\nb", "\x00", "\ud800", "x" * 500, "a" * 300 + ".png")
_START = {
    "train": ["--data", "npz:missing.npz"],
    "predict": ["missing"],
    "evaluate": ["missing", "digits"],
    "export": ["missing"],
    "report": ["missing"],
    "embed": ["missing", "--backbone", "hf:missing", "--out", "embedded"],
    "fit": ["missing.npz", "--out", "fitted"],
    "certify": ["labels.npy"],
    "measure": ["features.npy", "labels.npy"],
    "ufm": ["--counts", "3x2", "--starts", "1"],
    "playground": [],
}
# Long because they are asked to be, or they would train.
_LEFT_OUT = {"train": {"data"}, "ufm": {"counts", "starts", "epochs"}, "certify": {"epochs"}}


def prepare(folder):
    verbs = {}
    for verb in _START:
        module = import_module(f"orthoframe.cli.{verb}")
        make_command = getattr(module, "make_command", lambda _: None)
        command = make_command([]) or getattr(module, f"{verb.capitalize()}Command")
        left_out = _LEFT_OUT.get(verb, set())
        options = [field for field in _options(command) if field.name not in left_out]
        verbs[verb] = [(field.name.replace("_", "-"), _choices(field.type)) for field in options]
    return verbs


def _options(command):
    """Its fields, and those of groups of options among them."""
    for field in fields(command):
        group = get_args(field.type)[0] if get_origin(field.type) is Annotated else None
        yield from fields(group) if is_dataclass(group) else [field]


def _choices(kind):
    """The values of a Literal, however deep it is in the type."""
    if get_origin(kind) is Literal:
        return tuple(value for value in get_args(kind) if isinstance(value, str))
    return next(filter(None, map(_choices, get_args(kind))), ())


def make(random, verbs, folder):
    verb = choice(random, list(_START))
    words = [verb, *(_START[verb] if random.random() < 0.95 else [])]
    for _ in range(int(random.integers(0, 4)) if verbs[verb] else 0):
        name, choices = choice(random, verbs[verb])
        words.append(f"--{'no-' * (random.random() < 0.1)}{name}")
        if random.random() < 0.8:
            words.append(choice(random, choices if choices and random.random() < 0.7 else _VALUES))
    if random.random() < 0.1:
        words.insert(int(random.integers(len(words) + 1)), choice(random, _VALUES))
    if words[0] == "train" and words[1:3] != _START["train"]:
        words = ["train", "--help"]  # it might train
    np.save(folder / "labels.npy", np.array([0, 0, 1, 1]))
    np.save(folder / "features.npy", np.eye(4))
    return words, folder


def read(case):
    words, folder = case
    before, out, err = os.getcwd(), io.StringIO(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status, parsed = main(words), True
    except SystemExit as stopped:
        status, parsed = stopped.code, False
    finally:
        os.chdir(before)
    said = err.getvalue()
    assert status in (0, 1, 2), words
    assert "unexpected" not in said, (words, said)
    assert "Traceback" not in said, (words, said)
    if status == 2 and parsed:  # what cannot be parsed is shown in a box, with where to find help
        lines = [line for line in said.split("\n") if line]
        assert lines, words
        assert all(line.startswith("orthoframe: ") for line in lines), (words, said)
        assert all(len(line) <= len("orthoframe: ") + _LONGEST for line in lines), (words, said)


TARGETS = {"options": Target((), 1, prepare, make, read)}
