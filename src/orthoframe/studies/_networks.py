"""The networks of the studies, at each scale."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from orthoframe.studies._study import Scale
from orthoframe.training import RECIPES, Settings, TemperatureSchedule

# Clean images and the learning rate as it is: the theory speaks of the training set, and this is the shortest way.
_DESK = Settings(augment=False, clean_fraction=0.0, epochs=150, measure_every=5)
_DESK_OF: dict[str, dict[str, Any]] = {
    "digits": {},
    "mnist": {"majority": 200, "batch_size": 64, "lr": 0.05, "test_images": 100},
    "fashion-mnist": {"majority": 500, "temperature": (0.1, 0.5), "epochs": 80, "test_images": 100},
    "cifar10": {},
}
_CONVOLUTIONS: dict[str, Any] = {
    # Narrow, on few images, and with a temperature that rises: what two cores can bring near a frame in minutes.
    "width": 8,
    "majority": 20,
    "batch_size": 32,
    "lr": 0.01,
    "temperature": (0.1, 0.5),
    "epochs": 120,
    "test_images": 20,
}
# One batch of everything, at paper scale: as many images of a large class as one GPU can hold, and a step an epoch.
_WHOLE: dict[str, Any] = {"majority": 200, "epochs": 3000, "measure_every": 100}
WIDE = ("digits", "cifar10")
"""The data of the wide grids, at desk and at paper scale."""
_SMOKE = Settings(augment=False, clean_fraction=0.0, majority=40, width=32, batch_size=32, epochs=4, measure_every=1)


def network(
    scale: Scale, data: str = "digits", model: str = "mlp", *, desk: Mapping[str, Any] | None = None, **changes: Any
) -> Settings:
    """The settings of a network at a scale, with changes.

    At `smoke` everything is a tiny network on few digits; at `paper` it is the paper's setting.

    Args:
        scale: How large.
        data: The data set; at `paper` CIFAR-10 takes the place of the digits.
        model: The encoder; at `paper` a ResNet-18 takes the place of an MLP.
        desk: What holds at `desk` only: how much two cores can do.
        **changes: What the study is about, at every scale.
    """
    if isinstance(changes.get("temperature"), str):
        changes["temperature"] = _schedule(changes["temperature"])
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


def _schedule(coordinate: str) -> TemperatureSchedule:
    """A temperature as grids write it: `0.1`, or `0.1->0.5`."""
    first, _, last = coordinate.partition("->")
    return TemperatureSchedule(float(first), float(last or first))
