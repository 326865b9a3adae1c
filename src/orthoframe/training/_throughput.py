"""How many epochs there is time for, by the speed of the first steps."""

import copy
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from orthoframe.training._evaluation import encode
from orthoframe.training._loop import Loop
from orthoframe.training._task import Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_WARM, _TIMED, _SECONDS = 2, 20, 10.0  # steps before the clock starts, and steps or seconds until it stops
_TRIAL = 0.1  # of the time, which the timed steps may take at most
_ENCODED = 512  # images whose encoding is timed
_SPARE = 0.95  # of the time is planned
_REPORT = 4.0  # seconds set aside for the report: 1.5 of one core were measured, and others may use it too


@dataclass(frozen=True)
class Estimate:
    """How many epochs there is time for.

    Attributes:
        epochs: At least one.
        seconds: What they take, with measurements and the report.
        left: What there was for them.
    """

    epochs: int
    seconds: float
    left: float

    @property
    def fits(self) -> bool:
        """Whether there is time for even one epoch."""
        return self.seconds <= self.left


def epochs_in(seconds: float, task: Task, fabric: "Fabric", *, report: bool = True) -> Estimate:
    """The number of epochs that can be trained, measured and reported on in a time; at least one.

    Steps are taken with a copy of the encoder, so that the run starts from where it would have started.
    """
    trial = replace(task, encoder=copy.deepcopy(task.encoder), classifier=copy.deepcopy(task.classifier))
    start = time.perf_counter()
    step, look = _seconds_per_step(Loop(trial, fabric), _TRIAL * seconds), _seconds_per_look(trial)
    # There is another look at the end, with all training images and the test images.
    last = look * (len(task.train) + len(task.test)) / max(1, len(task.measured_subset())) + _REPORT * report
    left = _SPARE * (seconds - (time.perf_counter() - start))
    steps = len(task.plan.batches(0))
    most = max(1, int((left - last) / (steps * step)))

    def needed(epochs: int) -> float:
        looks = epochs // task.settings.with_epochs(epochs).measured_every + 1
        return epochs * steps * step + looks * look + last

    while most > 1 and needed(most) > left:
        most -= max(1, most // 50)
    return Estimate(most, needed(most), left)


def _seconds_per_step(loop: Loop, most: float) -> float:
    batches = loop.task.plan.batches(0)
    chosen = [batches[number % len(batches)] for number in range(_WARM + _TIMED)]
    start, done = time.perf_counter(), 0
    for number, pixels in enumerate(loop.images.batches(chosen, loop.fabric.device)):
        if number == _WARM:
            start = time.perf_counter()
        float(loop.step(chosen[number], pixels, 0, number))  # waits for the device
        done = number + 1 - _WARM
        if done > 0 and time.perf_counter() - start > min(_SECONDS, most):
            break
    return (time.perf_counter() - start) / max(1, done)


def _seconds_per_look(task: Task) -> float:
    """Of encoding all images that a measurement looks at."""
    number = min(_ENCODED, len(task.train))
    few, start = task.train.subset(np.arange(number)), time.perf_counter()
    encode(task.encoder, few, task.normaliser)
    others = len(task.test) if task.validation is None else len(task.validation)
    return (time.perf_counter() - start) / number * (len(task.measured_subset()) + others)
