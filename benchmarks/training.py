"""Time epochs of `orthoframe train` beside a bare torch loop over the same batches with the textbook loss.

ResNet-18 of width 16 on FashionMNIST with STEP imbalance 10. Ours are whole epochs as the command runs them: batches of
the plan, floors, checkpoints by time, and a measurement of all training and test images in every tenth. The
bare loop sees the same batches, drawn and augmented in the same way, and has nothing else. They take turns, an epoch
each; a repeat is ten epochs of both, and of several repeats the fastest counts. By default a thirtieth of the images
is used, for training and for the test; `--majority 6000` takes all, and thirty times as long.

    python benchmarks/training.py --json docs/results/training.json
"""

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from orthoframe.encoders import make_frame_encoder
from orthoframe.runs import EpochRecord
from orthoframe.training import Loop, RunListener, Settings, Task, make_task, train

THREADS, EPOCHS = 2, 10  # EPOCHS of a repeat, one of which is measured
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
        shape = self.task.train.image_shape
        self.encoder = make_frame_encoder("resnet18", shape, width=settings.width, num_classes=10)
        self.optimizer = torch.optim.SGD(self.encoder.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)

    def run_epoch(self, epoch: int) -> None:
        """Draw, encode, compare, update."""
        generator = torch.Generator().manual_seed(epoch)
        for batch in self.task.plan.batches(epoch):
            index = torch.from_numpy(batch)
            pixels = next(self.task.train.batches([batch]))
            images = self.task.normaliser(self.task.augment(pixels, generator))
            loss = textbook_loss(self.encoder(images), self.task.train.labels[index], 0.1)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()


def alternate(settings: Settings, bare: Bare) -> tuple[Loop, dict[str, list[float]]]:
    """The loop, and seconds of each epoch, ours and bare in turns; ours from the end of a bare one to the next."""
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    start = time.perf_counter()
    loops: list[Loop] = []

    def on_epoch(record: EpochRecord) -> None:
        nonlocal start
        times["ours"].append(time.perf_counter() - start)
        times["bare"].append(seconds(lambda: bare.run_epoch(record.epoch - 1)))
        start = time.perf_counter()

    def on_step(loop: Loop) -> None:
        loops[:] = [loop]

    with tempfile.TemporaryDirectory() as folder:
        train(settings, Path(folder) / "run", RunListener(on_step=on_step, on_epoch=on_epoch))
    return loops[0], times


def fastest(times: list[float]) -> float:
    """Seconds of an epoch: the mean of the fastest repeat, without the first epoch and the last, measured as well."""
    repeats = [times[start : start + EPOCHS] for start in range(1, len(times) - 1, EPOCHS)]
    return min(map(sum, repeats)) / EPOCHS


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Run everything and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion-mnist", help="another data set, to try this file")
    parser.add_argument("--data-dir", type=Path, help="where FashionMNIST is (default: ORTHOFRAME_DATA or the cache)")
    parser.add_argument("--majority", type=int, default=200, help="images of a large class")
    parser.add_argument("--repeats", type=int, default=2, help="of ten epochs each")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    settings = Settings.of(
        recipe="plain",
        data=arguments.data,
        data_dir=arguments.data_dir,
        majority=arguments.majority,
        test_images=max(1, arguments.majority // 6),  # FashionMNIST has 6000 and 1000 of each
        model="resnet18",
        width=16,
        clean_fraction=0.0,
        epochs=EPOCHS * arguments.repeats + 2,
        measure_every=EPOCHS,
        precision="32",
    )
    task = make_task(settings)
    loop, times = alternate(settings, Bare(task))
    epoch = {name: fastest(values) for name, values in times.items()}
    measuring = seconds(loop.evaluate)
    batches = task.plan.batches(0)
    rows = sum(map(len, batches)) / len(batches)
    step = epoch["ours"] / len(batches)
    drawing = min(
        seconds(lambda: loop.draw(batches[0], next(loop.images.batches(batches[:1])), 0, 0)) for _ in range(20)
    )
    ratio, pipeline = epoch["ours"] / epoch["bare"], step / drawing
    print(f"{len(task.train):,} images in {len(batches)} batches of {rows:.0f}")
    print(f"measuring {len(task.train) + len(task.test):,} images: {measuring:.2f} s, every tenth epoch")
    print(f"an epoch: {epoch['ours']:.2f} s ours, {epoch['bare']:.2f} s bare: {ratio:.3f} of it{_mark(ratio <= RATIO)}")
    print(f"a step of ours, with all that: {1e3 * step:.1f} ms ({rows / step:.0f} images/s)")
    print(f"drawing a batch: {1e3 * drawing:.2f} ms, a step takes {pipeline:.0f} times{_mark(pipeline >= PIPELINE)}")
    if arguments.json:
        data = {
            "machine": platform.processor() or platform.machine(),
            "torch": torch.__version__,
            "majority": arguments.majority,
            "batches": len(batches),
            "seconds": times,
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
