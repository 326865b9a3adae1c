"""A run that is fitted to a time: the network that there is time for, and the steps of each epoch."""

import copy
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from orthoframe.errors import Option, Part
from orthoframe.training._evaluation import encode
from orthoframe.training._loop import Loop
from orthoframe.training._task import Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_WARM, _TIMED, _SECONDS = 2, 20, 10.0  # steps before the clock starts, and steps or seconds until it stops
_TRIAL = 0.1  # of the time, which the timed steps may take at most
_ENCODED = 512  # images whose encoding is timed
_SPARE = 0.98  # of the time is planned
_MEASURING = 0.05  # of the time, at most, but for the measurements that every run has
_REPORT = 3.0  # seconds of one core set aside for the report and the end of the process; 2 were measured
_BUSIEST = 8.0  # processes that share a core, at most, when that is set aside


class Pace:
    """Decides the steps of an epoch when it begins, by the time that is left and by how long steps took in the last.

    So a machine that gets busy, or idle, changes the number of steps and not the time. The schedule of the learning
    rate is that of the epochs, so that the steps that were decided, which are in `config.json`, are the whole decision:
    with them a run is repeated.

    Args:
        task: What is trained.
        fabric: The devices, launched.
        begun: When the time began, by `time.monotonic`.
        has_report: Whether a report is written at the end.
        thins: Whether it may measure less often than the settings say.
    """

    def __init__(self, task: Task, fabric: "Fabric", begun: float, *, has_report: bool, thins: bool = True) -> None:
        minutes = task.settings.schedule.minutes
        assert minutes is not None
        self.minutes, self.fabric, self.has_report, self.thins = minutes, fabric, has_report, thins
        self._end = begun + 60 * minutes * _SPARE
        # With a copy of the encoder, so that the run starts from where it would have started.
        trial = replace(task, encoder=copy.deepcopy(task.encoder), classifier=copy.deepcopy(task.classifier))
        self._step = _seconds_per_step(Loop(trial, fabric), _TRIAL * self._left())
        self._image = _seconds_per_image(trial) / self._step  # in steps, because a busy machine slows both alike
        self._begun, self._steps = begun, 0
        self._start = self._last = time.monotonic()  # a run that is resumed goes on inside an epoch

    def decided(self, task: Task) -> Task:
        """The task with the steps of its next epoch, and how often it is measured."""
        settings, schedule = task.settings, task.settings.schedule
        if self._steps:
            self._step = (self._last - self._start) / self._steps
        if not schedule.steps and self.thins:
            most = max(1, int(_MEASURING * self._left() / self._seconds_to_measure(task)))
            settings = settings.measured(-(-schedule.epochs // most))
        epoch = len(schedule.steps or ())
        measured = sum(map(settings.is_measured, range(epoch + 1, schedule.epochs)))
        every = settings.evaluation.measure_every
        left = self._left() - self._seconds_at_the_end(task) - measured * self._seconds_to_measure(task)
        steps = max(1, int(left / self._step / (schedule.epochs - epoch)))
        steps, every = self.fabric.broadcast((steps, every))
        settings = settings.measured(every).with_steps(steps)
        self._start = self._last = time.monotonic()
        self._steps = 0
        return replace(task, settings=settings)

    def on_step(self) -> None:
        """Count a step."""
        self._last, self._steps = time.monotonic(), self._steps + 1

    def complaint(self, task: Task) -> tuple[Part, ...]:
        """What is to be said of a time that is too short; nothing if it is long enough."""
        needed = self._seconds_at_the_end(task) + self._seconds_to_measure(task)
        if needed <= self._left():
            return ()
        minutes = max(0.1, self.minutes + (needed - self._left()) / 60)
        why = f" is too short: start-up, measurements and report alone take about {minutes:.1f} minutes; training "
        return Option("minutes", self.minutes), why, f"{task.settings.schedule.epochs} steps anyway"

    def _left(self) -> float:
        return self._end - time.monotonic()

    def _seconds_to_measure(self, task: Task) -> float:
        others = task.test if task.validation is None else task.validation
        return self._image * self._step * (len(task.measured_subset()) + len(others))

    def _seconds_at_the_end(self, task: Task) -> float:
        """How long it takes to measure all training, validation and test images, and to write the report."""
        validation = 0 if task.validation is None else len(task.validation)
        images = len(task.train) + validation + len(task.test)
        return self._image * self._step * images + _REPORT * self.has_report * self._others()

    def _others(self) -> float:
        """How many processes share a core, by the clock and by the time that this process got."""
        return min(max(1.0, (time.monotonic() - self._begun) / time.process_time()), _BUSIEST)


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


def _seconds_per_image(task: Task) -> float:
    """Seconds to encode an image for a measurement."""
    few, start = task.train.subset(np.arange(min(_ENCODED, len(task.train)))), time.perf_counter()
    encode(task.encoder, few, task.scaled)
    return (time.perf_counter() - start) / len(few)
