"""What studies cost: measured seconds of single runs, and core-minutes of whole studies estimated from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orthoframe.options import Scale
from orthoframe_studies._claims import agrees
from orthoframe_studies._study import Study

_NETWORK = {"features": "network"}
# Seconds of a run, by coordinates of its cell; the first that agree are taken.
_Seconds = tuple[tuple[Mapping[str, Any], float], ...]
_FULL: _Seconds = (({"ratio": 1}, 130.0), ({}, 60.0))  # 3000 full batches of the digits
# One run on one thread at desk scale: medians of whole runs on two cores that other work used, too.
_DESK: Mapping[str, _Seconds] = {
    "geometry": (
        ({"data": "digits", "ratio": 1}, 40.0),
        ({"data": "digits"}, 20.0),
        ({"data": "mnist"}, 70.0),
        ({"data": "fashion-mnist", "model": "mlp"}, 35.0),
        ({"data": "cifar10", "ratio": 10}, 170.0),
        ({"data": "cifar10"}, 560.0),
        ({"model": "densenet40-half"}, 320.0),
    ),
    "without-relu": (({"features": "free"}, 2.5), *_FULL),
    "activations": (({"batches": "bound"}, 7.5), ({"batches": "full"}, 60.0)),
    "floor": _FULL,
    "cross-entropy": (
        ({"loss": "supcon", "ratio": 1}, 40.0),
        ({"loss": "supcon"}, 20.0),
        ({**_NETWORK, "ratio": 1}, 55.0),
        (_NETWORK, 25.0),
        ({"data": "none"}, 2.5),
    ),
    "batching": (
        (_NETWORK, 11.0),
        ({"features": "free"}, 15.0),
        ({"features": "planned network"}, 5.0),
        ({"features": "CIFAR-10, ResNet-18"}, 130.0),
    ),
    "temperature": (({"features": ("free", "free, solved")}, 1.0), ({}, 17.0)),
    "batch-size": (
        ({**_NETWORK, "batch_size": (32, 64)}, 9.0),
        ({**_NETWORK, "batch_size": 128}, 12.0),
        (_NETWORK, 18.0),
        ({"features": "free"}, 4.0),
    ),
    "accuracy": (({"method": ("cross-entropy", "balanced softmax")}, 12.5), ({}, 18.0)),
    "extreme-imbalance": (({"features": "MNIST"}, 110.0), ({"ratio": 1000}, 90.0), ({}, 2.0)),
    "complexity": (
        ({"network": "MLP", "width": 1024}, 37.0),
        ({"network": "MLP"}, 3.0),
        ({"network": "ResNet-18, half width"}, 32.0),
        ({"network": "ResNet-18"}, 53.0),
        ({"network": "ResNet-34"}, 74.0),
        ({"network": "DenseNet-40"}, 97.0),
    ),
    "generalisation": (({"data": "digits"}, 7.0), ({"data": "fashion-mnist"}, 40.0)),
    "paper-size": (({"data": "mnist"}, 880.0), ({"data": "cifar10"}, 1490.0), ({}, 1400.0)),
}
_SMOKE = 0.4
"""Seconds of a run at smoke scale, without the start of its process."""


@dataclass(frozen=True)
class Cost:
    """What a study costs at a scale.

    Attributes:
        runs: How many runs it has.
        minutes: Core-minutes of those runs whose kind was measured.
        unmeasured: How many runs are of a kind that was not.
    """

    runs: int
    minutes: float
    unmeasured: int


def estimate(study: Study, scale: Scale) -> Cost:
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
    return Cost(sum(counts), minutes, unmeasured)


def _seconds(name: str, scale: Scale, where: Mapping[str, Any]) -> float | None:
    if scale == "smoke":
        return _SMOKE
    if scale == "paper":
        return None
    return next((seconds for wanted, seconds in _DESK.get(name, ()) if agrees(where, wanted)), None)
