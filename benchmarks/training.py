"""Time an epoch of `orthoframe train` beside a bare torch loop over the same batches with the textbook loss.

ResNet-18 of width 16 on FashionMNIST with STEP imbalance 10. Both see the same batches, drawn and augmented in the same
way; the bare loop has no certificate, floor, progress, checkpoint or measurement. Steps are timed in turns and the
fastest count; an epoch is its steps, and for ours a tenth of a measurement of all training and test images.

    python benchmarks/training.py --json docs/results/training.json
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from orthoframe.encoders import make_frame_encoder
from orthoframe.training import Settings
from orthoframe.training._loop import Loop
from orthoframe.training._setup import Task, set_up

THREADS, STEPS, REPEATS = 2, 4, 6
# What must hold; a figure that is missed is printed with an exclamation mark.
RATIO, PIPELINE = 1.10, 20.0


def textbook_loss(features: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Masks over all pairs of rows."""
    similar = features @ features.T / temperature
    itself = torch.eye(len(labels), dtype=torch.bool)
    positive = (labels[:, None] == labels) & ~itself
    log_share = similar - torch.logsumexp(similar.masked_fill(itself, -torch.inf), 1, keepdim=True)
    count = positive.sum(1)
    terms = -(log_share * positive).sum(1)[count > 0] / count[count > 0]
    return terms.mean()


@dataclass
class Bare:
    """The loop that one would write first."""

    task: Task

    def __post_init__(self) -> None:
        settings = self.task.settings
        shape = tuple(self.task.train.pixels.shape[1:])
        self.encoder = make_frame_encoder("resnet18", shape, width=settings.width, num_classes=10)
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)

    def steps(self, batches: list[Any], generator: torch.Generator) -> None:
        """Draw, encode, compare, update."""
        for batch in batches:
            index = torch.from_numpy(batch)
            images = self.task.normaliser(self.task.augment(self.task.train.pixels.index_select(0, index), generator))
            loss = textbook_loss(self.encoder(images), self.task.train.labels[index], 0.1)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()


def ours(loop: Loop, batches: list[Any]) -> None:
    """Steps as `Loop.run_epoch` makes them."""
    for number, batch in enumerate(batches):
        loop.step(batch, 0, number, loop.task.augment)
        loop._bounds(batch, 0.1)


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Run everything and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="where FashionMNIST is (default: ORTHOFRAME_DATA or the cache)")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    settings = Settings(data="fashion-mnist", data_dir=arguments.data_dir, model="resnet18", width=16, epochs=10)
    task = set_up(settings)
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    loop, bare = Loop(task, fabric), Bare(task)
    batches = task.plan.batches(0)
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    generator = torch.Generator().manual_seed(0)
    for _ in range(REPEATS + 1):  # the first is to warm up
        times["ours"].append(seconds(lambda: ours(loop, batches[:STEPS])))
        times["bare"].append(seconds(lambda: bare.steps(batches[:STEPS], generator)))
    step = {name: min(values[1:]) / STEPS for name, values in times.items()}
    measuring = seconds(loop.measured)
    rows = sum(map(len, batches)) / len(batches)
    drawing = min(seconds(lambda: loop._rows(batches[0], 0, 0, task.augment)) for _ in range(20))
    epoch = {"ours": len(batches) * step["ours"] + measuring / 10, "bare": len(batches) * step["bare"]}
    ratio, pipeline = epoch["ours"] / epoch["bare"], step["ours"] / drawing
    print(f"{len(task.train):,} images in {len(batches)} batches of {rows:.0f}")
    speed = rows / step["ours"]
    print(f"a step: {1e3 * step['ours']:.1f} ms ours ({speed:.0f} images/s), {1e3 * step['bare']:.1f} ms bare")
    print(f"measuring {len(task.train) + len(task.test):,} images: {measuring:.1f} s, every tenth epoch")
    print(f"an epoch: {epoch['ours']:.1f} s ours, {epoch['bare']:.1f} s bare: {ratio:.2f} of it{_mark(ratio <= RATIO)}")
    print(f"drawing a batch: {1e3 * drawing:.2f} ms, a step takes {pipeline:.0f} times{_mark(pipeline >= PIPELINE)}")
    if arguments.json:
        data = {
            "machine": platform.processor() or platform.machine(),
            "torch": torch.__version__,
            "steps": step,
            "measuring": measuring,
            "epochs": epoch,
            "ratio": ratio,
            "drawing": drawing,
            "pipeline": pipeline,
        }
        arguments.json.write_text(json.dumps(data, indent=2) + "\n")


def _mark(good: bool) -> str:
    return "" if good else " !"


if __name__ == "__main__":
    main()
