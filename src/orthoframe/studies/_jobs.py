"""What a study computes: a training, free features, or their gradient flow. A job is a pure function of its options."""

import hashlib
import json
import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from orthoframe.options import Binding, Denominator, Scheme, has_data_dir
from orthoframe.studies._claims import OF
from orthoframe.training import Settings

if TYPE_CHECKING:
    from orthoframe.training import RunResult

_FORMAT = 2  # of results; another number makes every job run again
_AT_FRAME = 1e-3  # Delta_GM of free features that have ended at a frame
_UNBOUND = ("reshuffle", "none")  # the batches that coverage is about
_SIZES = 20  # different class sizes up to which the geometry without ReLU is predicted

Number = int | float | None


@dataclass(frozen=True)
class JobResult:
    """What a job computed.

    Attributes:
        final: Numbers at the end, by name; None for a time that was not reached.
        curve: Numbers along the way, by name, one per measurement.
        cosines: Of the class means.
    """

    final: Mapping[str, Number]
    curve: Mapping[str, Sequence[Number]]
    cosines: Sequence[Sequence[Number]] | None = None


class Job(Protocol):
    """One computation, with its seed."""

    def to_dict(self) -> dict[str, Any]:
        """Everything that decides the result, in types that JSON knows."""

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        """Compute; `folder` is the job's own, and what a killed process left there is used."""


def key(job: Job) -> str:
    """The name of a job: the same for the same options, whatever their order, and whether 10 is written as 10.0."""
    options = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in job.to_dict().items()
    }
    text = json.dumps({**options, "format": _FORMAT}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


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


@dataclass(frozen=True)
class FreeFeatures:
    """Features without a network: where the loss of a plan's batches leads them.

    Attributes:
        class_counts: Samples per class.
        dim: Dimensions of the features.
        epochs: Epochs of the plan, whose batches are taken together; None for one batch of everything.
    """

    class_counts: tuple[int, ...]
    dim: int
    seed: int
    temperature: float = 0.1
    denominator: Denominator = "all"
    nonnegative: bool = True
    epochs: int | None = None
    batch_size: int | None = None
    scheme: Scheme = "reshuffle"
    binding: Binding = "none"
    bound_classes: int | None = None
    bound_examples: int = 1

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "free", **asdict(self)}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        from orthoframe.batches import BatchPlan, certify, coverage
        from orthoframe.ufm import solve_ufm

        labels = _labels(self.class_counts)
        batches = None
        if self.epochs is not None:
            plan = BatchPlan(
                labels,
                self.batch_size,
                scheme=self.scheme,
                binding=self.binding,
                seed=self.seed,
                bound_examples=self.bound_examples,
                bound_classes=None if self.bound_classes is None else range(self.bound_classes),
            )
            batches = [batch for epoch in range(self.epochs) for batch in plan.batches(epoch)]
        solution = solve_ufm(
            labels,
            self.dim,
            batches=batches,
            temperature=self.temperature,
            nonnegative=self.nonnegative,
            denominator=self.denominator,
            seed=self.seed,
        )
        found = solution.geometry
        certificate = certify(labels, [range(len(labels))] if batches is None else batches)
        final: dict[str, Number] = {
            "delta_of": found.delta_of,
            "delta_etf": found.delta_etf,
            "beta_nc": found.beta_nc,
            "loss": solution.loss,
            "gap": solution.gap,
            "certified": float(certificate.holds),
        }
        if self.nonnegative:  # the certificate says whether the frame is the only end
            final["certificate_correct"] = float(certificate.holds == (found.delta_of <= _AT_FRAME))
        if self.epochs is not None and self.batch_size is not None and (self.scheme, self.binding) == _UNBOUND:
            final["coverage"] = coverage(self.class_counts, self.batch_size, self.epochs).probability
        if batches is None and not self.nonnegative:
            final["delta_predicted"] = _to_predicted(found, self.temperature, self.denominator)
        return JobResult(final, {}, found.cosines.tolist())


@dataclass(frozen=True)
class GradientFlow:
    """Gradient flow of random free features, until they are near the frame."""

    class_counts: tuple[int, ...]
    dim: int
    seed: int
    temperature: float = 0.1
    denominator: Denominator = "all"
    near: float = 0.01
    longest: float = 1e7

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "flow", **asdict(self)}

    def run(self, folder: Path, data_dir: Path | None) -> JobResult:
        """Follow the flow over growing times, and stop once it is near."""
        from orthoframe.geometry import measure
        from orthoframe.ufm import gradient_flow, random_rows

        labels = _labels(self.class_counts)
        rows = random_rows(len(labels), self.dim, True, self.seed)
        times, deltas = [0.0], [measure(rows, labels).delta_of]
        while deltas[-1] > self.near and times[-1] < self.longest:
            step = max(0.1, times[-1] * 0.25)
            path = gradient_flow(labels, rows, [step], temperature=self.temperature, denominator=self.denominator)
            rows = path.features[-1]
            times.append(times[-1] + step)
            deltas.append(measure(rows, labels).delta_of)
        reached = crossing(times, deltas, self.near)
        return JobResult({"time_to_of": reached, "delta_of": deltas[-1]}, {"time": times, "delta_of": deltas})


def crossing(times: Sequence[float], values: Sequence[float], level: float) -> float | None:
    """When values have come to a level for good; between two of them the logarithm of the value is linear.

    Examples:
        >>> crossing([0, 10, 20], [1.0, 0.1, 0.001], 0.01)
        15.0
        >>> crossing([0, 10, 20], [1.0, 0.001, 0.5], 0.01) is None
        True
    """
    last = max((place for place, value in enumerate(values) if value > level), default=None)
    if last is None:
        return float(times[0])
    if last + 1 == len(values):
        return None
    before = math.log(values[last] / level)
    part = before / (before + math.log(level / max(values[last + 1], 1e-300)))
    return float(times[last] + part * (times[last + 1] - times[last]))


def _labels(class_counts: Sequence[int]) -> list[int]:
    return [c for c, count in enumerate(class_counts) for _ in range(count)]


def _trained(settings: Settings, outcome: "RunResult") -> JobResult:
    from orthoframe.batches import epochs_to_certify

    found, test, last = outcome.evaluation.geometry, outcome.evaluation.tested, outcome.records[-1]
    measured = [record for record in outcome.records if record.delta_of is not None]
    names = ("epoch", "loss", "floor", "gap", "delta_of", "beta_nc", "test_balanced_accuracy", "test_worst_accuracy")
    curve = {name: [getattr(record, name) for record in measured] for name in names}
    final: dict[str, Number] = {
        "delta_of": found.delta_of,
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
        "live_dimensions": last.live_dimensions,
        "seconds": sum(record.seconds for record in outcome.records),
    }
    if settings.loss == "supcon" and len(set(found.counts)) <= _SIZES:
        final["delta_predicted"] = _to_predicted(found, settings.temperature.last, settings.denominator)
    if settings.loss == "supcon" and (settings.scheme, settings.binding) == _UNBOUND:
        with suppress(ValueError):  # no number of epochs suffices: two classes of one image never push each other apart
            final["epochs_to_certify"] = epochs_to_certify(found.counts, settings.batch_size)
    return JobResult(final, curve, found.cosines.tolist())


def _to_predicted(found: Any, temperature: float, denominator: Denominator) -> float:
    """The distance to the geometry that is predicted for features of any sign."""
    from orthoframe.ufm import predict_gram

    return float(found.distance_to(predict_gram(found.counts, temperature=temperature, denominator=denominator)))
