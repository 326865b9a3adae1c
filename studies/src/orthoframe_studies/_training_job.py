"""The job of a study that trains a network, and the numbers that claims are about."""

import math
import shutil
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from orthoframe.losses import angle_bound, decay_rate
from orthoframe.options import has_data_dir
from orthoframe_studies._claims import OF
from orthoframe_studies._endings import trend
from orthoframe_studies._jobs import UNBOUND, JobResult, Number, crossing, to_predicted
from orthoframe.training import Settings

if TYPE_CHECKING:
    from orthoframe.training import EpochRecord, RunResult

_SIZES = 20  # different class sizes up to which the geometry without ReLU is predicted
_ORTHANT = ("relu", "abs", "square", "softplus")  # activations whose features are not negative
_NEARING, _POINTS = (0.3, 0.01), 4  # Delta_GM between which its decay is measured, and fewest measurements

# Settings that are younger than stored results; while they have their defaults, these keep their names.
_LATER = (
    "path_column",
    "label_column",
    "split_column",
    "group_column",
    "size",
    "fit",
    "validation",
    "flip",
    "minutes",
    "backbone",
    "init",
    "backbone_lr",
    "head_norm",
    "supcon",
    "margin",
    "power",
    "adjust",
    "probe",
)


@dataclass(frozen=True)
class Training:
    """A network is trained; its curve has one entry per measured epoch."""

    settings: Settings

    def to_dict(self) -> dict[str, Any]:
        """The settings, without the place of the data."""
        settings = self.settings.to_dict()
        for place in ("data_dir", "devices", "compile", "workers", "memory"):
            del settings[place]
        usual = Settings().to_dict()
        for name in _LATER:
            if settings[name] == usual[name]:
                del settings[name]
        settings["head"] = settings["head"] or ("none" if self.settings.linear_classifier else "linear")
        return {"kind": "training", **settings}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        """Train, or go on; the folder of the run is removed at the end."""
        from orthoframe.training import resume, train

        run = folder / "run"
        begun = (run / "config.json").exists()
        settings = replace(self.settings, data_dir=data_dir if has_data_dir(self.settings.data) else None)
        outcome = resume(run, report=False) if begun else train(settings, run, report=False)
        assert outcome is not None  # there is one process
        shutil.rmtree(run, ignore_errors=True)
        return _trained(self.settings, outcome)


def _trained(settings: Settings, outcome: "RunResult") -> JobResult:
    from orthoframe.batches import epochs_to_certify

    found, test, last = outcome.evaluation.geometry, outcome.evaluation.tested, outcome.records[-1]
    measured = [record for record in outcome.records if record.delta_of is not None]
    names = ("epoch", "loss", "gap", "delta_of", "raw_delta_of", "beta_nc", "test_balanced_accuracy")
    curve = {name: [getattr(record, name) for record in measured] for name in names}
    final: dict[str, Number] = {
        "delta_of": found.delta_of,
        "live_delta_of": found.live_delta_of,
        "raw_delta_of": outcome.evaluation.raw_delta_of,
        "delta_etf": found.delta_etf,
        "beta_nc": found.beta_nc,
        "mean_cosine": found.mean_cosine,
        "max_cosine": found.max_cosine,
        "loss": last.loss,
        "gap": last.gap,
        "relative_gap": last.relative_gap,
        "epochs_to_of": crossing(curve["epoch"], curve["delta_of"], OF),
        **{f"{name}_accuracy": getattr(test, name) for name in ("balanced", "worst", "majority", "minority")},
        "margin": test.margin,
        "minority_margin": test.minority_margin,
        "certified": float(outcome.certificate.certificate.holds),
        "dead_rows": last.dead_rows,
        "merged_classes": sum(map(len, outcome.diagnosis.merged)),
        "live_dimensions": last.live_dimensions,
        "seconds": sum(record.seconds for record in outcome.records),
    }
    if settings.loss == "supcon" and len(set(found.counts)) <= _SIZES:
        final["delta_predicted"] = to_predicted(found, settings.temperature.last, settings.denominator)
    if settings.loss == "supcon" and (settings.scheme, settings.binding) == UNBOUND:
        with suppress(ValueError):  # no number of epochs suffices: two classes of one image never push each other apart
            final["epochs_to_certify"] = epochs_to_certify(found.counts, settings.batch_size)
    final |= _how_far(settings, outcome)
    return JobResult(final, curve, found.cosines.tolist())


def _how_far(settings: Settings, outcome: "RunResult") -> dict[str, Number]:
    """How far the run is from its end, and how fast it came near the frame."""
    records, counts = outcome.records, outcome.evaluation.geometry.counts
    last, before = records[-1], [0, *(record.epoch for record in records[:-1])]
    # The way that the weights can have gone.
    done = list(accumulate(record.lr * (record.epoch - since) for record, since in zip(records, before, strict=True)))
    columns = {"delta_of": [r.delta_of for r in records], "raw_delta_of": [r.raw_delta_of for r in records]}
    final: dict[str, Number] = {}
    if settings.loss == "supcon" and settings.activation in _ORTHANT and last.gap is not None:
        final["gap_trend"] = trend(done, [record.relative_gap for record in records])
        final["angle_bound"] = _angle_bound(settings, counts, last.gap)
    elif settings.loss == "supcon" and settings.scheme == "full" and settings.temperature.constant:
        final["excess"] = _excess(settings, counts, last)
    moved = [found for column in columns.values() if (found := trend(done, column)) is not None]
    final["trend"] = max(moved, default=None)
    plain = settings.loss == "supcon" and settings.denominator == "all" and settings.temperature.constant
    if plain and (rate := _decay(done, columns["delta_of"])):
        rows, _ = _in_a_batch(settings, counts)
        near = decay_rate(rows[0] - 1, sum(rows) - rows[0], **_terms(settings))  # of a large class
        final |= {"rate": rate, "rate_to_formula": rate / float(near)}
    return final


def _terms(settings: Settings) -> dict[str, Any]:
    last = settings.temperature.last
    return {"temperature": last, "denominator": settings.denominator, "margin": settings.margin.last}


def _in_a_batch(settings: Settings, counts: Sequence[int]) -> tuple[list[float], list[float]]:
    """Rows of each class that a batch has in the mean, and the part of the anchors that they are."""
    size, total = float(min(settings.batch_size, sum(counts))), float(sum(counts))
    if settings.scheme == "full":
        size = total
    added = (
        settings.bound_examples if settings.binding in ("fixed", "redrawn") and settings.bound_classes is None else 0
    )
    even = settings.scheme == "balanced"
    rows = [(size / len(counts) if even else size * count / total) + added for count in counts]
    return rows, [count / sum(rows) for count in rows]


def _angle_bound(settings: Settings, counts: Sequence[int], gap: float) -> float:
    """The largest deviation from a frame, of any class, that the gap of the last epoch allows.

    Every class is at or above its floor, so that its mean gap is at most that of all, divided by its part of the
    anchors. Batches are taken to have the rows of each class that they have in the mean.
    """
    rows, parts = (torch.tensor(each, dtype=torch.float64) for each in _in_a_batch(settings, counts))
    others = rows.sum() - rows if settings.denominator != "class-average" else len(counts) - 1.0
    return float(angle_bound(gap / parts, (rows - 1).clamp(min=1.0), others, **_terms(settings)).max())


def _excess(settings: Settings, counts: Sequence[int], last: "EpochRecord") -> float:
    """How far the loss of one batch of everything is above its optimum: 0 there, 1 at the floor of a frame."""
    from orthoframe.ufm import gram_loss, predict_gram

    terms, sizes = _terms(settings), torch.tensor(counts)
    lowest = gram_loss(predict_gram(counts, **terms), sizes, **terms) / float(sizes[sizes > 1].sum())
    assert last.floor is not None
    return (last.loss - lowest) / (last.floor - lowest)


def _decay(done: Sequence[float], deltas: Sequence[float | None]) -> float | None:
    """The rate at which the logarithm of Delta_GM falls near the frame, per summed learning rate; least squares."""
    most, least = _NEARING
    points = [(x, math.log(y)) for x, y in zip(done, deltas, strict=True) if y is not None and least <= y <= most]
    if len(points) < _POINTS:
        return None
    slope = statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope
    return -slope if slope < 0 else None
