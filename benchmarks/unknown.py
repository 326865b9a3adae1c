"""Which score tells images of no known class from the others? And how many known ones does `--reject` refuse?

An encoder is trained on one data set and looks at test images of it and of another: CIFAR-10 and CIFAR-100, MNIST and
FashionMNIST, FashionMNIST and MNIST. AUROC (0.5 is chance, 1 perfect) and the share of unknown images that are taken
for known ones when 95 % of the known ones are (FPR at 95 %, smaller is better). Two networks with the same steps: the
recipe for one's own images (frame term, and a linear classifier beside it), and cross-entropy. Scores, the larger the
more like a known class: the largest cosine to an axis of the frame; its energy, logsumexp(cosines / 0.1); minus the
distance to the nearest axis or class mean; the largest softmax, the energy and the largest score of the
classifier.

Every other image, with the first seed, is for choosing a score; the others, with the other seeds, judge. Then the
threshold that refuses a share ERROR of known images is fitted on validation images, and the refused share of known test
images (all classes, and the worst class) and of unknown ones is counted. One thread.

    ORTHOFRAME_DATA=DIR python benchmarks/unknown.py --npz FILE.npz --json docs/results/unknown.json \
        --table docs/results/unknown.md
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


def run(data: str, model: str, seed: int, npz: Path) -> dict[str, Any]:
    """Train, and score known and unknown images."""
    trained, seconds = trained_on(data, model, seed)
    known, unknown = load_data(data).test, load_data(f"npz:{npz}" if PAIRS[data] == "cifar100" else PAIRS[data]).test
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
    for title, part in (
        ("chooses (first seed)", [r for r in runs if not r["seed"]]),
        ("judges", [r for r in runs if r["seed"]]),
    ):
        yield f"\n| {title} | " + " | ".join(f"{d}, {m}" for d, m in product(PAIRS, MODELS)) + " |"
        yield "|---" * (1 + len(PAIRS) * len(MODELS)) + "|"
        for name in runs[0]["scores"]:
            cells = []
            for data, model in product(PAIRS, MODELS):
                found = [r["scores"][name] for r in part if (r["data"], r["model"]) == (data, model)]
                cells.append(" ".join(f"{fmean(each[key] for each in found):.3f}" for key in ("auroc", "fpr95")))
            yield f"| {name} | " + " | ".join(cells) + " |"
    yield (
        "\n| trained on | network | accuracy | validation images | " + " | ".join(f"ERROR {e:g}" for e in ERRORS) + " |"
    )
    yield "|---" * (4 + len(ERRORS)) + "|"
    for data, model in product(PAIRS, MODELS):
        some = [r for r in runs if (r["data"], r["model"]) == (data, model)]
        cells = [f"{fmean(r['accuracy'] for r in some):.3f}", str(some[0]["validation_images"])]
        for error in map(str, ERRORS):
            cells.append(
                " ".join(f"{fmean(r['refused'][error][kind] for r in some):.3f}" for kind in some[0]["refused"][error])
            )
        yield f"| {data} | {model} | " + " | ".join(cells) + " |"


def main() -> None:
    """Run everything and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npz", type=Path, required=True, help="100 classes of 32 x 32 photographs, none of CIFAR-10")
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
