"""Why a run may not have ended as it was meant to: likely causes, how the run was moving, and what to try."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import torch

from orthoframe.batches import RunCertificate
from orthoframe.encoders import ENCODERS
from orthoframe.errors import Option, Part
from orthoframe.geometry import Geometry
from orthoframe.options import TEMPERATURE
from orthoframe.runs import END, Cause, Ending, EpochRecord, TestRecord, power_law, summed_rates
from orthoframe.training._criteria import PARALLEL
from orthoframe.training._fields import usual_value
from orthoframe.training._groups import ScheduleSettings
from orthoframe.training._settings import Settings
from orthoframe.training._task import Task

Spell = Callable[[Option], str]
Column = Literal["delta_of", "beta_nc", "gap"]

_NAMES: dict[Column, str] = {
    "delta_of": "the distance to the frame",
    "beta_nc": "beta_NC",
    "gap": "the gap above the floor",
}
# Fractions of the way from identical features to the floor: about none, half, and so much that the rest of the
# way shows in the distance to the frame and no longer in the loss.
_ALIKE, _BEGUN, _NEAR = 0.05, 0.5, 0.9
# The loss is above the loss of identical features by this fraction of the way.
_MIXED = -0.1
# Exponents of the summed learning rate: twice as many epochs would take off a fifth, or 3 per cent.
_FALLING, _SLOW = 0.3, 0.05
# A learning rate is large, or small, by this factor from the usual one.
_FAR = 10
# Above this balanced accuracy of new images nothing is advised.
_ACCURATE = 0.98
WORST = 3
"""Classes that a verdict on accuracy names."""
_USUAL_LR: float = usual_value(ScheduleSettings, "lr")
_RISING = Option("temperature", (0.1, 0.5))
_MORE_EPOCHS: tuple[Part, ...] = ("more ", Option("epochs"))


@dataclass(frozen=True)
class LikelyCause:
    """A cause, the values in its sentence, and what to try."""

    cause: Cause
    advice: tuple[Part, ...]
    values: dict[str, Any] = field(default_factory=dict)

    def sentence(self, spell: Spell = str) -> str:
        """The sentence of the cause, with options as the reader writes them."""
        values = {name: spell(value) if isinstance(value, Option) else value for name, value in self.values.items()}
        return self.cause.sentence.format(**values)


def explanation(
    task: Task, certified: RunCertificate, records: Sequence[EpochRecord], geometry: Geometry
) -> tuple[list[LikelyCause], Ending | None]:
    """Likely causes, most severe first; and how the run was moving, unless they explain everything."""
    settings, last = task.settings, records[-1]
    done = 1.0 - (last.relative_gap or 0.0)  # a loss without a floor counts as near it
    # What keeps the run from the frame; with a floor that moves, the gap need not fall on the way to it.
    column: Column = "beta_nc" if geometry.orthogonal and last.beta_nc is not None else "delta_of"
    if done < _NEAR and settings.objective.is_steady:
        column = "gap"
    progress = _progress(records, column, settings)
    uncertified, large, hot = _uncertified(settings, certified), _large_lr(settings, done), _too_hot(task)
    causes = [*_wrong_problem(task), *(uncertified if certified.conclusive else []), *large, *hot]
    causes += [*_dead(settings, geometry), *_pooled_maps(settings)]
    has_explanation = bool(causes)
    causes += [] if certified.conclusive else uncertified
    if large or hot:  # more of the same would not help
        return causes, _at_start(done) if done < _ALIKE else None
    if done < _ALIKE or (done < _BEGUN and progress is not Ending.STALLED):
        ending = _at_start(done) if progress is Ending.STALLED else Ending.HARDLY_BEGUN
        return [*causes, _hardly_begun(settings, done, last, geometry)], ending
    if progress is Ending.FALLING:
        return [*causes, LikelyCause(Cause.STILL_FALLING, _MORE_EPOCHS, {"quantity": _NAMES[column]})], progress
    if has_explanation:
        return causes, None
    cold = _too_cold(task) if done >= _NEAR else []
    if cold:
        return [*causes, *cold], Ending.SLOW
    return (causes, None) if causes else ([_unexplained(settings, progress, column)], progress)


def accuracy_causes(task: Task, records: Sequence[EpochRecord], test: TestRecord) -> list[LikelyCause]:
    """What keeps new images from being classified better, if there is much to gain."""
    accuracy, train = test.accuracy, test.train_balanced
    if accuracy.balanced >= _ACCURATE:
        return []
    causes = _large_lr(task.settings, 1.0 - (records[-1].relative_gap or 0.0))
    if train is not None and 1 - train > (1 - accuracy.balanced) / 2:
        return [*causes, LikelyCause(Cause.NOT_LEARNT, _longer(task.settings.schedule), {"train": train})]
    better: list[tuple[Part, ...]] = [("more images",)]
    if task.augment.flip and task.settings.images.is_own:
        better.append((Option("flip", "no"), ", if mirror images mean something else"))
    if task.settings.encoder.backbone is None:
        better.append(("a pretrained ", Option("backbone")))
    if train is not None:
        causes.append(LikelyCause(Cause.NOT_TRANSFERRED, _either(*better), {"train": train}))
    classes = zip(accuracy.by_class, task.class_counts, strict=True)
    worst = [count for _, count in sorted((rate, count) for rate, count in classes if rate is not None)[:WORST]]
    if max(worst) < (middle := median(task.class_counts)):
        values = {"fewest": min(worst), "most": max(worst), "median": f"{middle:g}"}
        causes.append(LikelyCause(Cause.FEW_IMAGES, ("more images of these classes",), values))
    return causes


def _longer(schedule: ScheduleSettings) -> tuple[Part, ...]:
    """How a run is made longer."""
    if schedule.minutes is not None:
        longer = 2 * schedule.minutes
        return ("more time, such as ", Option("minutes", int(longer) if longer.is_integer() else longer))
    return ("more ", Option("epochs" if schedule.steps is None else "steps"))


def _at_start(done: float) -> Ending:
    """How a run has ended whose loss has not fallen."""
    return Ending.MIXED if done < _MIXED else Ending.ALIKE


def _progress(records: Sequence[EpochRecord], column: Column, settings: Settings) -> Ending:
    """How a column falls at the end of a run: falling, slow or stalled.

    The gap is taken relative to the gap of identical features. Fewer than two values count as falling.
    """
    sums = summed_rates(records)
    values = [record.relative_gap if column == "gap" else getattr(record, column) for record in records]
    # Values of augmented images cannot be compared with later ones.
    settling = settings.schedule.settling_epoch
    restart = settling if settling < records[-1].epoch else 0
    augmented = max((done for done, record in zip(sums, records, strict=True) if record.epoch <= restart), default=0.0)
    exponent = power_law(sums, values, sums[-1] - min(END * sums[-1], (sums[-1] - augmented) / 2))
    if exponent is None:  # of too few values, or in so short a time that they do not tell
        return Ending.FALLING if all(value is None or 0 < value < math.inf for value in values) else Ending.STALLED
    if exponent < _SLOW:
        return Ending.STALLED
    return Ending.FALLING if exponent >= _FALLING else Ending.SLOW


def _wrong_problem(task: Task) -> list[LikelyCause]:
    """What is minimised has another optimum than an orthogonal frame, or another purpose."""
    causes, objective = [], task.settings.objective
    if objective.has_head and not task.encoder.nonnegative:
        advice = (Option("activation", "relu"), ", abs or square")
        values = {"activation": Option("activation", task.settings.encoder.activation)}
        causes.append(LikelyCause(Cause.NEGATIVE, advice, values))
    return [*causes, *objective.hindrances()]


def _uncertified(settings: Settings, certified: RunCertificate) -> list[LikelyCause]:
    """The batches do not make the frame the only optimum."""
    if not settings.objective.has_certificate or certified.certificate.holds:
        return []
    advice = settings.objective.certificate_advice(settings.batches)
    cause = Cause.UNCERTIFIED if certified.conclusive else Cause.UNCERTIFIED_SO_FAR
    return [LikelyCause(cause, advice, {"certificate": certified.sentence(), "epochs": certified.epochs})]


def _large_lr(settings: Settings, done: float) -> list[LikelyCause]:
    """A learning rate far above the usual one, with which the loss has not come near its floor."""
    lr = settings.schedule.lr
    if lr <= _FAR * _USUAL_LR or done >= _NEAR:
        return []
    advice = ("a smaller learning rate, such as ", Option("lr", _USUAL_LR))
    return [LikelyCause(Cause.LARGE_LR, advice, {"lr": Option("lr", lr), "percent": 100 * max(0.0, done)})]


def _hardly_begun(settings: Settings, done: float, last: EpochRecord, geometry: Geometry) -> LikelyCause:
    """The loss is still near the loss of identical features."""
    percent, lr = 100 * max(0.0, done), settings.schedule.lr
    losses = {"loss": last.loss, "collapsed": last.collapsed}
    if lr < _USUAL_LR / _FAR:
        advice = ("a larger learning rate, such as ", Option("lr", _USUAL_LR), ", or ", *_MORE_EPOCHS)
        return LikelyCause(Cause.SMALL_LR, advice, {"lr": Option("lr", lr), "percent": percent})
    if done < _MIXED:
        return LikelyCause(Cause.MIXED, _either(_MORE_EPOCHS, ("a smaller ", Option("lr"))), losses)
    cosine = _mean_cosine(geometry)
    if done < _ALIKE and cosine > PARALLEL:
        remedy = settings.cold_start_remedy()
        advice = _MORE_EPOCHS if remedy is None else (remedy, ", which starts without this plateau, or ", *_MORE_EPOCHS)
        return LikelyCause(Cause.COLD_START, advice, {**losses, "cosine": cosine})
    if done < _ALIKE:
        return LikelyCause(Cause.ALIKE, (*_MORE_EPOCHS, ", or another ", Option("lr")), losses)
    return LikelyCause(Cause.HARDLY_BEGUN, _MORE_EPOCHS, {"percent": percent})


def _mean_cosine(geometry: Geometry) -> float:
    """The mean cosine of two training images of any class."""
    counts = torch.tensor(geometry.counts, dtype=torch.float64)
    return float((counts / counts.sum() @ geometry.means.double()).square().sum())


def _dead(settings: Settings, geometry: Geometry) -> list[LikelyCause]:
    """Dimensions and rows that have no gradient."""
    encoder, causes = settings.encoder, []
    ways: list[tuple[Part, ...]] = [("a smaller ", Option("lr"))]
    if encoder.activation != "abs":
        ways.append((Option("activation", "abs"), ", without dead units"))
    k, live = len(geometry.names), geometry.dim - geometry.ownership.dead
    if live < k:
        more = ("a larger ", Option("width")) if encoder.head == "none" else ("more ", Option("features"))
        causes.append(LikelyCause(Cause.DEAD_DIMENSIONS, _either(more, *ways), {"live": live, "classes": k}))
    if geometry.dead_rows:
        causes.append(LikelyCause(Cause.DEAD_ROWS, _either(*ways), {"rows": geometry.dead_rows}))
    return causes


def _pooled_maps(settings: Settings) -> list[LikelyCause]:
    """Features that are averages of maps, which not all networks have."""
    encoder = settings.encoder
    is_pooled = encoder.head == "none" and settings.objective.has_head
    has_maps = encoder.model is None or ENCODERS[encoder.model].has_maps
    if not (is_pooled and has_maps) or encoder.activation != "relu":
        return []
    return [LikelyCause(Cause.POOLED_MAPS, (Option("head", "linear"),))]


def _fastest(task: Task) -> float | None:
    """The temperature at which free features near the frame move fastest, in batches such as those of the run."""
    settings, images = task.settings, len(task.train)
    views = settings.views_in(settings.schedule.epochs - 1)
    return settings.objective.fastest_temperature(
        rows=min(settings.batches.batch_size, images) * views,
        image_share=max(task.class_counts) / images,
        row_share=float(task.shares().max()),
        num_classes=len(task.class_counts),
    )


def _too_hot(task: Task) -> list[LikelyCause]:
    """A temperature so high that it hardly tells classes apart."""
    best, schedule = _fastest(task), task.settings.objective.temperature
    if best is None or schedule is None or schedule.largest <= 2 * best:
        return []
    advice = (Option("temperature", TEMPERATURE), f", or a schedule that starts there and ends near {best:.2f}")
    return [LikelyCause(Cause.TOO_HOT, advice, {"temperature": schedule.largest, "fastest": best})]


def _too_cold(task: Task) -> list[LikelyCause]:
    """A temperature so low that features near the frame hardly move."""
    best, objective = _fastest(task), task.settings.objective
    schedule = objective.temperature
    if best is None or schedule is None or schedule.last >= best / 2:
        return []
    rising: tuple[Part, ...] = ("a schedule such as ", _RISING)
    if schedule.first < schedule.last:
        rising = (f"a schedule that ends near {best:.2f}",)
    values = {"temperature": schedule.last, "fastest": best}
    return [LikelyCause(Cause.TOO_COLD, _either(rising, *objective.accelerations()), values)]


def _unexplained(settings: Settings, progress: Ending, column: Column) -> LikelyCause:
    ways: list[tuple[Part, ...]] = [("another ", Option("seed")), ("a wider encoder",), ("a larger ", Option("lr"))]
    temperature = settings.objective.temperature
    if temperature is not None and temperature.first >= temperature.last:
        ways.append(("a temperature schedule such as ", _RISING))
    if progress is Ending.SLOW:
        return LikelyCause(Cause.SLOW, _either(("many more ", Option("epochs")), *ways), {"quantity": _NAMES[column]})
    return LikelyCause(Cause.STALLED, _either(*ways), {"quantity": _NAMES[column]})


def _either(*ways: tuple[Part, ...]) -> tuple[Part, ...]:
    """Join alternatives: `a, b, or c`."""
    parts: list[Part] = list(ways[0])
    for way in ways[1:]:
        parts += [", or " if way is ways[-1] else ", ", *way]
    return tuple(parts)
