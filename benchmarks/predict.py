"""Time `orthoframe predict` on 10,000 image files beside decoding them and nothing else.

JPEG files of 64 x 64 to 200 x 150 pixels in a temporary folder, which are decoded to 32 x 32 pixels. Decoding alone is
the same DataLoader with as many workers, whose pixels are thrown away. The command is the whole process: Python, torch,
the encoder, the features, and ten cosines per image written as CSV to a file. Beside it stands the same without what
comes before the first image, because a start takes as long for one image as for a million. All take turns, and the
fastest of several repeats counts.

    python benchmarks/predict.py --json docs/results/predict.json
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from orthoframe.data import Preparation, PreparedFiles, available_cores, decode
from orthoframe.training import Settings, train

SHAPE, CLASSES = (3, 32, 32), 10
SIZES = ((64, 64), (96, 80), (128, 96), (160, 120), (200, 150))
# What is trained: the smallest encoder, and one that takes more time than decoding.
MODELS = {"mlp": 256, "resnet18": 8}
# Decoding alone takes at least this part of the time of the command; a figure that is missed has an exclamation mark.
SPEED, TOGETHER = 0.5, 64
COMMAND = "import sys; from orthoframe.cli import main; sys.exit(main())"


def write_images(folder: Path, count: int, names: list[str]) -> list[Path]:
    """JPEG files of smooth random colours with some noise, which compress as photographs do."""
    random, paths = np.random.default_rng(0), []
    for number in range(count):
        width, height = SIZES[number % len(SIZES)]
        coarse = Image.fromarray(random.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        pixels = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)).astype(np.int16)
        pixels = (pixels + random.integers(-12, 13, pixels.shape)).clip(0, 255).astype(np.uint8)
        path = folder / names[number % len(names)] / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, quality=90)
        paths.append(path)
    return sorted(paths)


def decoded(paths: list[Path], workers: int) -> float:
    """Seconds that decoding takes."""
    start = time.perf_counter()
    batches = [range(start, min(start + TOGETHER, len(paths))) for start in range(0, len(paths), TOGETHER)]
    files = PreparedFiles(tuple(paths), Preparation(SHAPE))
    count = sum(len(part.positions) for part in decode(files, batches, workers))
    assert count == len(paths)
    return time.perf_counter() - start


def predicted(run: Path, images: Path, workers: int, out: Path) -> tuple[float, float]:
    """Seconds of the command from its first row to its last, and in all."""
    start, first = time.perf_counter(), None
    words = ["predict", str(run), str(images), "--workers", str(workers)]
    with out.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", COMMAND, *words], stdout=file)
        while process.poll() is None:
            if first is None and os.path.getsize(out):
                first = time.perf_counter()
            time.sleep(0.005)
    assert process.returncode == 0
    end = time.perf_counter()
    return end - (first or start), end - start


def main() -> None:
    """Run everything and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000, help="how many")
    parser.add_argument("--repeats", type=int, default=3, help="of each, in turns")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    workers, seconds = available_cores(), dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        paths = write_images(root / "images", arguments.images, [f"class {c}" for c in range(CLASSES)])
        write_images(root / "few", 20 * CLASSES, [f"class {c}" for c in range(CLASSES)])
        for model, width in MODELS.items():
            options: dict[str, Any] = {"model": model, "width": width, "epochs": 1, "size": SHAPE[1:]}
            train(Settings.of(recipe="plain", data=f"folder:{root / 'few'}", **options), root / model)
        for _ in range(arguments.repeats):
            seconds.setdefault("decoding", []).append(decoded(paths, workers))
            for model in MODELS:
                pair = predicted(root / model, root / "images", workers, root / "out.csv")
                for part, value in zip(("images", "command"), pair, strict=True):
                    seconds.setdefault(f"{model} {part}", []).append(value)
    best = {part: min(values) for part, values in seconds.items()}
    ratios = {part: best["decoding"] / value for part, value in best.items() if part != "decoding"}
    load = os.getloadavg()[0]
    print(f"{len(paths):,} files, {workers} workers, {os.cpu_count()} cores, load {load:.1f} at the end")
    print(f"decoding alone: {best['decoding']:.2f} s ({len(paths) / best['decoding']:,.0f} images/s)")
    for part, ratio in ratios.items():
        mark = " !" if part.endswith("command") and ratio < SPEED else ""
        print(f"{part}: {best[part]:.2f} s ({len(paths) / best[part]:,.0f} images/s), {ratio:.2f} of the speed{mark}")
    if arguments.json:
        about = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__, "load": load}
        data = {**about, "images": len(paths), "workers": workers, "seconds": seconds, "ratios": ratios}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
