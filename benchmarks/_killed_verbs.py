"""What verbs other than `train` write, and how it is compared after a kill: embed, fit, export and study."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from orthoframe.data import load_data

IMAGES = 120


@dataclass(frozen=True)
class Verb:
    """A command, and the files that it must leave whole.

    Attributes:
        words: The command that reads a folder with `pictures`, `features.npz` and the run `run`, and writes to another.
        contents: What it has written, by name; only finished files.
    """

    words: Callable[[Path, Path], list[str]]
    contents: Callable[[Path], dict[str, Any]]


def prepare(folder: Path) -> None:
    """Write the inputs of all verbs but the run: pictures of digits, and a table of features."""
    digits = load_data("digits").train
    pixels = digits.pixels
    assert isinstance(pixels, torch.Tensor)  # they are embedded
    for number in range(IMAGES):
        name = folder / "pictures" / str(int(digits.labels[number])) / f"{number}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(pixels[number, 0])).save(name)
    rows = pixels.flatten(1).float().numpy()
    np.savez(folder / "features.npz", x=rows, y=digits.labels.numpy())


def _bytes(out: Path) -> dict[str, Any]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if _counts(path)}


def _counts(path: Path) -> bool:
    return path.is_file() and not path.name.endswith(".lock")


def _arrays(out: Path) -> dict[str, Any]:
    """Features by shard; a half-written archive cannot be read."""
    shards = {path.name: dict(np.load(path)) for path in sorted(out.glob("features-*.npz"))}
    return {f"{shard} {name}": array.tobytes() for shard, arrays in shards.items() for name, array in arrays.items()}


def _numbers(out: Path) -> dict[str, Any]:
    """What the runs of a study ended with, but for their seconds."""
    path = out / "floor.json"
    if not path.exists():
        return {}
    cells = json.loads(path.read_text())["cells"]
    ends = {
        f"{number} {seed}": run["final"] for number, cell in enumerate(cells) for seed, run in cell["results"].items()
    }
    return {name: {key: value for key, value in final.items() if key != "seconds"} for name, final in ends.items()}


VERBS = {
    "embed": Verb(
        lambda inputs, out: [
            *("embed", f"folder:{inputs / 'pictures'}", "--backbone", f"run:{inputs / 'run'}"),
            *("--out", str(out), "--shard-size", "8", "--workers", "1"),
        ],
        _arrays,
    ),
    "fit": Verb(
        lambda inputs, out: ["fit", str(inputs / "features.npz"), "--out", str(out), "--epochs", "5"],
        _bytes,
    ),
    "export": Verb(
        lambda inputs, out: ["export", str(inputs / "run"), "--onnx", str(out / "graph.onnx")],
        _bytes,
    ),
    "study": Verb(
        lambda inputs, out: [
            *("study", "floor", "--scale", "smoke", "--workers", "1"),
            *("--store", str(out / "store"), "--out", str(out)),
        ],
        _numbers,
    ),
}
