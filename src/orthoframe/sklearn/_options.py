"""Check what a user gave to the classifier."""

import math
from numbers import Real
from typing import Any, get_args

import numpy as np
import torch

from orthoframe.encoders import ACTIVATIONS
from orthoframe.options import Binding


def check_options(options: Any, classes: list[Any]) -> None:
    """Refuse options of a classifier that are not allowed, in a sentence.

    Args:
        options: Has the parameters of a `FrameClassifier` as attributes.
        classes: The labels.

    Raises:
        ValueError: With that sentence.
    """
    if len(classes) < 2:
        raise ValueError(f"y has 1 class, {classes[0]!r}; a classifier needs at least 2")
    hidden = options.hidden
    if not isinstance(hidden, list | tuple) or not hidden or not all(_whole(size) for size in hidden):
        raise ValueError(f"hidden must be one or more whole numbers from 1, such as (256, 256), not {hidden!r}")
    if hidden[-1] < len(classes):
        raise ValueError(
            f"{hidden[-1]} dimensions are too few for {len(classes)} classes, since a frame needs one for each; "
            f"use hidden={(*hidden[:-1], len(classes))}"
        )
    for name, allowed in (("activation", ACTIVATIONS), ("binding", get_args(Binding))):
        if getattr(options, name) not in allowed:
            given = getattr(options, name)
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {given!r}")
    for name in ("batch_size", "epochs", "patience"):
        if not _whole(getattr(options, name)):
            raise ValueError(f"{name} must be a whole number from 1, not {getattr(options, name)!r}")
    for name in ("temperature", "learning_rate"):
        if not 0 < _number(getattr(options, name)) < math.inf:
            raise ValueError(f"{name} must be a positive number, not {getattr(options, name)!r}")
    for name in ("tol", "weight_decay"):
        if not 0 <= _number(getattr(options, name)) < math.inf:
            raise ValueError(f"{name} must be a number from 0, not {getattr(options, name)!r}")
    if not 0 <= _number(options.dropout) < 1:
        raise ValueError(f"dropout must be a number from 0 to below 1, not {options.dropout!r}")


def device_of(name: str | torch.device) -> torch.device:
    """The device to train on; a GPU, if there is one, for `auto`."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=torch.device(name)).device
    except (RuntimeError, AssertionError, TypeError):  # no device of torch, or one that this machine or build has not
        raise ValueError(f'device {name!r} is not there; use "auto", "cpu", or another torch device') from None


def _number(value: Any) -> float:
    """The value, or what is in no range."""
    return math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)
