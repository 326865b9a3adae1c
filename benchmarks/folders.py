"""Balanced accuracy on folders of pictures in a given time, by our command as a user gets it and by others' scripts.

Folders are written from data sets, with a long tail; which classes are small differs from seed to seed. Ours is
`orthoframe train --data folder:... --minutes M` and nothing else: start-up, reading, measuring and the report are in
its time. The opponents are the script that an expert writes in an hour, with the network and the batch size of our run,
and mirror images where ours has them: cross-entropy with class-balanced draws, or balanced softmax; rate 0.05, shifts
of up to an eighth, a cosine schedule over the time; all training images, and their time ends before the test images
are classified.

The method backbone is ours with `--backbone efficientnet-lite0`, which takes as long as it takes; linear embeds the
folder with the same backbone by `orthoframe embed`, and fits linear models of scikit-learn and `FrameClassifier` to its
features, which are standardised.

Runs are kept in a file as they end, and are not run twice:

    OMP_NUM_THREADS=1 python benchmarks/folders.py --json docs/results/folders.json --npz FILE.npz --minutes 2 10
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import Tensor, nn

from orthoframe.data import PROFILES, Augment, imbalanced_indices, load_data
from orthoframe.embedding import read_embedding
from orthoframe.encoders import make_encoder
from orthoframe.sklearn import FrameClassifier

METHODS = ("ours", "cross-entropy", "balanced-softmax", "backbone", "linear")
_BACKBONE = ["--backbone", "efficientnet-lite0"]
_LR, _MOMENTUM, _DECAY, _WARM_UP = 0.05, 0.9, 5e-4, 0.05
_FEWEST = 2  # images of a class
_COMMAND = "import sys; from orthoframe.cli import main; sys.exit(main())"
_BUSY = (
    "import time; time.monotonic = time.perf_counter = time.process_time; "
    "import orthoframe.cli._training as run; run.seconds_since_start = time.process_time; "
)


@dataclass(frozen=True)
class Source:
    """Where the pictures of a folder come from."""

    data: str
    ratio: float  # of the largest to the smallest class
    largest: int  # images
    classes: tuple[int, int] = (0, 1000)  # the first of the shuffled classes, and the one after the last
    coloured: bool = False


SOURCES = {
    "photographs, 20 classes": Source("npz", 10, 150, (0, 20)),
    "photographs, 43 classes": Source("npz", 10, 150, (20, 63)),
    "photographs, 37 classes": Source("npz", 5, 150, (63, 100)),
    "photographs, 100 classes": Source("npz", 50, 150),
    "clothes": Source("fashion-mnist", 100, 1000, coloured=True),
    "digits": Source("mnist", 100, 500, coloured=True),
    "cifar10": Source("cifar10", 10, 2000),
    "cifar10, 100": Source("cifar10", 100, 2000),
}
"""Folders by name."""
CHOSEN_ON = "photographs, 20 classes"
"""The folder on which choices were made; it judges nothing."""
_MARK = "<!-- what follows is written by benchmarks/folders.py -->"


def write_folder(source: Source, npz: Path, folder: Path, seed: int) -> None:
    """Write `train` and `test` with a sub-folder of PNG files for each class."""
    data = load_data(f"npz:{npz}" if source.data == "npz" else source.data)
    names = data.train.classes
    chosen = np.random.default_rng(0).permutation(len(names))[slice(*source.classes)]
    random = np.random.default_rng(seed)
    sizes = [0] * len(names)
    profile = PROFILES["long-tail"](len(chosen), source.largest, source.ratio)
    for label, size in zip(random.permutation(chosen), profile, strict=True):
        sizes[label] = max(_FEWEST, size)
    train = data.train.subset(imbalanced_indices(data.train.labels, sizes, seed=seed))
    test = data.test.subset(np.flatnonzero(np.isin(data.test.labels.numpy(), chosen)))
    for part, images in (("train", train), ("test", test)):
        assert isinstance(images.pixels, Tensor)
        for number, (pixels, label) in enumerate(zip(images.pixels, images.labels.tolist(), strict=True)):
            place = folder / part / f"{label:03d}-{names[label].replace('/', ' ')}"
            place.mkdir(parents=True, exist_ok=True)
            array = pixels.permute(1, 2, 0).numpy()
            if source.coloured:
                array = (array * random.uniform(0.3, 1.0, 3)).astype(np.uint8)
            Image.fromarray(array.squeeze()).save(place / f"{number:06d}.png")


def ours(folder: Path, minutes: float, seed: int, out: Path, more: list[str], *, busy: bool) -> dict[str, Any]:
    """Our command, in a process of its own."""
    begun = time.monotonic()
    command = _BUSY + _COMMAND if busy else _COMMAND
    length = [] if "--backbone" in more else ["--minutes", str(minutes)]
    options = ["--data", f"folder:{folder}", *length, "--seed", str(seed), "--out", str(out), *more]
    subprocess.run([sys.executable, "-c", command, "train", *options], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - begun
    config, verdict = (json.loads((out / f"{name}.json").read_text()) for name in ("config", "verdict"))
    decided = {name: config.get(name) for name in ("model", "width", "batch_size", "flip", "epochs", "steps")}
    return {"accuracy": verdict["test"]["accuracy"]["balanced"], "seconds": seconds, **decided}


def expert(
    folder: Path, minutes: float, seed: int, network: dict[str, Any], *, softmax: bool, busy: bool
) -> dict[str, Any]:
    """Cross-entropy with class-balanced draws, or balanced softmax, for as long as there is time."""
    clock = time.process_time if busy else time.monotonic
    begun = clock()
    torch.manual_seed(seed)
    random, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    (train, labels), (test, truth) = (_read(folder / part) for part in ("train", "test"))
    counts = torch.bincount(labels)
    mean, std = (value.view(1, -1, 1, 1) for value in _scale(train))
    encoder = make_encoder(network["model"], train.shape[1:], network["width"])
    model = nn.Sequential(encoder, nn.Linear(encoder.out_features, len(counts)))
    optimizer = torch.optim.SGD(model.parameters(), _LR, _MOMENTUM, weight_decay=_DECAY, nesterov=True)
    augment = Augment(train.shape[2] // 8, flip=network["flip"])
    offset = counts.log() if softmax else torch.zeros(len(counts))
    chances = np.ones(len(labels)) if softmax else (1 / counts[labels]).numpy().astype(np.float64)
    progress, steps = 0.0, 0
    while progress < 1:
        for group in optimizer.param_groups:
            group["lr"] = _LR * min(1.0, progress / _WARM_UP) * (1 + math.cos(math.pi * progress)) / 2
        rows = torch.from_numpy(random.choice(len(labels), network["batch_size"], p=chances / chances.sum()))
        scores = model((augment(train[rows], generator).float() - mean) / std)
        optimizer.zero_grad()
        loss: Any = F.cross_entropy(scores + offset, labels[rows])
        loss.backward()
        optimizer.step()
        progress, steps = (clock() - begun) / (60 * minutes), steps + 1
    seconds = clock() - begun
    model.eval()
    with torch.no_grad():
        predicted = torch.cat([model((part.float() - mean) / std).argmax(1) for part in torch.split(test, 500)])
    by_class = [float((predicted[truth == label] == label).float().mean()) for label in range(len(counts))]
    return {"accuracy": fmean(by_class), "seconds": seconds, "steps": steps}


def linear(folder: Path, seed: int, out: Path) -> dict[str, Any]:
    """Classifiers of the features of the backbone, with scikit-learn's usual values where they have one."""
    embedded = [sys.executable, "-c", _COMMAND, "embed", f"folder:{folder}", *_BACKBONE, "--out", str(out / "features")]
    subprocess.run(embedded, check=True, stdout=subprocess.DEVNULL)
    stored = read_embedding(out / "features")
    assert stored.labels is not None
    features, labels, test = stored.features, stored.labels, np.array(stored.splits) == "test"
    classes = len(np.unique(labels))
    accuracies: dict[str, Any] = {}
    for name, model in {
        "logistic regression": LogisticRegression(class_weight="balanced", max_iter=1000),
        "logistic regression, C 0.001": LogisticRegression(C=0.001, class_weight="balanced", max_iter=1000),
        "LinearSVC, C 0.001": LinearSVC(C=0.001, class_weight="balanced"),
        "LDA": LinearDiscriminantAnalysis("lsqr", "auto", np.full(classes, 1 / classes)),
        "FrameClassifier": FrameClassifier(random_state=seed),
    }.items():
        begun = time.process_time()
        chosen = make_pipeline(StandardScaler(), model).fit(features[~test], labels[~test]).predict(features[test])
        seconds = time.process_time() - begun
        accuracies[name] = {"accuracy": balanced_accuracy_score(labels[test], chosen), "seconds": seconds}
    return accuracies


def _read(folder: Path) -> tuple[Tensor, Tensor]:
    """Pixels and labels."""
    files = [(file, label) for label, each in enumerate(sorted(folder.iterdir())) for file in sorted(each.iterdir())]
    arrays: list[NDArray[np.uint8]] = [np.array(Image.open(file)) for file, _ in files]
    pixels = torch.from_numpy(np.stack(arrays))
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    return pixels.contiguous(), torch.tensor([label for _, label in files])


def _scale(pixels: Tensor) -> tuple[Tensor, Tensor]:
    values = pixels.float()
    return values.mean((0, 2, 3)), values.std((0, 2, 3))


def run_all(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each run that is not in the file yet, by its key."""
    done = _done(arguments.json)
    for minutes, seed, name in product(arguments.minutes, arguments.seeds, arguments.folders):
        keys = {method: f"{name} | {minutes:g} min | {method} | {seed}" for method in arguments.methods}
        mine = f"{name} | {minutes:g} min | ours | {seed}"
        if all(key in done for key in keys.values()):
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "pictures"
            write_folder(SOURCES[name], arguments.npz, folder, seed)
            for method, key in keys.items():
                if key in done:
                    continue
                if method == "linear":
                    done[key] = linear(folder, seed, Path(place) / method)
                elif method not in METHODS[1:3]:
                    more = arguments.more + (_BACKBONE if method == "backbone" else [])
                    done[key] = ours(folder, minutes, seed, Path(place) / method, more, busy=arguments.busy)
                else:
                    network = done.get(mine, arguments.network)
                    softmax = method == "balanced-softmax"
                    done[key] = expert(folder, minutes, seed, network, softmax=softmax, busy=arguments.busy)
                shutil.rmtree(Path(place) / method, ignore_errors=True)
                yield key, done[key]


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page: a table for each budget, of means over seeds with their deviations."""
    runs: dict[tuple[str, str, str], dict[int, float]] = {}
    for key, result in results.items():
        name, budget, method, seed = key.split(" | ")
        runs.setdefault((budget, name, method), {})[int(seed)] = result["accuracy"]
    lines = []
    for budget in dict.fromkeys(budget for budget, _, _ in runs):
        methods = [method for method in METHODS if any((budget, name, method) in runs for name in SOURCES)]
        lines += ["", f"## {budget} of one core", ""]
        lines += [f"| folder | R | seeds | {' | '.join(methods)} | ours less the best of the others |"]
        lines += ["|---|---:|---:|" + "---:|" * (len(methods) + 1)]
        for name in SOURCES:
            values = {method: runs.get((budget, name, method), {}) for method in methods}
            seeds = sorted(set.intersection(*map(set, values.values())))
            if seeds:
                means = {method: fmean(each[seed] for seed in seeds) for method, each in values.items()}
                spreads = (pstdev([each[seed] for seed in seeds]) for each in values.values())
                cells = [f"{mean:.3f} ± {spread:.3f}" for mean, spread in zip(means.values(), spreads, strict=True)]
                ahead = means["ours"] - max(mean for method, mean in means.items() if method != "ours")
                marked = f"{name} (looked at for choices)" if name == CHOSEN_ON else name
                columns = [marked, f"{SOURCES[name].ratio:g}", str(len(seeds)), *cells, f"{ahead:+.3f}"]
                lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def _done(file: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="what was measured; runs in it are not run again")
    parser.add_argument("--table", type=Path, help="Markdown file to write the tables to")
    parser.add_argument("--npz", type=Path, help="100 classes of 32 x 32 photographs")
    parser.add_argument("--minutes", type=float, nargs="+", default=[2.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--folders", nargs="+", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--methods", nargs="+", default=METHODS[:3], help="another name is ours, in another version")
    parser.add_argument("--more", default=[], type=str.split, help="options of our command, to try them")
    parser.add_argument("--busy", action="store_true", help="count seconds of the processor, on a busy machine")
    arguments = parser.parse_args()
    arguments.network = {"model": "conv6-quarters", "width": 16, "batch_size": 32, "flip": False}
    return arguments


def main() -> None:
    """Run, and print each result."""
    arguments = _options()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    for key, result in run_all(arguments):
        results = _done(arguments.json) | {key: result}
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
        print(key, json.dumps(result), flush=True)
    if arguments.table:
        text = arguments.table.read_text().split(_MARK)[0] if arguments.table.exists() else ""
        arguments.table.write_text(f"{text}{_MARK}\n{page(_done(arguments.json))}")


if __name__ == "__main__":
    main()
