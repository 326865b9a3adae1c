"""Whether mirror images are trained on: what is decided for draws of data sets of which one knows.

Run it with `python benchmarks/mirrors.py --npz FILE.npz`; it takes a few seconds.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from orthoframe.data import PROFILES, imbalanced_indices, is_mirror_symmetric, load_data

_DRAWS = ((150, 10), (150, 50), (40, 4))  # images of the largest class, and how many times those of the smallest
_SEEDS = 5


def main() -> None:
    """Print how many draws of each data set are mirrored, and how long a decision takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--npz", type=Path, help="more photographs")
    parser.add_argument("--json", type=Path, help="where the counts are kept")
    arguments = parser.parse_args()
    names = ["digits", "mnist", "fashion-mnist", "cifar10"] + [f"npz:{arguments.npz}"] * (arguments.npz is not None)
    counts = {}
    for name in names:
        train, answers, begun = load_data(name).train, [], time.process_time()
        for largest, ratio in _DRAWS:
            profile = PROFILES["long-tail"](len(train.classes), min(largest, min(train.class_counts)), ratio)
            for seed in range(_SEEDS):
                sizes = np.random.default_rng(seed).permutation([max(2, size) for size in profile]).tolist()
                chosen = train.subset(imbalanced_indices(train.labels, sizes, seed=seed))
                answers.append(is_mirror_symmetric(chosen, seed))
        seconds = (time.process_time() - begun) / len(answers)
        counts[name.partition(":")[0]] = {"mirrored": sum(answers), "draws": len(answers), "seconds": seconds}
        print(f"{name.partition(':')[0]}: {sum(answers)} of {len(answers)} mirrored, {seconds:.2f} s each", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    main()
