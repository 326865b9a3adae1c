"""The job of a study that trains a network, and the numbers that claims are about."""

import json
import math
import shutil
import statistics
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from orthoframe.encoders import ACTIVATIONS
from orthoframe.errors import OrthoframeError
from orthoframe.files import parsed, read_small, write_json
from orthoframe.losses import angle_bound, decay_rate
from orthoframe.options import FRAME_DISTANCE, data_kind
from orthoframe.runs import CONFIG, RunFolder, summed_rates
from orthoframe.training import BatchSettings, Contrastive, Objective, RunResult, Settings, Stopped, resume, train
from orthoframe_studies._endings import trend
from orthoframe_studies._jobs import (
    UNBOUND,
    BegunAnew,
    JobResult,
    Number,
    StudyError,
    crossing,
    decided,
    key,
    to_predicted,
    training_key,
)

if TYPE_CHECKING:
    from orthoframe.batches import BatchPlan
    from orthoframe.runs import EpochRecord

_JOB = "study-job.json"  # beside the files of a run: whose it is
_SIZES = 20  # different class sizes up to which the geometry without ReLU is predicted
_NEARING, _POINTS = (0.3, 0.01), 4  # Delta_GM between which its decay is measured, and fewest measurements
_CURVES = ("epoch", "loss", "gap", "delta_of", "raw_delta_of", "beta_nc", "test_balanced_accuracy")


@dataclass(frozen=True)
class Training:
    """A network is trained; its curve has one entry per measured epoch."""

    settings: Settings

    def to_dict(self) -> dict[str, Any]:
        """Everything that decides the result."""
        return {"kind": "training", **training_key(self.settings)}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        """Train, or go on; the folder of the run is removed at the end."""
        return result_of(train_or_resume(self.settings, folder / "run", data_dir, key(self)))


def train_or_resume(
    settings: Settings, run: Path, data_dir: Path | None, job: str, *, plan: "BatchPlan | None" = None
) -> RunResult:
    """Train, or go on with a run that has the key of this job; the folder of the run is removed at the end.

    A run of another job, and one that cannot go on, are begun anew, with a `BegunAnew`. What stops a run that had gone
    on, such as a full disk, is an error: it may go on another time.
    """
    outcome = None
    if (run / CONFIG).exists():
        try:
            _check_own(run, settings, job, plan)
            outcome = resume(run, plan=plan)
        except Stopped:
            raise
        except OrthoframeError as error:
            warnings.warn(f"begun anew, because its run cannot go on: {error}", BegunAnew, stacklevel=2)
    if outcome is None:
        shutil.rmtree(run, ignore_errors=True)
        settings = decided(settings) if plan is None else replace(decided(settings), batches=BatchSettings())
        kind = data_kind(settings.images.data)
        if data_dir is not None and kind is not None and "folder" in kind.takes:
            settings = settings.with_options(data_dir=data_dir)
        run.mkdir(parents=True)
        write_json(run / _JOB, {"key": job})
        outcome = train(settings, run, plan=plan)
    assert outcome is not None  # there is one process
    shutil.rmtree(run, ignore_errors=True)
    return outcome


def _check_own(run: Path, settings: Settings, job: str, plan: "BatchPlan | None") -> None:
    """Refuse a run without the key of the job, or of other settings, as files that were copied over its own have.

    The checkpoint knows the plan, which decides the settings of batches.
    """
    stored = RunFolder(run).read_config(Settings.from_dict)
    if plan is not None:
        stored = replace(stored, batches=settings.batches)
    owner = None
    with suppress(OSError, ValueError):
        owner = parsed(json.loads, read_small(run / _JOB))
    used = training_key(stored)  # what a key leaves open is decided there
    differs = any(used.get(name) != value for name, value in training_key(settings).items() if value is not None)
    if owner != {"key": job} or differs:
        raise StudyError(f"{run} has the run of another job")


def result_of(outcome: RunResult, **more: Number) -> JobResult:
    """The numbers of a run, at its end and along the way, and more of them."""
    final, curve = numbers_of(outcome)
    return JobResult(final | more, curve, outcome.evaluation.geometry.cosines.tolist())


def numbers_of(outcome: RunResult) -> tuple[dict[str, Number], dict[str, list[Number]]]:
    """Numbers at the end of a run, and along the way."""
    settings, geometry = outcome.settings, outcome.evaluation.geometry
    test, last = outcome.diagnosis.test.accuracy, outcome.records[-1]
    measured = [record for record in outcome.records if record.delta_of is not None]
    curve = {name: [getattr(record, name) for record in measured] for name in _CURVES}
    final: dict[str, Number] = {
        "delta_of": geometry.delta_of,
        "live_delta_of": geometry.live_delta_of,
        "raw_delta_of": outcome.evaluation.raw_delta_of,
        "delta_etf": geometry.delta_etf,
        "beta_nc": geometry.beta_nc,
        "mean_cosine": geometry.mean_cosine,
        "max_cosine": geometry.max_cosine,
        "loss": last.loss,
        "gap": last.gap,
        "relative_gap": last.relative_gap,
        "epochs_to_of": crossing(curve["epoch"], curve["delta_of"], FRAME_DISTANCE),
        **{f"{name}_accuracy": getattr(test, name) for name in ("balanced", "worst", "majority", "minority")},
        "margin": test.margin,
        "minority_margin": test.minority_margin,
        "certified": float(outcome.certificate.certificate.holds),
        "dead_rows": last.dead_rows,
        "merged_classes": sum(map(len, outcome.diagnosis.merged)),
        "live_dimensions": last.live_dimensions,
        "seconds": sum(record.seconds for record in outcome.records),
    }
    columns = [r.delta_of for r in outcome.records], [r.raw_delta_of for r in outcome.records]
    moved = [trend(summed_rates(outcome.records), column) for column in columns]
    final["trend"] = max((exponent for exponent in moved if exponent is not None), default=None)
    theory = _THEORY.get(type(settings.objective))
    return final if theory is None else final | theory(outcome), curve


def _of_contrastive(outcome: RunResult) -> dict[str, Number]:
    """What is predicted of the contrastive loss, how far a run is from its end, and how fast it came near the frame."""
    from orthoframe.batches import epochs_to_certify

    settings, records, geometry = outcome.settings, outcome.records, outcome.evaluation.geometry
    loss, batches, counts, final = settings.objective, settings.batches, geometry.counts, dict[str, Number]()
    assert isinstance(loss, Contrastive)
    if len(set(counts)) <= _SIZES:
        final["delta_predicted"] = to_predicted(geometry, loss.temperature.last, loss.denominator)
    if (batches.scheme, batches.binding) == UNBOUND:
        with suppress(ValueError):  # no number suffices: two classes of one image never push each other apart
            final["epochs_to_certify"] = epochs_to_certify(counts, batches.batch_size)
    last, done = records[-1], summed_rates(records)
    is_constant = loss.temperature.constant
    if ACTIVATIONS[settings.encoder.activation].nonnegative and last.gap is not None:
        final["gap_trend"] = trend(done, [record.relative_gap for record in records])
        final["angle_bound"] = mean_angle_bound(settings, counts, last.gap)
    elif batches.scheme == "full" and is_constant:
        final["excess"] = _excess(loss, counts, last)
    if loss.denominator == "all" and is_constant and (rate := decay(done, [r.delta_of for r in records])):
        rows, _ = rows_in_a_batch(settings, counts)
        near = decay_rate(rows[0] - 1, sum(rows) - rows[0], **_terms(loss))  # of a large class
        final |= {"rate": rate, "rate_to_formula": rate / float(near)}
    return final


_THEORY: dict[type[Objective], Callable[[RunResult], dict[str, Number]]] = {Contrastive: _of_contrastive}
"""The numbers that theory has of a loss, and of no other."""


def _terms(loss: Contrastive) -> dict[str, Any]:
    return {"temperature": loss.temperature.last, "denominator": loss.denominator, "margin": loss.margin.last}


def rows_in_a_batch(settings: Settings, counts: Sequence[int]) -> tuple[list[float], list[float]]:
    """Rows of each class that a batch has on average, and the part of the anchors that they are."""
    batches, total = settings.batches, float(sum(counts))
    size = total if batches.scheme == "full" else min(float(batches.batch_size), total)
    is_bound = batches.binding in ("fixed", "redrawn") and batches.bound_classes is None
    added = batches.bound_examples if is_bound else 0
    even = batches.scheme == "balanced"
    rows = [(size / len(counts) if even else size * count / total) + added for count in counts]
    return rows, [count / sum(rows) for count in rows]


def mean_angle_bound(settings: Settings, counts: Sequence[int], gap: float) -> float:
    """The largest deviation from a frame, of any class, that the gap of the last epoch allows.

    Every class is at or above its floor, so that its mean gap is at most that of all, divided by its part of the
    anchors. Batches are taken to have the rows of each class that they have on average.
    """
    loss = settings.objective
    assert isinstance(loss, Contrastive)
    rows, parts = (torch.tensor(each, dtype=torch.float64) for each in rows_in_a_batch(settings, counts))
    others = rows.sum() - rows if loss.denominator != "class-average" else len(counts) - 1.0
    return float(angle_bound(gap / parts, (rows - 1).clamp(min=1.0), others, **_terms(loss)).max())


def _excess(loss: Contrastive, counts: Sequence[int], last: "EpochRecord") -> float:
    """How far the loss of one batch of everything is above its optimum: 0 there, 1 at the floor of a frame."""
    from orthoframe.ufm import gram_loss, predict_gram

    terms, sizes = _terms(loss), torch.tensor(counts)
    lowest = gram_loss(predict_gram(counts, **terms), sizes, **terms) / float(sizes[sizes > 1].sum())
    assert last.floor is not None
    return (last.loss - lowest) / (last.floor - lowest)


def decay(done: Sequence[float], deltas: Sequence[float | None]) -> float | None:
    """The rate at which the logarithm of Delta_GM falls near the frame, per summed learning rate; least squares."""
    most, least = _NEARING
    points = [(x, math.log(y)) for x, y in zip(done, deltas, strict=True) if y is not None and least <= y <= most]
    if len(points) < _POINTS:
        return None
    slope = statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
    return -slope if slope < 0 else None
