"""What a study computes. A job is a pure function of its options, and they are its key in the store."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from orthoframe.errors import OrthoframeError
from orthoframe.options import Denominator

if TYPE_CHECKING:
    from orthoframe.geometry import Geometry
    from orthoframe.training import Settings

_FORMAT = 3  # of results; another number makes every job run again
UNBOUND = ("reshuffle", "none")
"""Scheme and binding of the batches that coverage is about."""

_OTHER = object()
FIELDS: dict[str, Any] = {
    "data": "digits",
    "imbalance": "step",
    "ratio": 10.0,
    "majority": None,
    "model": "mlp",
    "width": None,
    "head": "linear",
    "features": None,
    "activation": "relu",
    "loss": "supcon",
    "denominator": "all",
    "temperature": 0.1,
    "classifier": 0.0,
    "scheme": "reshuffle",
    "binding": "fixed",
    "bound_classes": None,
    "bound_examples": 1,
    "prototypes": False,
    "batch_size": 128,
    "views": 1,
    "augment": True,
    "clean_fraction": 0.4,
    "epochs": None,
    "lr": 0.1,
    "lr_schedule": "cosine",
    "weight_decay": 5e-4,
    "precision": "32",
    "test_images": None,
    "measure_every": None,
    "seed": 0,
}
"""Settings that are in every key, with the value of a training that does not say otherwise.

A value here never changes, or results would be taken for those of other settings.
"""
YOUNGER: dict[str, Any] = {
    "path_column": "path",
    "label_column": "label",
    "split_column": None,
    "group_column": None,
    "group_by": None,
    "size": None,
    "fit": "pad",
    "validation": 0.0,
    "flip": False,
    "minutes": None,
    "steps": None,
    "backbone": None,
    "init": None,
    "backbone_lr": None,
    "head_norm": "none",
    "supcon": 0.0,
    "margin": 0.0,
    "power": None,
    "adjust": 0.0,
    "probe": False,
}
"""Settings that are younger than the first results: they are in a key only with another value than this."""
ELSEWHERE = ("data_dir", "devices", "compile", "workers", "memory")
"""Settings that change no result: where data is, and what computes."""
_MEASUREMENTS = 40  # of a training that does not say when

Engine = Literal["local", "ray"]
"""Where jobs run: the cores of this machine, or a Ray cluster."""
Number = int | float | None


class StudyError(OrthoframeError):
    """A study cannot be run."""


class BegunAnew(UserWarning):
    """A job does not use what an earlier process left in its folder."""


@dataclass(frozen=True)
class JobResult:
    """What a job computed."""

    final: Mapping[str, Number]  # numbers at the end, by name; None for a time that was not reached
    curve: Mapping[str, Sequence[Number]]  # numbers along the way, by name, one per measurement
    cosines: Sequence[Sequence[Number]] | None = None  # of the class means


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


def decided(settings: "Settings") -> "Settings":
    """The settings with everything decided that a key has, so that no later default changes what is run."""
    values = {**FIELDS, **YOUNGER, "head": "linear" if settings.objective.has_head else "none"}
    if isinstance(settings.schedule.epochs, int):
        values["measure_every"] = max(1, settings.schedule.epochs // _MEASUREMENTS)
    return settings.with_options(**{name: values[name] for name in settings.undecided() if name in values})


def training_key(settings: "Settings") -> dict[str, Any]:
    """The entries of a key, in types that JSON knows; those of a loss of somebody's own come after ours."""
    options = {name: value for name, value in decided(settings).to_dict().items() if name not in ELSEWHERE}
    # A loss has no settings of another: these keep the value that says nothing.
    every = {name: options.pop(name, usual) for name, usual in FIELDS.items()}
    return {**every, **{name: value for name, value in options.items() if value != YOUNGER.get(name, _OTHER)}}


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


def labels_of(class_counts: Sequence[int]) -> list[int]:
    """The class of each sample, if there are so many of each."""
    return [c for c, count in enumerate(class_counts) for _ in range(count)]


def to_predicted(geometry: "Geometry", temperature: float, denominator: Denominator) -> float:
    """The distance to the geometry that is predicted for features of any sign."""
    from orthoframe.ufm import predict_gram

    return float(geometry.distance_to(predict_gram(geometry.counts, temperature=temperature, denominator=denominator)))
