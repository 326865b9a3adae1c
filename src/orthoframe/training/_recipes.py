"""Recipes: values for what a user leaves open, each for a purpose of its own."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orthoframe.options import Recipe
from orthoframe.training._fields import AUTO, Ramp, TemperatureSchedule, usual_value
from orthoframe.training._images import ImageSettings

if TYPE_CHECKING:
    from orthoframe.training._settings import Settings


@dataclass(frozen=True)
class RecipeValues:
    """The values of a recipe.

    Attributes:
        values: Of options; `data` is the one that it is for.
        loss: What it minimises.
        with_loss: Values that suit this loss only.
    """

    values: dict[str, Any] = field(default_factory=dict)
    loss: str = "supcon"
    with_loss: dict[str, Any] = field(default_factory=dict)


RECIPES: dict[Recipe, RecipeValues] = {
    "plain": RecipeValues(),
    "quick": RecipeValues({"scheme": "balanced", "margin": Ramp(0.0, 0.5), "clean_fraction": 0.1}),
    "accurate": RecipeValues(
        {
            "classifier": Ramp(1.0, 1.0),
            "temperature": TemperatureSchedule(0.15, 0.15),
            "head_norm": "batch",
            "scheme": "weighted",
            "clean_fraction": 0.0,
        },
        loss="frame",
        with_loss={"binding": "none"},
    ),
    "paper": RecipeValues(
        {
            "data": "cifar10",
            "majority": 5000,
            "model": "resnet18",
            "head": "none",
            "epochs": 350,
            "lr_schedule": "step",
            "clean_fraction": 0.0,
            "measure_every": 10,
        }
    ),
    "fast": RecipeValues(
        {
            "data": "fashion-mnist",
            "model": "resnet18",
            "head_norm": "batch",
            "scheme": "balanced",
            "temperature": TemperatureSchedule(0.2, 0.2),
            "margin": Ramp(0.0, 0.5),
            "batch_size": 32,
            "lr": 0.05,
            "clean_fraction": 0.8,
            "epochs": 15,
            "adjust": 0.2,
        },
        loss="frame",
        with_loss={"binding": "none"},
    ),
}
"""Values by recipe: `plain` (the usual ones alone), `quick` (the demonstration: contrastive, bound batches), `accurate`
(the most accurate classes in a small budget), `fast` (the fewest epochs to the frame), `paper` (as published)."""

_SETTLING = {"clean_fraction": 0.4, "margin": Ramp(0.0, 0.5), "classifier": Ramp(1.0, 0.0)}
"""What the recipe `accurate` does otherwise if its goal is the frame: images as they are at the end, a margin, and a
classifier that leaves."""


def data_of(recipe: Recipe) -> str:
    """The data of a recipe; AUTO stands for the recipe of the demonstration."""
    values = RECIPES["quick" if recipe is AUTO else recipe].values
    return str(values.get("data", usual_value(ImageSettings, "data")))


def loss_of(recipe: Recipe) -> str:
    """The name of what a recipe minimises."""
    return RECIPES[recipe].loss


def recipe_values(settings: "Settings") -> dict[str, Any]:
    """What the recipe of these settings decides: its values without those that they exclude."""
    recipe = RECIPES[settings.recipe]
    values = dict(recipe.values)
    if settings.objective.name == recipe.loss:
        values |= recipe.with_loss
    if settings.goal == "frame":
        values |= _SETTLING
    if not settings.objective.has_head and settings.recipe != "plain":  # trained as it usually is
        values = {
            name: value for name, value in values.items() if name not in ("scheme", "head", "head_norm", "adjust")
        }
        values["binding"] = settings.objective.usual_binding
    return {name: value for name, value in values.items() if name not in _excluded(settings, values)}


def _excluded(settings: "Settings", values: dict[str, Any]) -> set[str]:
    """Options that what the user gave excludes."""
    encoder, schedule, evaluation = settings.encoder, settings.schedule, settings.evaluation
    excluded: set[str] = set()
    if encoder.init not in (AUTO, None):  # a classifier would not know the classes without new images
        excluded |= {*encoder.SHAPE, "classifier"}
    if encoder.backbone not in (AUTO, None):
        excluded |= {"model", "width"}
        if schedule.backbone_lr in (AUTO, None):  # it stays as it is, and a classifier teaches a backbone
            excluded.add("classifier")
    if schedule.backbone_lr == 0:
        excluded.add("classifier")
    if schedule.minutes not in (AUTO, None):
        excluded.add("epochs")
    if encoder.head == "none":
        excluded |= {"head_norm", "features"}
    if getattr(settings.objective, "denominator", None) == "negatives":
        excluded.add("margin")
    if evaluation.probe is True:  # which is balanced already, and predicts
        excluded.add("adjust")
        if "classifier" in values and values["classifier"].last > 0:
            excluded.add("classifier")
    return excluded
