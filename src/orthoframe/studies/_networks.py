"""The cells of the studies: their networks at each scale, and free features."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._jobs import FreeFeatures, Training
from orthoframe.studies._study import Cell
from orthoframe.training import RECIPES, Settings, TemperatureSchedule

RISING = TemperatureSchedule(0.1, 0.5)
"""The temperature where 0.1 needs too many epochs."""

# Images without augmentation: the theory is about the training set, and this is the shortest way to the frame.
_DESK = Settings(augment=False, clean_fraction=0.0, epochs=150, measure_every=5)
_DESK_OF: dict[str, dict[str, Any]] = {
    "digits": {},
    "mnist": {"majority": 200, "batch_size": 64, "lr": 0.05, "test_images": 100},
    "fashion-mnist": {"majority": 500, "temperature": RISING, "epochs": 80, "test_images": 100},
    "cifar10": {},
}
_CONVOLUTIONS: dict[str, Any] = {
    # Narrow, on few images, and with a rising temperature: what two cores can bring near a frame in minutes.
    "width": 8,
    "majority": 20,
    "batch_size": 32,
    "lr": 0.01,
    "temperature": RISING,
    "epochs": 120,
    "test_images": 20,
}
# One batch of everything, at paper scale: as many images per large class as one GPU can hold, and one step per epoch.
_WHOLE: dict[str, Any] = {"majority": 200, "epochs": 3000, "measure_every": 100}
WIDE = ("digits", "cifar10")
"""The data of the wide grids, at desk and at paper scale."""
_SMOKE = Settings(augment=False, clean_fraction=0.0, majority=40, width=32, batch_size=32, epochs=4, measure_every=1)


def network(
    scale: Scale, data: str = "digits", model: str = "mlp", *, desk: Mapping[str, Any] | None = None, **changes: Any
) -> Settings:
    """The settings of a network at a scale, with changes.

    At `smoke` it is always a tiny network on few digits; at `paper` it is the paper's setting.

    Args:
        scale: How large a study is.
        data: The data set; at `paper` CIFAR-10 takes the place of the digits.
        model: The encoder; at `paper` a ResNet-18 takes the place of an MLP.
        desk: What holds at `desk` only: how much two cores can do.
        **changes: What the study is about, at every scale.
    """
    if scale == "smoke":
        settings = replace(_SMOKE, **changes)
    elif scale == "desk":
        convolutions = {} if model == "mlp" else _CONVOLUTIONS
        base = {"data": data, "model": model, **_DESK_OF[data], **convolutions, **(desk or {})}
        settings = replace(_DESK, **{**base, **changes})
    else:
        recipe = {**RECIPES["paper"], "data": data, "model": model}
        if data == "digits":
            recipe["data"] = "cifar10"
        if model == "mlp":
            recipe["model"] = "resnet18"
        settings = replace(Settings(**recipe), **changes)
    if settings.scheme == "full":
        settings = replace(settings, batch_size=Settings.batch_size)
        if scale == "paper":
            settings = replace(settings, **_WHOLE)
    if settings.loss == "cross-entropy":
        settings = replace(settings, temperature=Settings.temperature)
    return settings


def coordinate(temperature: TemperatureSchedule | float) -> float | str:
    """A temperature as a coordinate of a cell.

    Examples:
        >>> coordinate(0.1), coordinate(RISING)
        (0.1, '0.1 to 0.5')
    """
    schedule = TemperatureSchedule.of(temperature)
    return schedule.first if schedule.constant else f"{schedule.first:g} to {schedule.last:g}"


def trained(where: Mapping[str, Any], settings: Settings, seeds: int | None = None) -> Cell:
    """A cell of trainings that differ in their seed; its coordinates `data` and `model` are those of the settings."""
    where = {name: getattr(settings, name) if name in ("data", "model") else value for name, value in where.items()}
    return Cell(where, lambda seed: Training(replace(settings, seed=seed)), seeds)


def free(where: Mapping[str, Any], job: FreeFeatures, seeds: int | None = None) -> Cell:
    """A cell of free features that differ in their seed."""
    return Cell(where, lambda seed: replace(job, seed=seed), seeds)
