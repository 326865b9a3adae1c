"""Why a run did not reach the frame: likely causes, most severe first, and what to try."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

import torch

from orthoframe.batches import RunCertificate
from orthoframe.errors import Option, Part
from orthoframe.geometry import Geometry
from orthoframe.losses import fastest_temperature
from orthoframe.training._evaluation import Evaluation
from orthoframe.training._objective import PARALLEL, warm_start
from orthoframe.training._records import Cause, Ending, EpochRecord
from orthoframe.training._settings import Settings
from orthoframe.training._task import Task

Spell = Callable[[Option], str]
Column = Literal["delta_of", "beta_nc", "gap"]

_NAMES: dict[Column, str] = {
    "delta_of": "the distance to the frame",
    "beta_nc": "beta_NC",
    "gap": "the gap above the floor",
}
# Fractions of the way from features that are all alike to the floor: about none, half, and so much that the rest of the
# way shows in the distance to the frame and no longer in the loss.
_ALIKE, _BEGUN, _NEAR = 0.05, 0.5, 0.9
# The loss is above that of features that are all alike by this fraction of the way.
_MIXED = -0.1
# Exponents of the summed learning rate: twice as many epochs would take off a fifth, or 3 per cent.
_FALLING, _SLOW = 0.3, 0.05
# The end of a run is the last fifth of its summed learning rate.
_END = 0.2
# A learning rate is large, or small, by this factor from the default.
_FAR = 10
_RISING = Option("temperature", (0.1, 0.5))


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


def explain(
    task: Task, certified: RunCertificate, records: Sequence[EpochRecord], found: Evaluation, column: Column
) -> tuple[list[LikelyCause], Ending | None]:
    """What can be checked, most severe first; and how the run ended."""
    settings, last = task.settings, records[-1]
    done = 1.0 - (last.relative_gap or 0.0)  # a loss without a floor counts as near it
    # The floor and the scale of the loss move with these, so that its gap need not fall on the way to the frame.
    steady = settings.margin.constant and settings.temperature.constant and settings.supcon.constant
    column = "gap" if done < _NEAR and steady else column
    progress = _trend(records, column, settings)
    uncertified, large, hot = _uncertified(settings, certified), _large_lr(settings, done), _too_hot(task)
    causes = _wrong_problem(task)
    causes += [*(uncertified if certified.conclusive else []), *large, *hot, *_dead(settings, found)]
    # The features of an MLP and of a transformer are not averages of maps.
    pooled = settings.head == "none" and not settings.linear_classifier
    if pooled and settings.model not in ("mlp", "vit") and settings.activation == "relu":
        causes.append(LikelyCause(Cause.POOLED_MAPS, (Option("head", "linear"),)))
    explained = bool(causes)
    causes += [] if certified.conclusive else uncertified
    if large or hot:  # more of the same would not help
        return causes, Ending.MIXED if done < _MIXED else Ending.ALIKE if done < _ALIKE else None
    if done < _ALIKE or (done < _BEGUN and progress is not Ending.STALLED):
        ending = Ending.HARDLY_BEGUN
        if progress is Ending.STALLED:
            ending = Ending.MIXED if done < _MIXED else Ending.ALIKE
        return [*causes, _hardly_begun(settings, done, last, found.geometry)], ending
    if progress is Ending.FALLING:
        falling = LikelyCause(Cause.STILL_FALLING, ("more ", Option("epochs")), {"quantity": _NAMES[column]})
        return [*causes, falling], Ending.FALLING
    if explained:
        return causes, None
    cold = _too_cold(task) if done >= _NEAR else []
    if cold:
        return [*causes, *cold], Ending.SLOW
    return (causes, None) if causes else ([_unexplained(settings, progress, column)], progress)


def _trend(records: Sequence[EpochRecord], column: Column, settings: Settings) -> Ending:
    """How a column falls at the end of a run, as a power of the summed learning rate: falling, slow or stalled.

    Epochs in which the learning rate is nearly zero move nothing, and do not tell what more epochs would do. The gap is
    taken relative to that of features that are all alike. Fewer than two values count as falling.
    """
    before = [0, *(record.epoch for record in records[:-1])]
    sums = list(accumulate(record.lr * (record.epoch - last) for record, last in zip(records, before, strict=True)))
    total = sums[-1]
    values = [record.relative_gap if column == "gap" else getattr(record, column) for record in records]
    known = [(done, value) for done, value in zip(sums, values, strict=True) if value is not None]
    if len(known) < 2:
        return Ending.FALLING
    # Values of augmented images cannot be compared with later ones.
    restart = settings.settling_epoch if settings.settling_epoch < records[-1].epoch else 0
    augmented = max((done for done, record in zip(sums, records, strict=True) if record.epoch <= restart), default=0.0)
    phase = total - augmented
    start = total - min(_END * total, phase / 2)
    (then, first), (now, last) = ([entry for entry in known[:-1] if entry[0] <= start] or known[:1])[-1], known[-1]
    if not (math.isfinite(first) and math.isfinite(last) and first > 0 and last > 0):
        return Ending.STALLED
    if not now > then > 0:
        return Ending.FALLING
    exponent = math.log(first / last) / math.log(now / then)
    return Ending.FALLING if exponent >= _FALLING else Ending.SLOW if exponent >= _SLOW else Ending.STALLED


def _wrong_problem(task: Task) -> list[LikelyCause]:
    """What is minimised has another optimum than an orthogonal frame, or another purpose."""
    causes, activation = [], task.settings.activation
    advice: tuple[Part, ...]
    if task.settings.linear_classifier:
        return [LikelyCause(Cause.FREE_LENGTHS, (Option("loss", "frame"), " or supcon"))]
    if not task.encoder.nonnegative:
        advice = (Option("activation", "relu"), ", abs or square")
        causes.append(LikelyCause(Cause.NEGATIVE, advice, {"activation": Option("activation", activation)}))
    if task.settings.classifier.last > 0:
        advice = (Option("recipe", "accurate"), " with ", Option("goal", "frame"), ", which settles onto the frame")
        causes.append(LikelyCause(Cause.CLASSIFIER, advice))
    return causes


def _uncertified(settings: Settings, certified: RunCertificate) -> list[LikelyCause]:
    """The batches do not make the frame the only optimum."""
    if settings.linear_classifier or certified.certificate.holds:
        return []
    if settings.loss == "frame":  # which lacks only images that are in no batch
        advice: tuple[Part, ...] = ("more ", Option("epochs"))
    elif settings.binding != "fixed":
        advice = (
            Option("binding", "fixed"),
            ", which guarantees the frame at the cost of one row per class in every batch",
        )
    elif settings.bound_classes is not None:
        advice = ("no ", Option("bound_classes"), ", so that every class is bound")
    else:
        advice = (Option("bound_examples", settings.bound_examples + 1),)
    cause = Cause.UNCERTIFIED if certified.conclusive else Cause.UNCERTIFIED_SO_FAR
    values = {"certificate": certified.sentence(), "epochs": certified.epochs}
    return [LikelyCause(cause, advice, values)]


def _large_lr(settings: Settings, done: float) -> list[LikelyCause]:
    """A learning rate far above the default, with which the loss has not come near its floor."""
    if settings.lr <= _FAR * Settings.lr or done >= _NEAR:
        return []
    advice = ("a smaller learning rate, such as ", Option("lr", Settings.lr))
    return [LikelyCause(Cause.LARGE_LR, advice, {"lr": Option("lr", settings.lr), "percent": 100 * max(0.0, done)})]


def _hardly_begun(settings: Settings, done: float, last: EpochRecord, geometry: Geometry) -> LikelyCause:
    """The loss is still near that of features that are all alike."""
    more: tuple[Part, ...] = ("more ", Option("epochs"))
    percent = 100 * max(0.0, done)
    if settings.lr < Settings.lr / _FAR:
        advice = ("a larger learning rate, such as ", Option("lr", Settings.lr), ", or ", *more)
        return LikelyCause(Cause.SMALL_LR, advice, {"lr": Option("lr", settings.lr), "percent": percent})
    if done < _MIXED:
        values = {"loss": last.loss, "collapsed": last.collapsed}
        return LikelyCause(Cause.MIXED, _either(more, ("a smaller ", Option("lr"))), values)
    cosine = _mean_cosine(geometry)
    if done < _ALIKE and cosine > PARALLEL:
        values = {"loss": last.loss, "collapsed": last.collapsed, "cosine": cosine}
        warm = warm_start(settings)
        advice = more if warm is None else (warm, ", which has no such plateau, or ", *more)
        return LikelyCause(Cause.COLD_START, advice, values)
    if done < _ALIKE:
        values = {"loss": last.loss, "collapsed": last.collapsed}
        return LikelyCause(Cause.ALIKE, (*more, ", or another ", Option("lr")), values)
    return LikelyCause(Cause.HARDLY_BEGUN, more, {"percent": percent})


def _mean_cosine(geometry: Geometry) -> float:
    """Of two training images of any class."""
    counts = torch.tensor(geometry.counts, dtype=torch.float64)
    return float((counts / counts.sum() @ geometry.means.double()).square().sum())


def _dead(settings: Settings, found: Evaluation) -> list[LikelyCause]:
    """Dimensions and rows that have no gradient."""
    geometry, causes = found.geometry, []
    ways: list[tuple[Part, ...]] = [("a smaller ", Option("lr"))]
    if settings.activation != "abs":
        ways.append((Option("activation", "abs"), ", without dead units"))
    k, live = len(geometry.names), geometry.dim - geometry.ownership.dead
    if live < k:
        more = ("a larger ", Option("width")) if settings.head == "none" else ("more ", Option("features"))
        causes.append(LikelyCause(Cause.DEAD_DIMENSIONS, _either(more, *ways), {"live": live, "classes": k}))
    if geometry.dead_rows:
        causes.append(LikelyCause(Cause.DEAD_ROWS, _either(*ways), {"rows": geometry.dead_rows}))
    return causes


def _fastest(task: Task) -> float | None:
    """The temperature at which free features near the frame move fastest, in batches such as those of the run."""
    settings, margin = task.settings, task.settings.margin.last
    if settings.linear_classifier or settings.denominator == "negatives" or margin >= 1:
        return None
    if settings.loss == "frame":
        share = float(task.shares().max())
        return float(fastest_temperature(1.0, (1 - share) / share, margin=margin))
    rows = min(settings.batch_size, len(task.train)) * settings.views_in(settings.num_epochs - 1)
    largest = max(task.class_counts) / len(task.train)
    positives, negatives = max(1.0, rows * largest - 1), max(1.0, rows * (1 - largest))
    if settings.denominator == "class-average":
        negatives = len(task.class_counts) - 1.0
    return float(fastest_temperature(positives, negatives, denominator=settings.denominator, margin=margin))


def _too_hot(task: Task) -> list[LikelyCause]:
    """A temperature so high that it hardly tells classes apart."""
    schedule, best = task.settings.temperature, _fastest(task)
    tau = max(schedule.first, schedule.last)
    if best is None or tau <= 2 * best:
        return []
    advice = (Option("temperature", 0.1), f", or a schedule that starts there and ends near {best:.2f}")
    return [LikelyCause(Cause.TOO_HOT, advice, {"temperature": tau, "fastest": best})]


def _too_cold(task: Task) -> list[LikelyCause]:
    """A temperature so low that features near the frame hardly move."""
    schedule, best = task.settings.temperature, _fastest(task)
    if best is None or schedule.last >= best / 2:
        return []
    rising: tuple[Part, ...] = ("a schedule such as ", _RISING)
    if schedule.first < schedule.last:
        rising = (f"a schedule that ends near {best:.2f}",)
    settings, others = task.settings, list[tuple[Part, ...]]()
    if settings.margin.last == 0:
        others.append((Option("margin", 0.5),))
    if settings.loss == "supcon":
        known = ("sincere",) if settings.margin.largest else ("sincere", "negatives")  # which has no margin
        others += [(Option("denominator", name),) for name in known if name != settings.denominator]
    values = {"temperature": schedule.last, "fastest": best}
    return [LikelyCause(Cause.TOO_COLD, _either(rising, *others), values)]


def _unexplained(settings: Settings, progress: Ending, column: Column) -> LikelyCause:
    ways: list[tuple[Part, ...]] = [("another ", Option("seed")), ("a wider encoder",), ("a larger ", Option("lr"))]
    if settings.temperature.first >= settings.temperature.last:
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
