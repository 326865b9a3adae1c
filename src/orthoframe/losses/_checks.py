"""What the losses accept, and the sentences for what they do not."""

import math
from numbers import Real
from typing import get_args

import torch
from torch import Tensor

from orthoframe.losses._options import Denominator, Reduction, Singletons


def check_options(temperature: object, denominator: str, singletons: str, reduction: str = "mean") -> None:
    """Raise `ValueError` or `TypeError` for an option that is not one of those allowed."""
    if isinstance(temperature, bool) or not isinstance(temperature, Real):
        raise TypeError(f"temperature must be a number, not {type(temperature).__name__}")
    if not 0 < float(temperature) < math.inf:
        raise ValueError(f"temperature must be positive and finite, not {temperature}; 0.1 is usual")
    for name, value, kind in (
        ("denominator", denominator, Denominator),
        ("singletons", singletons, Singletons),
        ("reduction", reduction, Reduction),
    ):
        if value not in get_args(kind):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(kind)))}, not {value!r}")


def check_rows(rows: Tensor, labels: Tensor, *, names: tuple[str, str] = ("features", "labels")) -> Tensor:
    """Check features with their labels, or keys with theirs.

    Returns:
        The labels, as integers on the device of the rows.
    """
    name, label_name = names
    if not isinstance(rows, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(rows).__name__}")
    if rows.ndim != 2:
        advice = (
            f"; for [samples, views, dim] use {name}.flatten(0, 1) and {label_name}.repeat_interleave(views)"
            if rows.ndim == 3
            else ""
        )
        raise ValueError(f"{name} must have shape [rows, dim], not {list(rows.shape)}{advice}")
    if rows.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"{name} must be float64, float32, float16 or bfloat16, not {rows.dtype}")
    try:
        labels = torch.as_tensor(labels, device=rows.device)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{label_name} must be integers, not {type(labels).__name__}") from None
    if labels.shape != rows.shape[:1]:
        raise ValueError(
            f"{label_name} must have shape [{rows.shape[0]}], one for each row of {name}, not {list(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex():
        if len(labels) == 0:  # an empty list has no dtype of its own
            return labels.long()
        raise TypeError(f"{label_name} must be integers, not {labels.dtype}; use {label_name}.long() if they are whole")
    return labels.long()


def check_keys(features: Tensor, keys: Tensor | None, key_labels: Tensor | None) -> Tensor | None:
    """Check keys against checked features.

    Returns:
        The labels of the keys, as integers on their device; None if there are no keys.
    """
    if keys is None and key_labels is None:
        return None
    if keys is None or key_labels is None:
        given, missing = ("key_labels", "keys") if keys is None else ("keys", "key_labels")
        raise ValueError(f"{given} was given without {missing}; give both or neither")
    key_labels = check_rows(keys, key_labels, names=("keys", "key_labels"))
    if keys.shape[1] != features.shape[1]:
        raise ValueError(f"keys have dimension {keys.shape[1]} and features {features.shape[1]}; they must agree")
    if keys.device != features.device:
        raise ValueError(f"keys are on {keys.device} and features on {features.device}; move the keys")
    return key_labels
