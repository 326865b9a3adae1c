"""What studies cost: measured seconds of single runs, and core-minutes of whole studies estimated from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import agrees
from orthoframe.studies._study import Study

# Seconds of one run on one thread at desk scale, by coordinates of its cell; the first that agree are taken.
_DESK: Mapping[str, tuple[tuple[Mapping[str, Any], float], ...]] = {}
# Of a run at smoke scale, start included.
_SMOKE: float | None = None


@dataclass(frozen=True)
class Estimate:
    """What a study costs at a scale.

    Attributes:
        runs: How many runs it has.
        minutes: Core-minutes of those runs whose kind was measured.
        unmeasured: How many runs are of a kind that was not.
    """

    runs: int
    minutes: float
    unmeasured: int


def estimate(study: Study, scale: Scale) -> Estimate:
    """Core-minutes of a study, from measured runs.

    Args:
        study: The study.
        scale: At which scale; at `paper` nothing was measured, because it needs GPUs.
    """
    cells = study.cells(scale)
    known = [_seconds(study.name, scale, cell.where) for cell in cells]
    counts = [study.seeds(scale, cell) for cell in cells]
    minutes = sum(count * seconds / 60 for count, seconds in zip(counts, known, strict=True) if seconds is not None)
    unmeasured = sum(count for count, seconds in zip(counts, known, strict=True) if seconds is None)
    return Estimate(sum(counts), minutes, unmeasured)


def _seconds(name: str, scale: Scale, where: Mapping[str, Any]) -> float | None:
    if scale == "smoke":
        return _SMOKE
    if scale == "paper":
        return None
    return next((seconds for wanted, seconds in _DESK.get(name, ()) if agrees(where, wanted)), None)
