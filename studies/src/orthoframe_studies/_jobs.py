"""What a study computes. A job is a pure function of its options."""

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

_FORMAT = 3  # of results; another number makes every job run again
UNBOUND = ("reshuffle", "none")
"""Scheme and binding of the batches that coverage is about."""

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
