"""One batch: checked as the user gives it, joined for autograd, and numbered for the kernels."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from orthoframe._rows import RowLabels, Rows, Weights, feature_tensor, label_tensor, unit_rows, widened
from orthoframe.options import check_temperature

_LIGHTEST, _HEAVIEST = 1e-6, 1e6  # class weights and anchor weights


class LossSpec(NamedTuple):
    """Which loss is computed, and which rows need a gradient."""

    temperature: float | None  # None: a tensor beside it has one for all anchors, or one for each
    denominator: str
    margin: float = 0.0
    compare: str = "all"
    normalize: bool = True  # divide each row by its norm first
    key_gradient: bool = False  # the rows that are not anchors need a gradient

    @property
    def sums_negatives(self) -> bool:
        """Whether the sum under the logarithm leaves out the class of the anchor."""
        return self.denominator in ("negatives", "sincere")


class LossInputs(NamedTuple):
    """The tensors of one loss: the first rows are the anchors, the others are keys."""

    rows: Tensor  # [rows, dim]
    temperatures: Tensor | None  # a scalar or [anchors], if the spec has no temperature
    labels: Tensor  # [rows]
    class_weights: Tensor | None  # [k], of exponentials
    anchor_weights: Tensor | None  # [k], of terms
    num_anchors: int

    def check_labels(self) -> None:
        """Raise a `ValueError` that names a label without a weight; not on a GPU, because that would wait for it."""
        if self.labels.device.type != "cpu":
            return
        if self.class_weights is not None:
            _check_weighted("class_weights", self.class_weights, self.labels)
        if self.anchor_weights is not None:  # which keys do not need
            _check_weighted("anchor_weights", self.anchor_weights, self.labels[: self.num_anchors])


def _check_weighted(name: str, weights: Tensor, labels: Tensor) -> None:
    array = labels.numpy()
    if array.size and not 0 <= array.min() <= array.max() < len(weights):
        wrong = array.min() if array.min() < 0 else array.max()
        raise ValueError(f"label {wrong} has no weight: {name} has one for each of the labels 0 to {len(weights) - 1}")


class CheckedBatch(NamedTuple):
    """What the user gives: features and keys as floating tensors on one device, labels as int64."""

    features: Tensor
    labels: Tensor
    temperature: float | Tensor
    keys: Tensor | None = None
    key_labels: Tensor | None = None
    class_weights: Tensor | None = None
    anchor_weights: Tensor | None = None

    def spec(self, denominator: str, margin: float, compare: str, normalize: bool) -> LossSpec:
        """Which loss is computed."""
        return LossSpec(
            temperature=None if isinstance(self.temperature, Tensor) else float(self.temperature),
            denominator=denominator,
            margin=margin,
            compare=compare,
            normalize=normalize,
            key_gradient=self.keys is not None and self.keys.requires_grad,
        )

    def inputs(self) -> LossInputs:
        """The tensors of the loss, in the dtype in which it is computed."""
        rows, labels = self.features, self.labels
        if self.keys is not None and self.key_labels is not None:
            rows, labels = join_rows(rows, labels, self.keys, self.key_labels)
        return LossInputs(
            rows=widened(rows),
            temperatures=self.temperature if isinstance(self.temperature, Tensor) else None,
            labels=labels,
            class_weights=self.class_weights,
            anchor_weights=self.anchor_weights,
            num_anchors=len(self.features),
        )


def join_rows(rows: Tensor, labels: Tensor, more: Tensor, more_labels: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and then more rows, in the wider of their dtypes, and the labels of all."""
    dtype = torch.promote_types(rows.dtype, more.dtype)
    return torch.cat([rows.to(dtype), more.to(dtype)]), torch.cat([labels, more_labels])


def checked_batch(
    features: Rows,
    labels: RowLabels,
    keys: Rows | None,
    key_labels: RowLabels | None,
    compare: str,
    temperature: float | Tensor,
) -> CheckedBatch:
    """Check rows, keys, their labels and the temperature, whatever they came as; the batch has no weights yet."""
    rows, row_labels = checked_rows(features, labels, "features", "labels")
    temperature = checked_temperature(temperature, row_labels)
    if keys is None and key_labels is None:
        if compare == "keys":
            raise ValueError('compare="keys" compares with keys alone; give keys and key_labels')
        return CheckedBatch(rows, row_labels, temperature)
    if keys is None or key_labels is None:
        present, absent = ("key_labels", "keys") if keys is None else ("keys", "key_labels")
        raise ValueError(f"{present} was given without {absent}; give both or neither")
    if not isinstance(keys, Tensor):
        keys = feature_tensor(keys, "keys").to(rows.device)
    keys, key_labels = checked_rows(keys, key_labels, "keys", "key_labels")
    if keys.shape[1] != rows.shape[1]:
        raise ValueError(f"keys have dimension {keys.shape[1]} and features {rows.shape[1]}; they must agree")
    if keys.device != rows.device:
        raise ValueError(f"keys are on {keys.device} and features on {rows.device}; move the keys")
    return CheckedBatch(rows, row_labels, temperature, keys=keys, key_labels=key_labels)


def checked_rows(values: Rows, row_labels: RowLabels, name: str, label_name: str) -> tuple[Tensor, Tensor]:
    """Rows `[rows, dim]` as a floating tensor, and their labels as int64 on its device."""
    rows = feature_tensor(values, name)
    if rows.ndim != 2:
        advice = f"; for [samples, views, dim] use {name}.flatten(0, 1) and {label_name}.repeat_interleave(views)"
        raise ValueError(
            f"{name} must have shape [rows, dim], not {list(rows.shape)}{advice if rows.ndim == 3 else ''}"
        )
    if rows.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        raise TypeError(f"{name} must be float64, float32, float16 or bfloat16, not {rows.dtype}")
    labels = label_tensor(row_labels, rows.device, label_name)
    if labels.shape != rows.shape[:1]:
        raise ValueError(f"{label_name} must have shape [{len(rows)}], one per row of {name}, not {list(labels.shape)}")
    return rows, labels


def checked_temperature(temperature: float | Tensor, labels: Tensor) -> float | Tensor:
    """A number in its range, or a tensor with one value (then a scalar) or one per row, whose values are not read."""
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


def checked_weights(values: Weights | None, name: str, device: torch.device) -> Tensor | None:
    """Weights of classes as a tensor, if there are any; they are read only if that does not wait for a device."""
    if values is None:
        return None
    try:
        weights = (
            values if isinstance(values, Tensor) else torch.from_numpy(np.array(values, dtype=np.float64)).to(device)
        )
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, one per class, not {type(values).__name__}") from None
    if weights.ndim != 1 or not weights.is_floating_point():
        raise ValueError(
            f"{name} must be floating-point numbers of shape [k], one per class, not {weights.dtype} of shape "
            f"{list(weights.shape)}"
        )
    if weights.requires_grad:
        raise ValueError(f"{name} get no gradient; give {name}.detach()")
    if weights.device.type == "cpu" and not torch.compiler.is_compiling():
        numbers = weights.double().numpy()
        # In float32, too, the limits themselves are allowed.
        if not ((numbers > _LIGHTEST * (1 - 1e-6)) & (numbers < _HEAVIEST * (1 + 1e-6))).all():
            raise ValueError(f"{name} must be from {_LIGHTEST:g} to {_HEAVIEST:g}")
    return weights


class Batch(NamedTuple):
    """Anchors, then keys. The columns are the rows that anchors are compared with: all of them, or the keys."""

    rows: Tensor  # [rows, dim], unit if the spec normalizes
    inverse_norms: Tensor | None  # [rows, 1], if the spec normalizes
    classes: Tensor  # [rows], numbered
    counts: Tensor  # columns of each class, as floats
    positives: Tensor  # [anchors], how many, at least 1
    positive_sums: Tensor  # [anchors, dim]
    missing: Tensor  # [anchors], whether the anchor has no term
    weights: Tensor | None  # [rows], of columns in the denominators; None: 1 for each
    first_column: int
    complete: bool  # every anchor is known to have a term; read on a CPU only, where reading costs nothing

    @classmethod
    def of(cls, inputs: LossInputs, spec: LossSpec) -> "Batch":
        """Number the classes of any integer labels, and sum their rows."""
        rows, inverse_norms = unit_rows(inputs.rows) if spec.normalize else (inputs.rows, None)
        classes, counts = _number_classes(inputs.labels)
        num_anchors, num_classes = inputs.num_anchors, counts.shape[0]
        anchor_classes = first(classes, num_anchors)
        first_column = 0 if spec.compare == "all" else num_anchors
        columns, column_classes = rows, classes
        if first_column:
            columns, column_classes = rows[first_column:], classes[first_column:]
            counts = _count(column_classes, num_classes)
        counts = counts.to(rows.dtype)
        sizes = counts.index_select(0, anchor_classes)
        positives = sizes if first_column else sizes - 1
        missing = positives < 1
        if spec.denominator == "negatives":  # without a negative the denominator is empty
            missing |= sizes == columns.shape[0]
        positive_sums = class_sums(columns, column_classes, num_classes).index_select(0, anchor_classes)
        if not first_column:
            positive_sums.sub_(first(rows, num_anchors))
        weights = None
        if inputs.class_weights is not None:
            weights = inputs.class_weights.to(rows.dtype).index_select(0, inputs.labels)
        if spec.denominator == "class-average":
            shares = counts.clamp(min=1).reciprocal_().index_select(0, classes)
            weights = shares if weights is None else weights * shares
        return cls(
            rows=rows,
            inverse_norms=inverse_norms,
            classes=classes,
            counts=counts,
            positives=positives.clamp_(min=1),
            positive_sums=positive_sums,
            missing=missing,
            weights=weights,
            first_column=first_column,
            complete=missing.device.type == "cpu" and not missing.numpy().any(),
        )

    @property
    def num_anchors(self) -> int:
        """The anchors are the first rows."""
        return self.missing.shape[0]

    def positive_factors(self, spec: LossSpec) -> Tensor | None:
        """`[k]`, factors of the exponentials of an anchor's own class; None if all are 1.

        The margin is not part of them, because its factor depends on the temperature.
        """
        if spec.sums_negatives:
            return torch.zeros_like(self.counts)
        if spec.denominator == "class-average" and self.first_column == 0:
            return self.counts / (self.counts - 1).clamp(min=1)  # the average leaves out the anchor
        return None


def first(rows: Tensor, count: int) -> Tensor:
    """The first rows; if that is all of them, without a view, whose cost small batches would feel."""
    return rows if rows.shape[0] == count else rows[:count]


def class_sums(rows: Tensor, classes: Tensor, num_classes: int) -> Tensor:
    """Sum of the rows of each class, `[k, dim]`; in float64, because equal rows have equal rounding errors."""
    sums = rows.new_zeros(num_classes, rows.shape[1], dtype=torch.float64)
    return sums.index_add_(0, classes, rows.double()).to(rows.dtype)


def _number_classes(labels: Tensor) -> tuple[Tensor, Tensor]:
    """The number of each label's class, and how often each number occurs."""
    if labels.device.type == "cpu":
        _, classes, counts = torch.unique(labels, return_inverse=True, return_counts=True)
        return classes, counts
    # Only the device knows the number of classes, and asking would wait for it: tables have room for as many as rows.
    ordered, order = labels.sort(stable=True)
    numbers = (ordered[1:] != ordered[:-1]).cumsum(0)
    numbers = torch.cat([numbers.new_zeros(min(1, labels.shape[0])), numbers])
    classes = torch.empty_like(numbers).scatter_(0, order, numbers)
    return classes, _count(classes, labels.shape[0])


def _count(classes: Tensor, num_classes: int) -> Tensor:
    return classes.new_zeros(num_classes).index_add_(0, classes, torch.ones_like(classes))
