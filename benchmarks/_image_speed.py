"""The second part of `benchmarks/images.py`: how long it takes until class means are an orthogonal frame.

FashionMNIST, STEP, R = 10, 2,750 augmented images, as an MLP and as a ResNet-18 of width 8. The geometry of all
training images is measured after each epoch, outside the clock. Nothing was chosen on these images or seeds: `fast` was
chosen on other images of FashionMNIST.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch.utils.flop_counter import FlopCounterMode

from orthoframe.data import Data, LabelledImages, load_data
from orthoframe.geometry import accuracy_of, measure
from orthoframe.training import Loop, Settings, TemperatureSchedule, encode, make_task

ARRIVED = 0.1  # Delta_GM; wider than the definition of a frame, which is 0.05
LARGE, RATIO, KEPT = 500, 10, 5000  # images of a large class, and those of a class from which the others are chosen
MODELS: dict[str, dict[str, Any]] = {"mlp": {"model": "mlp"}, "resnet18": {"model": "resnet18", "width": 8}}
_WHERE = {"data": "fashion-mnist", "majority": LARGE, "ratio": RATIO, "measure_every": 10**6}  # the same for all
WAYS: dict[str, dict[str, Any]] = {
    "paper": {"recipe": "paper"},
    "fast, as it was": {
        **{
            "recipe": "plain",
            "prototypes": True,
            "binding": "redrawn",
            "temperature": TemperatureSchedule(0.1, 0.5),
            "batch_size": 32,
        },
        **{"lr": 0.03, "clean_fraction": 0.6, "epochs": 70},
    },
    "fast": {"recipe": "fast"},
}
"""Recipes to the frame; the second is that of version 0.1."""
FEWER = {("paper", "mlp"): 3, ("paper", "resnet18"): 1, ("fast, as it was", "resnet18"): 3}  # seeds of long runs


@dataclass(frozen=True)
class Way:
    """One run to the frame."""

    way: str
    model: str
    seed: int

    @property
    def key(self) -> str:
        """By which it is kept."""
        return f"to the frame | {self.way} | {self.model} | seed {self.seed}"


def ways(seeds: tuple[int, ...]) -> list[Way]:
    """Every run."""
    every = [(way, model) for way in reversed(WAYS) for model in MODELS]
    return [Way(*each, seed) for each in every for seed in seeds[: FEWER.get(each, len(seeds))]]


def images(judged: bool) -> tuple[Data, LabelledImages]:
    """The first images of each class and the test set, which judge; or others, on which a recipe may be chosen."""
    whole = load_data("fashion-mnist", None)
    order = np.argsort(whole.train.labels.numpy(), kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(whole.train.labels.numpy()))[:-1])
    kept = [part[:KEPT] if judged else part[KEPT:-100] for part in parts]
    test = whole.test if judged else whole.train.subset(np.sort(np.concatenate([part[-100:] for part in parts])))
    seen = test.subset(np.arange(200))  # what the loop looks at
    return Data(whole.train.subset(np.sort(np.concatenate(kept))), seen, "fashion-mnist"), test


def run_way(job: Way, settings: dict[str, Any] | None = None, judged: bool = True) -> dict[str, Any]:
    """Train to the end of a recipe: epochs, seconds and FLOPs until the frame, and the accuracy at the end."""
    torch.set_num_threads(1)
    data, test = images(judged)
    options = {**(settings or WAYS[job.way]), **MODELS[job.model], **_WHERE, "seed": job.seed}
    task = make_task(Settings.of(**options), data=data)
    loop = Loop(task, Fabric(accelerator="cpu", devices=1))
    flops, seconds, rows, arrival = flops_per_row(loop), 0.0, 0, dict[str, Any]()
    epochs = task.settings.schedule.epochs
    for epoch in range(1, epochs + 1):
        rows += sum(map(len, task.plan.batches(epoch - 1)))
        start = time.process_time()
        loop.run_epoch()
        seconds += time.process_time() - start
        delta = measure(encode(task.encoder, task.train, task.normaliser), task.train.labels).delta_of
        if delta <= ARRIVED and not arrival:
            arrival = {"epochs": epoch, "rows": rows, "seconds": seconds, "flops": flops * rows}
    scores = loop.evaluate().rule.scores(encode(task.encoder, test, task.normaliser))
    accuracy = accuracy_of(scores, test.labels, test.classes)
    last = {"delta": delta, "balanced": accuracy.balanced, "of": epochs, "total_seconds": seconds, "rows": rows}
    return {**asdict(job), "arrived": arrival or None, **last, "total_flops": flops * rows}


def flops_per_row(loop: Loop) -> float:
    """Of a step, forward and backward, by torch's counter (a multiplication and an addition are two)."""
    batch = loop.task.plan.batches(0)[0]
    pixels = next(loop.images.batches([batch], loop.fabric.device))
    images, labels = loop.draw(batch, pixels, 0, 0)
    with FlopCounterMode(display=False) as counter:
        loop.criterion.set_epoch(0)
        loop.fabric.backward(loop.criterion.loss(loop.model(images), labels, len(batch)))
    loop.optimizer.zero_grad()
    return float(counter.get_total_flops()) / len(images)
