"""Cells of the grids of studies: trainings at each scale, and other jobs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orthoframe.training import OBJECTIVES, RECIPES, Ramp, Settings, TemperatureSchedule, option_names
from orthoframe_studies._free_jobs import FreeClassifier, FreeFeatures, GradientFlow
from orthoframe_studies._study import FIRST_SEED, Cell, Scale
from orthoframe_studies._training_job import Training

RISING = TemperatureSchedule(0.1, 0.5)
"""The temperature where 0.1 needs too many epochs."""
WIDE = ("digits", "cifar10")
"""The data of the wide grids, at desk and at paper scale."""
# Which the data alone would decide otherwise.
_MLP: dict[str, Any] = {"model": "mlp", "imbalance": "step", "augment": False, "clean_fraction": 0.0}
_SMOKE: dict[str, Any] = {**_MLP, "majority": 40, "width": 32, "batch_size": 32, "epochs": 4, "measure_every": 1}
# Images without augmentation: the theory is about the training set, and this is the shortest way to the frame.
_DESK: dict[str, Any] = {**_MLP, "epochs": 150, "measure_every": 5}
_DESK_OF: dict[str, dict[str, Any]] = {
    "mnist": {"majority": 200, "batch_size": 64, "lr": 0.05},
    "fashion-mnist": {"majority": 500, "temperature": RISING, "epochs": 80},
}
_PAPER: dict[str, Any] = {**RECIPES["paper"].values, "imbalance": "step"}
# One batch of everything, at paper scale: as many images per large class as one GPU can hold, and one step per epoch.
_WHOLE: dict[str, Any] = {"majority": 200, "epochs": 3000, "measure_every": 100}
_COORDINATES = {"loss", *option_names()} - {"features"}  # which tells networks from free features


def trained(
    scale: Scale,
    where: Mapping[str, Any],
    *,
    desk: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    first_seed: int = FIRST_SEED,
    **changes: Any,
) -> Cell:
    """A cell of trainings that differ in their seed; coordinates that name settings are settings of the trainings too.

    `desk` has settings at that scale only, where two cores must do, and `seeds` the number of runs there, from
    `first_seed` on; `changes` are settings at every scale. At `smoke` it is always a tiny network on few digits; at
    `paper` it is the paper's setting, with CIFAR-10 instead of the digits and a ResNet-18 instead of an MLP.
    """
    chosen = {name: value for name, value in where.items() if name in _COORDINATES}
    settings = network(scale, desk or {}, **chosen, **changes)
    asked = settings.asked()
    used = {name: coordinate(asked[name]) for name in chosen if name in asked}
    return Cell({**where, **used}, lambda seed: Training(settings.with_options(seed=seed)), seeds, first_seed)


def free(where: Mapping[str, Any], job: FreeFeatures | FreeClassifier | GradientFlow) -> Cell:
    """A cell of jobs without a network that differ in their seed."""
    return Cell(where, lambda seed: replace(job, seed=seed))


def coordinate(value: Any) -> Any:
    """A setting as a coordinate of a cell.

    Examples:
        >>> coordinate(TemperatureSchedule(0.1, 0.1)), coordinate(RISING)
        (0.1, '0.1 to 0.5')
    """
    if not isinstance(value, Ramp):
        return value
    return value.first if value.constant else f"{value.first:g} to {value.last:g}"


def network(
    scale: Scale, desk: Mapping[str, Any], *, data: str = "digits", model: str = "mlp", **more: Any
) -> Settings:
    """The settings of a training at a scale."""
    if scale == "smoke":
        options = {**_SMOKE, **more, "epochs": _SMOKE["epochs"]}
    elif scale == "desk":
        options = {**_DESK, "data": data, "model": model, **_DESK_OF.get(data, {}), **desk, **more}
    else:
        options = {**_PAPER, **more}
        options["data"] = "cifar10" if data == "digits" else data
        options["model"] = "resnet18" if model == "mlp" else model
    if options.get("scheme") == "full":
        options |= _WHOLE if scale == "paper" else {}
        options.pop("batch_size", None)
    loss = options.get("loss", "supcon")
    if not OBJECTIVES[loss].has_head:  # a linear classifier has no temperature
        options.pop("temperature", None)
    return Settings.of(recipe="plain", **options)
