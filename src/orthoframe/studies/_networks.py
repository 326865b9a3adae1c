"""The networks of the studies, at each scale."""

from dataclasses import replace
from typing import Any

from orthoframe.studies._study import Scale
from orthoframe.training import RECIPES, Settings

# Clean images and the learning rate as it is: the theory speaks of the training set, and this is the shortest way.
_DESK = Settings(augment=False, settle=0.0, epochs=150, measure_every=5)
_DESK_OF: dict[str, dict[str, Any]] = {
    "digits": {},
    "mnist": {"majority": 200, "batch_size": 64, "lr": 0.05, "test_images": 100},
    "fashion-mnist": {"majority": 500, "temperature": "0.1->0.5", "epochs": 80, "test_images": 100},
    "cifar10": {},
}
_CONVOLUTIONS: dict[str, Any] = {
    # Narrow, on few images, and with a temperature that rises: what two cores can bring near a frame in minutes.
    "width": 8,
    "majority": 20,
    "batch_size": 32,
    "lr": 0.01,
    "temperature": "0.1->0.5",
    "epochs": 120,
    "test_images": 20,
}
_WHOLE = 200  # images of a large class in one batch of everything, at paper scale
_SMOKE = Settings(augment=False, settle=0.0, majority=40, width=32, batch_size=32, epochs=4, measure_every=1)


def network(scale: Scale, data: str = "digits", model: str = "mlp", **changes: Any) -> Settings:
    """The settings of a network at a scale, with changes.

    At `smoke` everything is a tiny network on few digits; at `paper` it is the paper's setting.
    """
    if scale == "smoke":
        kept = {name: value for name, value in changes.items() if name not in ("epochs", "majority", "width")}
        settings = replace(_SMOKE, **kept)
    elif scale == "desk":
        convolutions = {} if model == "mlp" else _CONVOLUTIONS
        settings = replace(_DESK, **{"data": data, "model": model, **_DESK_OF[data], **convolutions, **changes})
    else:
        recipe = dict(RECIPES["paper"])
        if data == "digits":  # too few images for the paper's majority
            recipe["majority"] = None
        dropped = ("epochs", "majority", "width", "batch_size", "test_images", "measure_every")
        kept = {name: value for name, value in changes.items() if name not in dropped}
        settings = replace(Settings(**recipe), **{"data": data, "model": _paper_model(model), **kept})
    if settings.scheme == "full":
        settings = replace(settings, batch_size=Settings.batch_size)
        if scale == "paper":  # what one GPU can hold at once
            settings = replace(settings, majority=_WHOLE if data != "digits" else None)
    if settings.loss == "cross-entropy":
        settings = replace(settings, temperature=Settings.temperature)
    return settings


def _paper_model(model: str) -> str:
    return "resnet18" if model == "mlp" else model
