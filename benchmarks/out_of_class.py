"""Can an image of a class that was not trained be told from the others? Out-of-class scores side by side.

Three of the ten classes are held out of training, other ones in each split, which has a seed of its own. Every test
image then gets each score, and the AUROC says how well it tells images of held-out classes from the rest: 0.5 is
chance, 1 is perfect. Scores: energy outside the block of the winner (`explain(...).outside`); minus the largest cosine
to a class mean; distance to the nearest class mean; how far the proportions inside the block of the winner are from
those of its mean; and, after cross-entropy, minus the largest softmax. A small MLP, the contrastive loss with and
without ReLU, and cross-entropy with ReLU. One thread; about six minutes.

    ORTHOFRAME_DATA=DIR python benchmarks/out_of_class.py --json docs/results/out-of-class.json
"""

import argparse
import json
import math
import platform
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.metrics import roc_auc_score
from torch import Tensor

from orthoframe import explain
from orthoframe.data import Data, LabelledImages, load_data
from orthoframe.runs import RunFolder, TrainedEncoder, load_encoder
from orthoframe.training import Settings, train

DATA = ("digits", "mnist", "fashion-mnist")
HELD_OUT, IMAGES, TEST_IMAGES = 3, 60, 150  # classes; images of a class to train on and to test with
# The temperature rises so that the run with ReLU ends near a frame within its epochs.
MODELS: dict[str, dict[str, Any]] = {
    "relu": {"activation": "relu", "temperature": (0.1, 0.5)},
    "none": {"activation": "none", "temperature": (0.1, 0.5)},
    "cross-entropy": {"activation": "relu", "loss": "cross-entropy"},
}


def held_out(split: int) -> list[int]:
    """Three classes; ten splits in a row hold out each class as often, and no two hold out the same."""
    order = np.random.default_rng(split // 10).permutation(10)
    return sorted(int(order[(split + step) % 10]) for step in (0, 1, 3))


def write_split(path: Path, data: Data, kept: Sequence[int]) -> None:
    """The classes that are trained, as a file of arrays."""
    arrays = {}
    for name, images in (("train", data.train), ("test", data.test)):
        here = np.isin(images.labels.numpy(), kept)
        arrays[f"x_{name}"] = next(images.batches([np.flatnonzero(here)])).numpy().transpose(0, 2, 3, 1)
        arrays[f"y_{name}"] = images.labels.numpy()[here]
    np.savez(path, **arrays)  # type: ignore[arg-type]


def test_part(images: LabelledImages) -> LabelledImages:
    """The first images of every class, so that none counts for more."""
    labels = images.labels.numpy()
    return images.subset(np.concatenate([np.flatnonzero(labels == c)[:TEST_IMAGES] for c in np.unique(labels)]))


def scores_of(trained: TrainedEncoder, folder: Path, pixels: Tensor) -> dict[str, Tensor]:
    """For each score a number an image: the larger, the less it is like any class."""
    features = trained.features(pixels)
    explanation = explain(features, trained.centres)
    cosines = trained.classify(features)[0]
    winning = cosines.gather(1, explanation.winners[:, None])[:, 0]
    scores = {
        "outside": explanation.outside,
        "cosine": -cosines.amax(1),
        "distance": torch.cdist(features.double(), trained.centres).amin(1),
        "proportions": -(winning / (1 - explanation.outside).clamp(min=1e-12).sqrt()),
    }
    checkpoint, _ = RunFolder(folder).load_checkpoint()
    assert checkpoint is not None  # the run has ended
    if "classifier.weight" in checkpoint.weights:
        logits = features @ checkpoint.weights["classifier.weight"].T + checkpoint.weights["classifier.bias"]
        scores["softmax"] = -logits.double().softmax(1).amax(1)
    return scores


def run(data: Data, model: str, split: int, epochs: int, folder: Path) -> dict[str, Any]:
    """Train on seven classes, and score the test images of ten."""
    held = held_out(split)
    kept = [c for c in range(10) if c not in held]
    folder.mkdir()
    write_split(folder / "kept.npz", data, kept)
    settings = Settings.of(
        recipe="plain",
        data=f"npz:{folder / 'kept.npz'}",
        imbalance="none",
        majority=IMAGES,
        test_images=TEST_IMAGES,
        epochs=epochs,
        measure_every=epochs,
        precision="32",
        seed=split,
        **MODELS[model],
    )
    start = time.perf_counter()
    result = train(settings, folder / "run")
    seconds = time.perf_counter() - start
    assert result is not None
    test = test_part(data.test)
    foreign = np.isin(test.labels.numpy(), held)
    scores = scores_of(load_encoder(folder / "run"), folder / "run", next(test.batches([np.arange(len(test))])))
    return {
        "data": data.name,
        "model": model,
        "split": split,
        "held_out": [data.train.classes[c] for c in held],
        "seconds": seconds,
        "delta_of": result.evaluation.geometry.delta_of,
        "accuracy": result.diagnosis.test.accuracy.balanced,
        "median_outside": {
            "trained": float(scores["outside"][torch.from_numpy(~foreign)].median()),
            "held_out": float(scores["outside"][torch.from_numpy(foreign)].median()),
        },
        # Rounded: the last digits of a sum must not rank images that are alike.
        "auroc": {
            name: float(roc_auc_score(foreign, values.double().numpy().round(9))) for name, values in scores.items()
        },
    }


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval (Student)."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return float(np.mean(values)), float(stats.t.ppf(0.975, len(values) - 1)) * spread / math.sqrt(len(values))


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means with intervals over the splits, and the paired difference of the block's score and the cosine."""
    lines = []
    for data in dict.fromkeys(run["data"] for run in runs):
        for model in MODELS:
            some = [run for run in runs if (run["data"], run["model"]) == (data, model)]
            line: dict[str, Any] = {"data": data, "model": model}
            for name in ("delta_of", "accuracy"):
                line[name] = float(np.mean([run[name] for run in some]))
            for name in some[0]["auroc"]:
                line[name] = interval([run["auroc"][name] for run in some])
            line["outside - cosine"] = interval([run["auroc"]["outside"] - run["auroc"]["cosine"] for run in some])
            lines.append(line)
    return lines


def main() -> None:
    """Run everything and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA, help="data sets")
    parser.add_argument("--splits", type=int, default=6, help="of the classes, each with its own seed")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.data:
            data = load_data(name)
            for split in range(arguments.splits):
                for model in MODELS:
                    runs.append(run(data, model, split, arguments.epochs, Path(folder) / f"{name}-{split}-{model}"))
    lines = summary(runs)
    for line in lines:
        cells = [f"{name} {value[0]:.3f} ± {value[1]:.3f}" for name, value in line.items() if isinstance(value, tuple)]
        print(f"{line['data']}, {line['model']} (Delta {line['delta_of']:.3f}, accuracy {line['accuracy']:.3f}):")
        print("  " + ", ".join(cells))
    seconds = time.perf_counter() - start
    print(f"{len(runs)} runs of {np.mean([run['seconds'] for run in runs]):.1f} s; {seconds:.0f} s")
    if arguments.json:
        machine = platform.processor() or platform.machine()
        report = {"machine": machine, "torch": torch.__version__, "seconds": seconds, "summary": lines, "runs": runs}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
