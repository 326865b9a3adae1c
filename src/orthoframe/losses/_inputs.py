"""What a user gives a loss, checked: rows and their labels, keys, weights of classes, temperatures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orthoframe._rows import Weights, feature_tensor, label_tensor
from orthoframe.losses._terms import Inputs
from orthoframe.options import check_temperature

Rows = Tensor | NDArray[Any] | Sequence[Sequence[float]]
RowLabels = Tensor | NDArray[Any] | Sequence[int]

HALF = (torch.float16, torch.bfloat16)
_LIGHTEST, _HEAVIEST = 1e-6, 1e6  # weights of classes


def checked_temperature(temperature: float | Tensor, labels: Tensor) -> float | Tensor:
    """A number in its range, or a tensor with one value (then a scalar) or one per row, which are not looked at."""
    if not isinstance(temperature, Tensor):
        return check_temperature(temperature)
    if temperature.numel() == 1:
        return temperature.reshape(())
    if temperature.shape != labels.shape:
        raise ValueError(
            f"temperature must be a number, a tensor with one value, or have shape [{len(labels)}], one per row of "
            f"features, not {list(temperature.shape)}"
        )
    return temperature


def joined_inputs(
    features: Tensor,
    labels: Tensor,
    keys: Tensor | None,
    key_labels: Tensor | None,
    temperature: float | Tensor,
    weights: Sequence[Tensor | None],
) -> Inputs:
    """What the loss is computed from, out of a checked batch."""
    rows, row_labels = joined(features, labels, keys, key_labels)
    temperatures = temperature if isinstance(temperature, Tensor) else None
    class_weights, anchor_weights = weights
    return Inputs(rows, temperatures, row_labels, class_weights, anchor_weights, len(features))


def checked_weights(given: Weights, name: str, device: torch.device) -> Tensor:
    """Weights of classes as a tensor; their values are looked at where that does not mean to wait."""
    try:
        weights = given if isinstance(given, Tensor) else torch.from_numpy(np.array(given, dtype=np.float64)).to(device)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, one per class, not {type(given).__name__}") from None
    if weights.ndim != 1 or not weights.is_floating_point():
        raise ValueError(
            f"{name} must be floating-point numbers of shape [k], one per class, not {weights.dtype} of shape "
            f"{list(weights.shape)}"
        )
    if weights.requires_grad:
        raise ValueError(f"{name} get no gradient; give {name}.detach()")
    if weights.device.type == "cpu" and not torch.compiler.is_compiling():
        values = weights.double().numpy()
        # In float32, too, the limits themselves are allowed.
        if not ((values > _LIGHTEST * (1 - 1e-6)) & (values < _HEAVIEST * (1 + 1e-6))).all():
            raise ValueError(f"{name} must be from {_LIGHTEST:g} to {_HEAVIEST:g}")
    return weights


def checked_batch(
    given: Rows, given_labels: RowLabels, keys: Rows | None, key_labels: RowLabels | None, compare: str
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Rows and keys as tensors, and their labels as int64, on their device."""
    features, labels = checked_rows(given, given_labels, "features", "labels")
    if keys is None and key_labels is None:
        if compare == "keys":
            raise ValueError('compare="keys" compares with keys alone; give keys and key_labels')
        return features, labels, None, None
    if keys is None or key_labels is None:
        here, missing = ("key_labels", "keys") if keys is None else ("keys", "key_labels")
        raise ValueError(f"{here} was given without {missing}; give both or neither")
    if not isinstance(keys, Tensor):
        keys = feature_tensor(keys, "keys").to(features.device)
    keys, key_labels = checked_rows(keys, key_labels, "keys", "key_labels")
    if keys.shape[1] != features.shape[1]:
        raise ValueError(f"keys have dimension {keys.shape[1]} and features {features.shape[1]}; they must agree")
    if keys.device != features.device:
        raise ValueError(f"keys are on {keys.device} and features on {features.device}; move the keys")
    return features, labels, keys, key_labels


def checked_rows(given: Rows, given_labels: RowLabels, name: str, label_name: str) -> tuple[Tensor, Tensor]:
    """Rows `[rows, dim]` as a floating tensor, and their labels as int64 on its device."""
    rows = feature_tensor(given, name)
    if rows.ndim != 2:
        advice = f"; for [samples, views, dim] use {name}.flatten(0, 1) and {label_name}.repeat_interleave(views)"
        raise ValueError(
            f"{name} must have shape [rows, dim], not {list(rows.shape)}{advice if rows.ndim == 3 else ''}"
        )
    if rows.dtype not in (torch.float64, torch.float32, *HALF):
        raise TypeError(f"{name} must be float64, float32, float16 or bfloat16, not {rows.dtype}")
    labels = label_tensor(given_labels, rows.device, label_name)
    if labels.shape != rows.shape[:1]:
        raise ValueError(f"{label_name} must have shape [{len(rows)}], one per row of {name}, not {list(labels.shape)}")
    return rows, labels


def joined(features: Tensor, labels: Tensor, keys: Tensor | None, key_labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """Anchors and then keys, in the dtype in which they are computed."""
    rows = features
    if keys is not None and key_labels is not None:
        dtype = torch.promote_types(features.dtype, keys.dtype)
        rows, labels = torch.cat([features.to(dtype), keys.to(dtype)]), torch.cat([labels, key_labels])
    return rows.float() if rows.dtype in HALF else rows, labels
