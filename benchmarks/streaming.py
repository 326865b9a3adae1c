"""Images that do not fit into memory: how fast they arrive, in how much memory, and what a kill costs.

Generates JPEGs of 224 x 224 pixels in a temporary folder (or in `--folder`, which is kept), and then

- reads them as training does, in turns with a bare DataLoader with as many workers, which opens, decodes and stacks;
- trains one epoch on all of them with a limit of 2 GiB on the data of each process, and watches the memory of all;
- trains again, kills the command at a random moment with SIGKILL, resumes, and compares the bytes.

Each part is written to the JSON file when it is done, and skipped if the file has it already: delete the file to
measure everything again. With `--folder`, runs are kept beside it, so that the last part need not train twice.

    python benchmarks/streaming.py --json docs/results/streaming.json
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from orthoframe.data import load_data
from orthoframe.files import write_json

SIDE, CLASSES, LIMIT = 224, 10, 2 * 2**30
READ, BATCH, REPEATS = 3000, 128, 5
_RUN = [sys.executable, "-c", "import sys; from orthoframe.cli import main; sys.exit(main())"]
_SETTINGS = ["--model", "resnet18", "--width", "4", "--epochs", "1", "--memory", "0.25", "--no-augment"]
_SAME = ("encoder.safetensors", "geometry.jsonl", "certificate.json", "verdict.json", "config.json")


def generate(folder: Path, count: int) -> None:
    """Smooth random images, whose files have about the size of photographs; what is there is kept."""
    generator = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % CLASSES}" / f"{number:06}.jpg"
        coarse = generator.integers(0, 256, (14, 14, 3), dtype=np.uint8)
        coarse[..., number % 3] = (number % CLASSES) * 25
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path, quality=85)


class Bare(Dataset[torch.Tensor]):
    """A data set as one writes it without a library."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, position: int) -> torch.Tensor:
        with Image.open(self.paths[position]) as image:
            return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1).contiguous()


def speeds(folder: Path, workers: int) -> dict[str, float]:
    """Images per second of both, in turns: the best of several."""
    data = load_data(f"folder:{folder}", memory=0, workers=workers)
    pixels: Any = data.train.pixels
    chosen = np.linspace(0, len(data.train) - 1, READ).astype(np.int64)
    np.random.default_rng(0).shuffle(chosen)
    batches = [chosen[start : start + BATCH] for start in range(0, READ, BATCH)]
    positions = [pixels.positions[batch].tolist() for batch in batches]
    bare = Bare(pixels.items.paths)
    best = {"ours": 0.0, "bare": 0.0}
    for _ in range(REPEATS):
        for name in best:
            start, seen = time.perf_counter(), 0
            if name == "ours":
                seen = sum(len(each) for each in data.train.batches(batches))
            else:
                loader = DataLoader(bare, batch_sampler=positions, num_workers=workers, prefetch_factor=4)
                seen = sum(len(each) for each in loader)
            best[name] = max(best[name], seen / (time.perf_counter() - start))
    return best


def memory_of(process: int) -> int:
    """Bytes that a process and its children have in memory; what they share counts once."""
    total, waiting = 0, [process]
    while waiting:
        number = waiting.pop()
        try:
            lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
            total += next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            for task in Path(f"/proc/{number}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (OSError, StopIteration):  # it has just ended
            continue
    return total


def train(words: list[str], kill_after: float | None = None) -> tuple[int, int, float]:
    """The status, the most memory, and the seconds of a command."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))

    start, most = time.monotonic(), 0
    command = [*_RUN, "train", *words]
    with subprocess.Popen(command, preexec_fn=limited, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None:
            most = max(most, memory_of(process.pid))
            if kill_after is not None and time.monotonic() - start > kill_after:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.5)
    return process.returncode, most, time.monotonic() - start


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = _read(options.json, {"images": options.images, "workers": options.workers})
    with tempfile.TemporaryDirectory() as temporary:
        kept = Path(temporary) if options.folder is None else options.folder.with_name(f"{options.folder.name}-runs")
        folder = options.folder or kept / "images"
        words = ["--data", f"folder:{folder}", *_SETTINGS, "--workers", str(options.workers)]
        whole, killed = kept / "whole", kept / "killed"
        if "same_bytes" not in results:
            generate(folder, options.images)
        if "ratio" not in results:
            results |= speeds(folder, options.workers)
            results["ratio"] = results["ours"] / results["bare"]
            _save(options.json, results)
        miss = "" if results["ratio"] >= 0.9 else " !"
        line = f"{results['ours']:.0f} images/s, a bare DataLoader {results['bare']:.0f}: {results['ratio']:.2f}{miss}"
        print(line, flush=True)
        # The killed run is compared with one that was not killed.
        compared = (whole / "verdict.json").exists() or "same_bytes" in results
        if "seconds" not in results or not compared:
            shutil.rmtree(whole, ignore_errors=True)
            status, most, seconds = train([*words, "--out", str(whole)])
            assert status == 0, status
            results |= {"memory_gib": most / 2**30, "seconds": seconds}
            _save(options.json, results)
        print(
            f"an epoch in {results['seconds']:.0f} s, at most {results['memory_gib']:.2f} GiB in all processes",
            flush=True,
        )
        if "same_bytes" not in results:
            shutil.rmtree(killed, ignore_errors=True)
            moment = random.Random(0).uniform(0.3, 0.7) * results["seconds"]
            status, _, _ = train([*words, "--out", str(killed)], kill_after=moment)
            assert status == -signal.SIGKILL, status
            status, _, _ = train(["--resume", str(killed)])
            assert status == 0, status
            same = all((whole / name).read_bytes() == (killed / name).read_bytes() for name in _SAME)
            results |= {"killed_after": moment, "same_bytes": same}
            _save(options.json, results)
        bytes_are = "the same bytes" if results["same_bytes"] else "OTHER BYTES !"
        print(f"killed after {results['killed_after']:.0f} s and resumed: {bytes_are}")


def _read(file: Path | None, about: dict[str, Any]) -> dict[str, Any]:
    """Results of an earlier run of this program with as many images and workers; only `about` if there are none."""
    if file is None or not file.exists():
        return about
    before: dict[str, Any] = json.loads(file.read_text())
    return before if about.items() <= before.items() else about


def _save(file: Path | None, results: dict[str, Any]) -> None:
    """Save the results so far, because the next part takes long and may be stopped."""
    if file is not None:
        write_json(file, results)


if __name__ == "__main__":
    main()
