"""New classes for a trained encoder: FashionMNIST, five classes and then five more.

An encoder is trained on the first five classes. Then it is given the other five, with `init`, three ways: without any
image of the old classes; with 20 of each; and with 20 of each, class-balanced batches and a frozen backbone. Beside
them: retraining from scratch on all images, and on the images of the last two ways. Accuracy is measured on the whole
test set, for the old and the new classes. Settings were chosen on seed 0, which is not shown.

    python benchmarks/increments.py --json docs/results/increments.json

With --pictures: the default of one's own pictures, a convolutional network with a linear classifier, at equal numbers
of steps. A run goes on with five times the images, or with five more classes, beside runs that start anew on all of
them; and features of a run on five classes, by `embed`, tell five others apart, beside a run on these.

    python benchmarks/increments.py --pictures --json docs/results/increments-pictures.json
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score

from orthoframe.data import Data, load_data
from orthoframe.runs import load_encoder
from orthoframe.sklearn import FrameClassifier
from orthoframe.training import Settings, train

IMAGES, KEPT, SEEDS = 1000, 20, (1, 2, 3)
MANY, TESTS, STEPS = 300, 200, 300
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


def write(path: Path, data: Data, counts: dict[int, int], seed: int, tests: int | None = None) -> str:
    """Some training images of each class, and all or the first test images of these classes, as a file."""
    names, labels, random = np.array(data.train.classes), data.train.labels.numpy(), np.random.default_rng(seed)
    rows = np.concatenate([random.permutation(np.flatnonzero(labels == c))[:n] for c, n in counts.items()])
    tested = np.concatenate([np.flatnonzero(data.test.labels.numpy() == c)[:tests] for c in counts])
    parts = ((data.train, rows, "train"), (data.test, tested, "test"))
    arrays: dict[str, Any] = {f"x_{name}": next(part.batches([index]))[:, 0].numpy() for part, index, name in parts}
    arrays |= {f"y_{name}": names[part.labels.numpy()[index]] for part, index, name in parts}
    np.savez(path, **arrays)
    return f"npz:{path}"


def pictures(data: Data, seed: int, here: Path) -> dict[str, float]:
    """Balanced test accuracies of the ways with the default of one's own pictures."""
    names = {
        name: write(here / f"{name}.npz", data, counts, seed, tests=TESTS)
        for name, counts in {
            "first": dict.fromkeys(range(5), MANY),
            "others": dict.fromkeys(range(5, 10), MANY),
            "few": dict.fromkeys(range(10), MANY // 5),
            "all": dict.fromkeys(range(10), MANY),
        }.items()
    }

    def trained(way: str, images: str, steps: int = STEPS, **options: Any) -> float:
        settings = Settings.of(recipe="accurate", data=names[images], seed=seed, steps=steps, **options)
        result = train(settings, here / way)
        assert result is not None  # this is the first process
        return result.diagnosis.test.accuracy.balanced

    trained("first", "first")
    trained("few", "few")
    ways = {
        "all images, anew": trained("anew", "all"),
        "all images, anew, twice the steps": trained("twice", "all", 2 * STEPS),
        "all images, from a run on a fifth of them": trained("from few", "all", init=here / "few"),
        "all images, from a run on five classes": trained("from first", "all", init=here / "first"),
        "five other classes, anew": trained("others", "others"),
        "five other classes, from the run on the first five": trained("from", "others", init=here / "first"),
    }
    encoder, arrays = load_encoder(here / "first"), np.load(names["others"].partition(":")[2])
    for name, network in (("backbone", encoder.encoder.backbone), ("head", encoder.encoder)):
        with torch.no_grad():
            x, y = (
                network(encoder.normaliser(torch.from_numpy(arrays[part][:, None]))).numpy()
                for part in ("x_train", "x_test")
            )
        predicted = FrameClassifier(random_state=seed).fit(x, arrays["y_train"]).predict(y)
        way = f"five other classes, FrameClassifier on features of the {name} of that run"
        ways[way] = float(balanced_accuracy_score(arrays["y_test"], predicted))
    return ways


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
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = load_data("fashion-mnist", arguments.data_dir)
    if arguments.pictures:
        found = []
        for seed in arguments.seeds:
            with tempfile.TemporaryDirectory() as temporary:
                found.append(pictures(data, seed, Path(temporary)))
            print(found[-1], flush=True)
        print(f"| way | {' | '.join(f'seed {seed}' for seed in arguments.seeds)} | mean |")
        for way in found[0]:
            row = [each[way] for each in found]
            print(f"| {way} | {' | '.join(f'{value:.3f}' for value in (*row, statistics.fmean(row)))} |")
        if arguments.json:
            arguments.json.write_text(
                json.dumps(dict(zip(map(str, arguments.seeds), found, strict=True)), indent=1) + "\n"
            )
        return
    accuracies: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for seed in arguments.seeds:
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
