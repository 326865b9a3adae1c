"""Settings that depend on the data: what a user would choose who has looked at it."""

import math
from collections.abc import Sequence
from dataclasses import replace

from orthoframe.data import Data
from orthoframe.errors import Option, OptionError
from orthoframe.options import Head, is_own_data
from orthoframe.training._settings import Settings

_STEPS = 2000
_FEWEST, _MOST = 5, 500  # bounds of the epochs that make up that number of steps
_VALIDATION = 0.1
_WIDTH = 16  # an encoder that two cores train in minutes
_SMALLEST = 16  # pixels from which a convolutional network is worth its time
_FEATURES = 128


def before_loading(settings: Settings) -> Settings:
    """Fill in what the name of the data decides: the user's own images are taken as they are."""
    own = is_own_data(settings.data)
    return replace(
        settings,
        head=_head(settings),
        imbalance=settings.imbalance or ("none" if own else "step"),
        validation=(_VALIDATION if own else 0.0) if settings.validation is None else settings.validation,
    )


def _head(settings: Settings) -> Head | None:
    if settings.head is not None or settings.init is not None:  # which decides it
        return settings.head
    return "none" if settings.linear_classifier else "linear"


def after_loading(settings: Settings, data: Data, class_counts: Sequence[int]) -> Settings:
    """Fill in what the images decide: the encoder, its features, and the number of epochs.

    Args:
        settings: What the user asked for.
        data: What was loaded.
        class_counts: How many of its training images are kept of each class.
    """
    own = is_own_data(settings.data)
    trains = settings.head != "none" or settings.linear_classifier  # also if its backbone stays as it is
    if settings.backbone is not None and settings.backbone_lr is None and trains:
        settings = replace(settings, backbone_lr=0.0)  # to train it takes a GPU, and a learning rate of its own
    if settings.model is None and settings.backbone is None and settings.init is None:
        convolutional = own and min(data.train.image_shape[1:]) >= _SMALLEST
        width = _WIDTH if convolutional and settings.width is None else settings.width
        settings = replace(settings, model="resnet18" if convolutional else "mlp", width=width)
    roomy = own or settings.loss == "frame"
    if roomy and settings.features is None and settings.head == "linear" and settings.init is None:
        settings = replace(settings, features=max(_FEATURES, 2 * len(data.train.classes)))
    if settings.adjust is None:
        # On its own, what a linear classifier says is left as it is.
        fitted = data.validation is not None and not settings.linear_classifier and not settings.probe
        settings = replace(settings, adjust="fit" if fitted else 0.0)
    if settings.adjust == "fit" and data.validation is None:
        raise OptionError(
            *(Option("adjust", "fit"), " needs validation images; hold some out with ", Option("validation", 0.1)),
            *(", or give ", Option("adjust"), " a number"),
        )
    if settings.minutes is not None:
        return replace(settings, epochs=1)  # until the first steps have shown how many there is time for
    if settings.epochs is None:
        epochs = round(_STEPS / _steps_per_epoch(settings, class_counts))
        return replace(settings, epochs=min(max(epochs, _FEWEST), _MOST))
    return settings


def _steps_per_epoch(settings: Settings, class_counts: Sequence[int]) -> int:
    if settings.scheme == "full":
        return 1
    if settings.scheme == "balanced":  # until the largest class has been shown
        return math.ceil(max(class_counts) / max(1, settings.batch_size // len(class_counts)))
    return math.ceil(sum(class_counts) / settings.batch_size)
