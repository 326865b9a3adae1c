"""Which score tells images of no known class from the others? And how many known ones does `--reject` refuse?

An encoder is trained on one data set and looks at test images of it and of another: CIFAR-10 and CIFAR-100, MNIST and
FashionMNIST, FashionMNIST and MNIST. AUROC (0.5 is chance, 1 perfect) and the fraction of unknown images that are taken
for known ones when 95 % of the known ones are (FPR at 95 %, smaller is better). Two networks with the same steps: the
recipe for one's own images (frame term, and a linear classifier beside it), and cross-entropy.

Scores, the larger the more like a known class: the largest cosine of features before the head to a class mean, and the
energy of these cosines, logsumexp(cosines / 0.1); the largest cosine to an axis of the frame (after cross-entropy, to a
class mean), the energy of these, and minus the distance to the nearest; the largest softmax, the energy and the largest
score of the linear classifier.

Every other image, with seed 0, is for choosing a score; the others, with the other seeds, judge. Then the threshold of
`predict --reject ERROR` is fitted to validation images, and the fraction is counted of known test images that are
refused (of all classes, and of the worst), and of unknown ones. One thread. Runs are kept in the file as they end:

    ORTHOFRAME_DATA=DIR python benchmarks/unknown.py --json docs/results/unknown.json
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

from orthoframe.data import LabelledImages, load_data
from orthoframe.geometry import NearestCentre
from orthoframe.options import TEMPERATURE
from orthoframe.runs import TrainedEncoder, load_encoder
from orthoframe.training import Settings, train

PAIRS = {"cifar10": "cifar100", "mnist": "fashion-mnist", "fashion-mnist": "mnist"}
MODELS = {"frame": "frame", "cross-entropy": "cross-entropy"}
STEPS = {"cifar10": 1200, "mnist": 600, "fashion-mnist": 600}
IMAGES, TEST = 1000, 200  # of a class, to train on and to test with
OURS = "cosine before the head"
ERRORS = (0.01, 0.05, 0.1)


def trained_on(data: str, model: str, seed: int) -> tuple[TrainedEncoder, float]:
    """The encoder of a run, and the seconds of the processor that it took."""
    start = time.process_time()
    settings = Settings.of(
        recipe="accurate",
        data=data,
        loss=MODELS[model],
        imbalance="none",
        majority=IMAGES,
        test_images=TEST,
        validation=0.1,
        model="conv6-quarters",
        width=8,
        batch_size=32,
        lr=0.05,
        steps=STEPS[data],
        measure_every=20,
        precision="32",
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        train(settings, Path(folder) / "run")
        return load_encoder(Path(folder) / "run"), time.process_time() - start


def images_of(images: LabelledImages, each: int) -> tuple[Tensor, Tensor]:
    """Pixels and labels of the first images of every class."""
    labels = images.labels.numpy()
    part = images.subset(np.concatenate([np.flatnonzero(labels == c)[:each] for c in np.unique(labels)]))
    return next(part.batches([np.arange(len(part))])), part.labels


def scores_of(trained: TrainedEncoder, pixels: Tensor) -> dict[str, Tensor]:
    """For each score one number per image; the larger, the more the image is like one of a known class."""
    before = trained.rows_before_head(pixels)
    features = trained.features_of(before)
    rows = trained.framed(features)
    cosines = NearestCentre(trained.centres).scores(rows)
    linear = trained.rule.scores(features)
    assert trained.calibration is not None
    assert trained.familiarity is not None
    return {
        "cosine before the head": trained.familiarity.of(before),
        "energy before the head": (NearestCentre(trained.familiarity.means).scores(before) / TEMPERATURE).logsumexp(1),
        "largest cosine": cosines.amax(1),
        "energy of cosines": (cosines / TEMPERATURE).logsumexp(1),
        "distance": -torch.cdist(rows.double(), trained.centres.double()).amin(1),
        "largest softmax": trained.calibration.confidences(linear).amax(1),
        "energy": linear.logsumexp(1),
        "largest score": linear.amax(1),
    }


def run(data: str, model: str, seed: int, npz: Path | None) -> dict[str, Any]:
    """Train, and score known and unknown images."""
    trained, seconds = trained_on(data, model, seed)
    known, unknown = load_data(data).test, load_data(f"npz:{npz}" if npz and data == "cifar10" else PAIRS[data]).test
    known_pixels, truth = images_of(known, TEST)
    unknown_pixels, _ = images_of(unknown, TEST * len(known.classes) // len(unknown.classes))
    known_scores, unknown_scores = scores_of(trained, known_pixels), scores_of(trained, unknown_pixels)
    right = trained.classify(trained.features(known_pixels))[1] == truth
    part = slice(int(seed > 0), None, 2)
    assert trained.familiarity is not None
    refused = {}
    for error in ERRORS:
        threshold = trained.familiarity.threshold(error)
        low, high = (known_scores[OURS] < threshold).double(), (unknown_scores[OURS] < threshold).double()
        by_class = [float(low[truth == c].mean()) for c in range(len(known.classes))]
        refused[str(error)] = {"known": float(low.mean()), "worst class": max(by_class), "unknown": float(high.mean())}
    return {
        "data": data,
        "model": model,
        "seed": seed,
        "seconds": seconds,
        "accuracy": float(right.double().mean()),
        "validation_images": len(trained.familiarity.held_out),
        "scores": {name: detection(known_scores[name][part], unknown_scores[name][part]) for name in known_scores},
        "refused": refused,
    }


def detection(known: Tensor, unknown: Tensor) -> dict[str, float]:
    """AUROC, and the share of unknown images above the threshold that 95 % of known ones are above."""
    truth = np.repeat([1, 0], [len(known), len(unknown)])
    # Rounded: the last digits of a sum must not rank images that are alike.
    scores = torch.cat([known, unknown]).double().numpy().round(9)
    wrong, right, _ = roc_curve(truth, scores)
    return {"auroc": float(roc_auc_score(truth, scores)), "fpr95": float(wrong[np.argmax(right >= 0.95)])}


def table(runs: list[dict[str, Any]]) -> Iterator[str]:
    """The tables of the page: scores for choosing, scores that judge, and what is refused."""
    pairs = list(product(PAIRS, MODELS))
    for title, first in (("for choosing, seed 0", True), ("for judging, other seeds", False)):
        for model in MODELS:
            yield f"\n| {model}: {title} | " + " | ".join(PAIRS) + " |"
            yield "|---" * (1 + len(PAIRS)) + "|"
            for name in runs[0]["scores"]:
                cells = []
                for data in PAIRS:
                    some = [r["scores"][name] for r in _of(runs, (data, model)) if (r["seed"] == 0) == first]
                    means = [fmean(each[key] for each in some) for key in ("auroc", "fpr95") if some]
                    cells.append(", ".join(f"{mean:.3f}" for mean in means))
                yield f"| {name} | " + " | ".join(cells) + " |"
    kinds = ("known", "worst class", "unknown")
    for error in map(str, ERRORS):
        yield f"\n| refused at {error} | accuracy | " + " | ".join(kinds) + " |"
        yield "|---" * (2 + len(kinds)) + "|"
        for pair in pairs:
            if some := _of(runs, pair):
                cells = [f"{fmean(r['refused'][error][kind] for r in some):.3f}" for kind in kinds]
                yield f"| {', '.join(pair)} | {fmean(r['accuracy'] for r in some):.3f} | " + " | ".join(cells) + " |"


def _of(runs: list[dict[str, Any]], pair: tuple[str, str]) -> list[dict[str, Any]]:
    return [run for run in runs if (run["data"], run["model"]) == pair]


def main() -> None:
    """Run everything and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npz", type=Path, help="a part of CIFAR-100, in place of it")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seed 0 is for choosing")
    parser.add_argument("--json", type=Path, required=True, help="what was measured; runs in it are not run again")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = json.loads(arguments.json.read_text()) if arguments.json.exists() else []
    for seed, data, model in product(arguments.seeds, PAIRS, MODELS):
        if not any((each["data"], each["model"], each["seed"]) == (data, model, seed) for each in runs):
            runs.append(run(data, model, seed, arguments.npz))
            arguments.json.write_text(json.dumps(runs, indent=1) + "\n")
    print("\n".join(table(runs)))


if __name__ == "__main__":
    main()
