"""Settings that depend on the data: what a user would choose who has looked at it."""

from dataclasses import replace

from orthoframe.data import Data
from orthoframe.options import is_own_data
from orthoframe.training._settings import Settings

_EPOCHS = 1000  # of the benchmark sets, whose classes are small
_STEPS = 2000  # of the user's own images
_FEWEST, _MOST = 5, 500  # epochs that so many steps may become
_VALIDATION = 0.1
_WIDTH = 16  # an encoder that two cores train in minutes
_SMALLEST = 16  # pixels from which a convolutional network is worth its time
_FEATURES = 64


def before_loading(settings: Settings) -> Settings:
    """Fill in what the name of the data decides: the user's own images are taken as they are."""
    own = is_own_data(settings.data)
    return replace(
        settings,
        imbalance=settings.imbalance or ("none" if own else "step"),
        validation=(_VALIDATION if own else 0.0) if settings.validation is None else settings.validation,
    )


def after_loading(settings: Settings, data: Data, images: int) -> Settings:
    """Fill in what the images decide: the encoder, its features, and the number of epochs.

    Args:
        settings: What the user asked for.
        data: What was loaded.
        images: How many of its training images are kept.
    """
    own = is_own_data(settings.data)
    if settings.backbone is not None and settings.backbone_lr is None:
        settings = replace(settings, backbone_lr=0.0)  # to train it takes a GPU, and a learning rate of its own
    if settings.model is None and settings.backbone is None and settings.init is None:
        convolutional = own and min(data.train.image_shape[1:]) >= _SMALLEST
        width = _WIDTH if convolutional and settings.width is None else settings.width
        settings = replace(settings, model="resnet18" if convolutional else "mlp", width=width)
    if own and settings.features is None and settings.head == "linear":
        settings = replace(settings, features=max(_FEATURES, 2 * len(data.train.classes)))
    if settings.minutes is not None:
        return replace(settings, epochs=1)  # until the first steps have shown how many there is time for
    if settings.epochs is None:
        epochs = _EPOCHS if not own else min(max(round(_STEPS * settings.batch_size / images), _FEWEST), _MOST)
        return replace(settings, epochs=epochs)
    return settings
