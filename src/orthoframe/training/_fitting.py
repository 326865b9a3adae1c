"""What there is time for: the size of images, the width of the network, and the batch.

Many small steps come first: a wider network and larger images are taken only if time is left for enough of them.
"""

import time
from functools import cache
from typing import Any

import torch

from orthoframe.encoders import make_encoder
from orthoframe.options import Model
from orthoframe.training._fields import AUTO
from orthoframe.training._images import ImageFiles
from orthoframe.training._settings import Settings

_MODEL: Model = "conv6-quarters"
_SMALL = 16  # pixels, below which images have another network
_SIDES, _WIDTHS = (32, 48, 64, 96, 128, 160, 192, 224), (8, 16, 32)
_ENOUGH = 1500  # steps that larger images, or a wider network, must leave
_FEWEST, _SMALLEST = 1000, 8  # steps, for which batches are halved; and the smallest batch
_PART = 0.85  # of the time, which steps have
_TIMED, _SECONDS = 10, 0.3  # steps, or seconds, that are timed


def largest_side(asked: Settings) -> int | None:
    """The largest side of image files for which there is time; None if it is not for time to decide."""
    seconds = _seconds(asked)
    if seconds is None or not isinstance(asked.images, ImageFiles) or asked.images.size not in (AUTO, None):
        return None
    batch = asked.usual_options()["batch_size"]
    sides = (side for side in reversed(_SIDES) if seconds >= _ENOUGH * _step((3, side, side), _WIDTHS[0], batch))
    return next(sides, _SIDES[0])


def fitted_to_time(asked: Settings, image_shape: tuple[int, int, int]) -> Settings:
    """The settings with the width, and with the batch size if it is open, for which there is time.

    The width is the largest with which there are enough steps. If there are few even with the smallest, batches are
    halved.
    """
    seconds = _seconds(asked)
    if seconds is None or min(image_shape[1:]) < _SMALL:
        return asked
    batch = asked.usual_options()["batch_size"]
    width = _WIDTHS[0]
    for wider in _WIDTHS[1:]:
        if seconds < _ENOUGH * _step(image_shape, wider, batch):
            break
        width = wider
    decided: dict[str, Any] = {"model": _MODEL, "width": width}
    if asked.batches.batch_size is AUTO:
        while batch > _SMALLEST and seconds < _FEWEST * _step(image_shape, width, batch):
            batch //= 2
        decided["batch_size"] = batch
    if isinstance(asked.images, ImageFiles):
        decided["size"] = image_shape[1:]
    return asked.with_options(**decided)


def _seconds(asked: Settings) -> float | None:
    """The time that steps have; None where the network is given, or the length of the run."""
    minutes, is_open = asked.usual_options()["minutes"], asked.encoder.is_open
    if minutes is None or not is_open or not asked.images.is_own or asked.batches.scheme == "full":
        return None
    return _PART * 60 * float(minutes)


@cache
def _step(image_shape: tuple[int, int, int], width: int, batch: int) -> float:
    """Seconds of a step with random images."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.random.fork_rng(devices=[]):
        encoder = make_encoder(_MODEL, image_shape, width).to(device)
        images = torch.rand(batch, *image_shape).to(device)
    encoder(images).sum().backward()
    start = time.perf_counter()
    steps, seconds = 0, 0.0
    while steps < _TIMED and seconds < _SECONDS:
        encoder(images).sum().backward()
        if device == "cuda":
            torch.cuda.synchronize()
        steps, seconds = steps + 1, time.perf_counter() - start
    return seconds / steps
