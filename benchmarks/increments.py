"""New classes for a trained encoder: FashionMNIST, five classes and then five more.

An encoder is trained on the first five classes. Then it is given the other five, with `init`, three ways: without any
image of the old classes; with 20 of each; and with 20 of each, class-balanced batches and a frozen backbone. Beside
them: retraining from scratch on all images, and on the images of the last two ways. Accuracy is measured on the whole
test set, for the old and the new classes. Settings were chosen on seed 0, which is not shown.

    python benchmarks/increments.py --json docs/results/increments.json
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from orthoframe.data import Data, load_data
from orthoframe.runs import load_encoder
from orthoframe.training import Settings, train

IMAGES, KEPT, SEEDS = 1000, 20, (1, 2, 3)
BASE: dict[str, Any] = {
    "model": "mlp",
    "epochs": 15,
    "prototypes": True,
    "temperature": (0.1, 0.5),
    "lr": 0.05,
    "augment": False,
    "clean_fraction": 0.0,
    "measure_every": 15,
    "validation": 0.0,
}
_STARTED = {name: value for name, value in BASE.items() if name != "model"}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "new images alone": ("new", {**_STARTED, "lr": 0.01}),
    "new images alone, backbone frozen": ("new", {**_STARTED, "lr": 0.01, "backbone_lr": 0.0}),
    f"{KEPT} old images of each class": ("kept", {**_STARTED, "lr": 0.01}),
    f"{KEPT} old images of each class, balanced batches, backbone frozen": (
        "kept",
        {**_STARTED, "scheme": "balanced", "backbone_lr": 0.0},
    ),
    f"from scratch, {KEPT} old images of each class, balanced batches": ("kept", {**BASE, "scheme": "balanced"}),
    "from scratch, all images": ("all", BASE),
}


def write(path: Path, data: Data, counts: dict[int, int], seed: int) -> str:
    """Some training images of each class, and all test images of these classes, as a file."""
    names, labels, random = np.array(data.train.classes), data.train.labels.numpy(), np.random.default_rng(seed)
    rows = np.concatenate([random.permutation(np.flatnonzero(labels == c))[:n] for c, n in counts.items()])
    tests = np.flatnonzero(np.isin(data.test.labels.numpy(), list(counts)))
    parts = ((data.train, rows, "train"), (data.test, tests, "test"))
    arrays: dict[str, Any] = {f"x_{name}": next(part.batches([index]))[:, 0].numpy() for part, index, name in parts}
    arrays |= {f"y_{name}": names[part.labels.numpy()[index]] for part, index, name in parts}
    np.savez(path, **arrays)
    return f"npz:{path}"


def accuracy(run: Path, data: Data) -> dict[str, float]:
    """Accuracy on the test images of the old and of the new classes, and on all."""
    trained, pixels, labels = load_encoder(run), next(data.test.batches([np.arange(len(data.test))])), data.test.labels
    numbers = torch.tensor([trained.classes.index(name) for name in data.test.classes])
    right = (trained.classify(trained.features(pixels))[1] == numbers[labels]).double()
    return {"old": float(right[labels < 5].mean()), "new": float(right[labels >= 5].mean()), "all": float(right.mean())}


def main() -> None:
    """Train all ways with each seed, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = load_data("fashion-mnist", arguments.data_dir)
    accuracies: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as temporary:
            here = Path(temporary)
            old, new = dict.fromkeys(range(5), IMAGES), dict.fromkeys(range(5, 10), IMAGES)
            kept = dict.fromkeys(range(5), KEPT) | new
            files = {"old": old, "new": new, "kept": kept, "all": old | new}
            names = {name: write(here / f"{name}.npz", data, counts, seed) for name, counts in files.items()}
            train(Settings.of(recipe="plain", **BASE, data=names["old"], seed=seed), here / "first")
            for number, (way, (images, settings)) in enumerate(WAYS.items()):
                init = None if "scratch" in way else here / "first"
                options = {**settings, "data": names[images], "seed": seed, "init": init}
                train(Settings.of(recipe="plain", **options), here / str(number))
                accuracies[way].append(accuracy(here / str(number), data))
    print("| way | old classes | new classes | all |\n|---|---:|---:|---:|")
    for way, results in accuracies.items():
        means = (statistics.fmean(result[part] for result in results) for part in ("old", "new", "all"))
        print(f"| {way} | {' | '.join(f'{mean:.3f}' for mean in means)} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(accuracies, indent=1) + "\n")


if __name__ == "__main__":
    main()
