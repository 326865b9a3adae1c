"""Where the defaults of a run come from: recipes, each for a purpose of its own."""

from typing import Any

from orthoframe.errors import Option, OptionError
from orthoframe.options import Goal, Recipe, check_choice, is_own_data
from orthoframe.training._schedules import Ramp, TemperatureSchedule
from orthoframe.training._settings import DECIDED, OF_FRAMES, Settings

RECIPES: dict[Recipe, dict[str, Any]] = {
    "quick": {"scheme": "balanced", "margin": Ramp(0.0, 0.5), "clean_fraction": 0.1},
    "accurate": {
        "loss": "frame",
        "classifier": Ramp(1.0, 1.0),
        "temperature": TemperatureSchedule(0.15, 0.15),
        "head_norm": "batch",
        "scheme": "weighted",
        "binding": "none",
        "clean_fraction": 0.0,
    },
    "paper": {
        "data": "cifar10",
        "majority": 5000,
        "model": "resnet18",
        "head": "none",
        "epochs": 350,
        "lr_schedule": "step",
        "clean_fraction": 0.0,
        "measure_every": 10,
    },
    "fast": {
        "data": "fashion-mnist",
        "model": "resnet18",
        "loss": "frame",
        "head_norm": "batch",
        "scheme": "balanced",
        "binding": "none",
        "temperature": TemperatureSchedule(0.2, 0.2),
        "margin": Ramp(0.0, 0.5),
        "batch_size": 32,
        "lr": 0.05,
        "clean_fraction": 0.8,
        "epochs": 15,
        "adjust": 0.2,
    },
}
"""Settings that differ from the defaults, by recipe."""

_SETTLING = {"clean_fraction": 0.4, "margin": Ramp(0.0, 0.5), "classifier": Ramp(1.0, 0.0)}
"""What the recipe `accurate` does otherwise if its goal is the frame: images as they are at the end, a margin, and a
classifier that leaves."""


_EXCLUDED: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("init", None, (*DECIDED, "classifier")),  # which would not know the classes without new images
    ("backbone", None, ("model", "width")),
    ("minutes", None, ("epochs",)),
    ("head", "none", ("head_norm", "features")),
    ("denominator", "negatives", ("margin",)),
    ("loss", "frame", ("prototypes",)),
    ("loss", "supcon", ("binding",)),  # the frame term needs none, and the contrastive loss does
    ("backbone_lr", 0, ("classifier",)),  # which teaches a backbone
    ("probe", True, ("adjust",)),  # which is balanced already
)
"""A setting, its value or None for any, and what it excludes of a recipe."""


def make_settings(recipe: Recipe | None = None, goal: Goal | None = None, **given: Any) -> Settings:
    """The settings of a run, with the defaults of a recipe.

    Args:
        recipe: `quick` (the demonstration: contrastive, bound batches), `accurate` (the most accurate classes in a
            small budget), `fast` (the fewest epochs to the frame) or `paper` (as published); by default `accurate` for
            your own images, and `quick` for the benchmark sets.
        goal: Of the recipe `accurate`: `accuracy`, the default, or `frame`, which settles onto the frame at the end.
        **given: Settings, which replace those of the recipe.

    Raises:
        OptionError: For another recipe or goal, or a goal with another recipe.

    Examples:
        >>> make_settings(data="folder:photos").loss, make_settings(data="digits").loss
        ('frame', 'supcon')
        >>> make_settings("accurate", "frame", epochs=20).clean_fraction
        0.4
    """
    if recipe is None:
        recipe = "accurate" if is_own_data(given.get("data", Settings.data)) else "quick"
    check_choice("recipe", recipe, Recipe)
    chosen = dict(RECIPES[recipe])
    linear = Settings(loss=given.get("loss", Settings.loss)).linear_classifier
    if goal is not None:
        check_choice("goal", goal, Goal)
        if recipe != "accurate":
            raise OptionError(Option("goal"), " needs ", Option("recipe", "accurate"), "; others end at the frame")
        if linear:
            raise OptionError(Option("goal"), " needs ", Option("loss", "frame"), ", which has a frame to settle onto")
        chosen |= _SETTLING if goal == "frame" else {}
    without = [*((*OF_FRAMES, "scheme", "adjust") if linear else ())]
    if linear:  # trained as it usually is, unless something else is asked for
        chosen["binding"] = "none"
    if given.get("backbone") is not None and given.get("backbone_lr") is None:  # which then stays as it is
        without.append("classifier")
    if given.get("probe") and "classifier" in chosen and chosen["classifier"].last > 0:  # both would predict
        without.append("classifier")
    for name, value, excluded in _EXCLUDED:
        if given.get(name) is not None and value in (given[name], None):
            without += excluded
    chosen = {name: value for name, value in chosen.items() if name not in without}
    return Settings(**{**chosen, **given})
