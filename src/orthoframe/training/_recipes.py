"""Recipes, and how they, the data and the encoder to start from decide what the user left open."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from orthoframe.errors import Option, OptionError
from orthoframe.options import POWER, Goal, Recipe
from orthoframe.training._fields import AUTO, Group, Ramp, TemperatureSchedule, usual_value
from orthoframe.training._groups import BatchSettings, EncoderSettings, EvaluationSettings, ScheduleSettings
from orthoframe.training._images import ImageSettings

if TYPE_CHECKING:
    from orthoframe.batches import BatchPlan
    from orthoframe.data import Data
    from orthoframe.encoders import Encoder
    from orthoframe.runs import TrainedEncoder
    from orthoframe.training._settings import Settings

_Group = TypeVar("_Group", bound=Group)
_MEASUREMENTS = 40  # in a run
_STEPS = 2000
_FEWEST, _MOST = 5, 500  # bounds of the epochs that make up that number of steps
_WIDTH = 16  # an encoder that two cores train in minutes
_SMALLEST = 16  # pixels from which a convolutional network is worth its time
_FEATURES = 128


@dataclass(frozen=True)
class RecipeValues:
    """The values of a recipe.

    Attributes:
        purpose: What it is for, in the help of the command.
        values: Of options; `data` is the one that it is for.
        loss: What it minimises.
        with_loss: Values that suit this loss only.
    """

    purpose: str
    values: dict[str, Any] = field(default_factory=dict)
    loss: str = "supcon"
    with_loss: dict[str, Any] = field(default_factory=dict)


RECIPES: dict[Recipe, RecipeValues] = {
    "quick": RecipeValues("the demonstration", {"scheme": "balanced", "margin": Ramp(0.0, 0.5), "clean_fraction": 0.1}),
    "accurate": RecipeValues(
        "the most accurate classes",
        {
            "classifier": Ramp(1.0, 1.0),
            "temperature": TemperatureSchedule(0.15, 0.15),
            "head_norm": "batch",
            "scheme": "weighted",
            "batch_size": 32,
            "lr": 0.05,
            "clean_fraction": 0.0,
            "minutes": 5.0,
        },
        loss="frame",
        with_loss={"binding": "none"},
    ),
    "fast": RecipeValues(
        "near the frame in the fewest epochs",
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
    "paper": RecipeValues(
        "as published; needs a GPU",
        {
            "data": "cifar10",
            "majority": 5000,
            "model": "resnet18",
            "head": "none",
            "epochs": 350,
            "lr_schedule": "step",
            "clean_fraction": 0.0,
            "measure_every": 10,
        },
    ),
    "plain": RecipeValues("the usual values alone"),
}
"""Values by recipe."""

_SETTLING = {"clean_fraction": 0.4, "margin": Ramp(0.0, 0.5), "classifier": Ramp(1.0, 0.0)}
"""What the recipe `accurate` does otherwise if its goal is the frame: images as they are at the end, a margin, and a
classifier that leaves."""
_FROZEN = {"probe": True, "epochs": 20}
"""What the recipe `accurate` does with a backbone that stays as it is: more passes would fit the head to single images,
and a classifier that is fitted at the end predicts."""


def data_of(recipe: Recipe) -> str:
    """The data of a recipe; AUTO stands for the recipe of the demonstration."""
    values = RECIPES["quick" if recipe is AUTO else recipe].values
    return str(values.get("data", usual_value(ImageSettings, "data")))


def recipe_values(settings: "Settings", *, has_images: bool = True) -> dict[str, Any]:
    """What the recipe of these settings decides: its values without those that what the user gave excludes.

    `has_images`: of every class, also of those that only an encoder to start from knows.
    """
    recipe = RECIPES[settings.recipe]
    values = dict(recipe.values)
    if settings.objective.name == recipe.loss:
        values |= recipe.with_loss
    if settings.goal == "frame":
        values |= _SETTLING
    elif settings.has_frozen_backbone and settings.recipe == "accurate":
        values = _without(values, "minutes") | _FROZEN
    if not settings.objective.has_head and settings.recipe != "plain":  # trained as it usually is
        values = _without(values, "scheme", "head", "head_norm", "adjust")
        values["binding"] = settings.objective.usual_binding
    if settings.encoder.init not in (AUTO, None):
        values = _without(values, *EncoderSettings.SHAPE)
    if not has_images:  # a linear classifier would forget the classes without
        values = _without(values, "classifier")
    return {name: value for name, value in values.items() if _is_allowed(settings, name, value)}


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _is_allowed(settings: "Settings", name: str, value: Any) -> bool:
    """Whether an option that is open may have a value, beside what the user gave."""
    try:
        settings.filled({name: value}).check()
    except OptionError:
        return False
    return True


def resolve(
    asked: "Settings",
    data: "Data",
    init: "TrainedEncoder | None" = None,
    plan: "BatchPlan | None" = None,
    backbone: "Encoder | None" = None,
) -> "Settings":
    """Decide everything that was left open.

    What the user gave stays; then come the encoder to start from, the recipe, what suits the data, and the usual
    values.

    Args:
        asked: What the user gave.
        data: All images, before some are chosen; the classes that the encoder knows come first.
        init: The encoder to start from.
        plan: Batches from Python, which decide their settings.
        backbone: The network that `asked.encoder.backbone` names.

    Returns:
        Settings in which everything is decided: `settings.undecided()` is empty. None means that there is none, such as
        a limit or a backbone, or that each machine decides, such as on the folder of the benchmark sets.

    Raises:
        OptionError: If settings do not fit the data or the encoder.
    """
    asked.check()
    settings = asked if init is None else _from_encoder(asked, data, init)
    settings = settings if plan is None else replace(settings, batches=BatchSettings.of(plan))
    settings = settings.filled(recipe_values(settings, has_images=all(data.train.class_counts)))
    if settings.has_frozen_backbone and settings.images.flip is not True:  # so that features are computed once
        settings = settings.filled({"augment": False})
    settings = replace(
        settings,
        objective=settings.objective.with_usual(),
        batches=_decided(settings.batches.with_usual(), power=POWER if settings.batches.scheme == "weighted" else None),
        machine=settings.machine.with_usual(),
        images=_images(settings.images.with_usual(), data),
    )
    settings = replace(settings, encoder=_encoder(settings, data, backbone), goal=_goal(settings))
    settings = replace(settings, schedule=_schedule(settings, data, plan))
    settings = replace(settings, evaluation=_evaluation(settings, data))
    settings.check()
    return settings


def _decided(group: _Group, **values: Any) -> _Group:
    """The group with these values in place of None, which left them to others; without those that it does not have."""
    missing = {name: value for name, value in values.items() if getattr(group, name, value) is None}
    return replace(group, **missing)


def _images(images: ImageSettings, data: "Data") -> ImageSettings:
    """The size of image files, and whether mirror images help."""
    images = _decided(images, size=data.train.image_shape[1:])
    if images.flip is not AUTO:
        return images
    from orthoframe.data import is_mirror_symmetric

    return replace(images, flip=images.augment and is_mirror_symmetric(data.train))


def _goal(settings: "Settings") -> Goal | None:
    if settings.goal is not AUTO:
        return settings.goal
    return "accuracy" if settings.recipe == "accurate" and settings.objective.has_head else None


def _from_encoder(asked: "Settings", data: "Data", init: "TrainedEncoder") -> "Settings":
    """An encoder decides its own shape, with room for new classes; files get their size as its own did."""
    new_classes = len(data.train.classes) - len(init.classes)
    shape: dict[str, Any] = {name: getattr(init.architecture, name) for name in EncoderSettings.SHAPE}
    shape["features"] = None
    if shape["head"] == "linear":
        shape["features"] = init.encoder.out_features + new_classes * init.dimensions_per_class
    for name, value in shape.items():
        if getattr(asked.encoder, name) not in (AUTO, None, value):
            raise OptionError(Option(name), " is decided by ", Option("init"), "; leave it out")
    objective = asked.objective.with_new_classes() if new_classes else asked.objective
    settings = replace(asked, encoder=replace(asked.encoder, **shape), objective=objective)
    if not hasattr(settings.images, "fit"):
        return settings
    fit = init.preparation.fit
    if settings.images.fit not in (AUTO, fit):
        raise OptionError(Option("fit"), " is decided by ", Option("init"), "; leave it out")
    return settings.with_options(fit=fit)


def _encoder(settings: "Settings", data: "Data", backbone: "Encoder | None") -> EncoderSettings:
    """A model for the size of the images, a head for the objective, and the dimension of its features."""
    encoder, is_own = settings.encoder, settings.images.is_own
    encoder = encoder.filled({"init": None, "backbone": None})
    if encoder.head is AUTO:
        encoder = replace(encoder, head="linear" if settings.objective.has_head else "none")
    if encoder.backbone is not None:
        encoder = encoder.filled({"model": None})
    if encoder.model is AUTO:
        convolutional = is_own and min(data.train.image_shape[1:]) >= _SMALLEST
        encoder = replace(encoder, model="conv6-quarters" if convolutional else "mlp")
        encoder = encoder.filled({"width": _WIDTH} if convolutional else {})
    encoder = encoder.filled({"width": None})
    if encoder.model is not None:
        from orthoframe.encoders import ENCODERS

        encoder = _decided(encoder, width=ENCODERS[encoder.model].width)
    is_roomy = (is_own or settings.objective.is_roomy) and encoder.head == "linear"
    features = max(_FEATURES, 2 * len(data.train.classes)) if is_roomy else None
    encoder = encoder.filled({"features": features}).with_usual()
    if encoder.head == "none" or encoder.features is not None:
        return encoder
    return replace(encoder, features=_dimension(encoder, data.train.image_shape, backbone))


def _dimension(encoder: EncoderSettings, image_shape: tuple[int, int, int], backbone: "Encoder | None") -> int:
    """The dimension of the features that the head takes."""
    from orthoframe.encoders import make_encoder, shapes_only

    if encoder.model is None:
        assert backbone is not None  # it takes the place of a model
        return backbone.out_features
    with shapes_only():
        return make_encoder(encoder.model, image_shape, encoder.width).out_features


def _schedule(settings: "Settings", data: "Data", plan: "BatchPlan | None") -> ScheduleSettings:
    """The number of epochs, and how fast a backbone learns."""
    schedule = settings.schedule
    trains = settings.encoder.head != "none" or not settings.objective.has_head  # even if the backbone is frozen
    frozen = settings.encoder.backbone is not None and trains  # to train it takes a GPU, and a rate of its own
    schedule = schedule.filled({"backbone_lr": 0.0 if frozen else None}).with_usual()
    schedule = _decided(schedule, backbone_lr=schedule.lr)
    if schedule.epochs is AUTO and schedule.minutes is not None:  # steps are decided when an epoch begins
        return replace(schedule, epochs=schedule.PARTS, steps=())
    if schedule.epochs is AUTO and schedule.steps is not None:
        return replace(schedule, epochs=len(schedule.steps))
    if schedule.epochs is AUTO:
        sizes = settings.images.class_sizes(data)
        steps = _steps_per_epoch(settings, sizes) if plan is None else len(plan.batches(0))
        epochs = round(_STEPS / steps)
        return replace(schedule, epochs=min(max(epochs, _FEWEST), _MOST))
    return schedule


def _steps_per_epoch(settings: "Settings", class_sizes: Sequence[int]) -> int:
    scheme, batch_size = settings.batches.scheme, settings.batches.batch_size
    if scheme == "full":
        return 1
    if scheme == "balanced":  # until the largest class has been shown
        return math.ceil(max(class_sizes) / max(1, batch_size // len(class_sizes)))
    return math.ceil(sum(class_sizes) / batch_size)


def _evaluation(settings: "Settings", data: "Data") -> EvaluationSettings:
    """When to measure; scores are adjusted for class sizes where validation images can tell by how much."""
    evaluation, has_validation = settings.evaluation, data.validation is not None
    # On its own, what a linear classifier says is left as it is.
    fitted = has_validation and settings.objective.has_head and evaluation.probe is not True
    every = max(1, settings.schedule.epochs // _MEASUREMENTS)
    evaluation = evaluation.filled({"adjust": "fit" if fitted else 0.0, "measure_every": every}).with_usual()
    if evaluation.adjust == "fit" and not has_validation:
        raise OptionError(
            *(Option("adjust", "fit"), " needs validation images; hold some out with ", Option("validation", 0.1)),
            *(", or give ", Option("adjust"), " a number"),
        )
    return evaluation
