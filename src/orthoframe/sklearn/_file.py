"""A fitted classifier as a safetensors file: tensors, and everything else as JSON in its header. No pickle."""

import json
import math
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor

from orthoframe._rows import Labels
from orthoframe.batches import BatchPlan
from orthoframe.encoders import PREFIX, load_weights
from orthoframe.errors import brief
from orthoframe.files import json_ready, open_tensors, parsed, write_atomic
from orthoframe.geometry import Accuracy, Calibration, ClassStatistics, Geometry, geometry_of
from orthoframe.options import Activation, Binding, TableLoss
from orthoframe.sklearn._fit import StopReason
from orthoframe.sklearn._network import TableEncoder

_FORMAT = "orthoframe.FrameClassifier"
_ARRAYS = ("mean_", "scale_", "centres_")
_MOST_BYTES = 2**26  # of the class names
_Pairs = list[tuple[bool | int | float | str, int | float]]


def save_classifier(classifier: Any, path: Path) -> None:
    """Write a fitted classifier, whole or not at all."""
    plan, geometry, encoder = classifier.plan_, classifier.geometry_, classifier.encoder_
    about = {
        "format": _FORMAT,
        "options": {name: _option(value) for name, value in classifier.get_params().items()},
        "classes": {"dtype": classifier.classes_.dtype.str, "labels": classifier.classes_.tolist()},
        "columns": getattr(classifier, "feature_names_in_", np.empty(0)).tolist() or None,
        "fitted": {field.name: getattr(classifier, field.name) for field in fields(_Fitted)},
        "stopped": classifier.stopped_,
        "loss": classifier.loss_,
        "adjust": classifier.adjust_,
        "calibration": None if classifier.calibration_ is None else asdict(classifier.calibration_),
        # As fitted: the options may have been changed since.
        "network": {
            "hidden": [len(layer.bias) for layer in encoder.layers],
            "activation": encoder.head.activation if encoder.head else "relu",
            "direct": encoder.direct,
            "share": encoder.share,
        },
        "plan": {"batch_size": _option(plan.batch_size), "binding": plan.binding, "seed": plan.seed},
        "dead_rows": geometry.dead_rows,
        "collapse_trace": json_ready(geometry.collapse_trace),
        "accuracy": json_ready(asdict(geometry.accuracy)),
    }
    tensors = {name: torch.from_numpy(getattr(classifier, name)) for name in _ARRAYS}
    tensors["labels"] = torch.from_numpy(plan.labels.classes.astype(np.int32))
    tensors["spreads"] = geometry.spreads
    if plan.weights is not None:
        tensors["weights"] = torch.from_numpy(plan.weights)
    # Trained in float32: nothing is lost.
    tensors |= {PREFIX + name: value.float() for name, value in encoder.state_dict().items()}
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    # One entry, because the order of several would differ from run to run.
    write_atomic(path, save(tensors, metadata={"orthoframe": json.dumps(about)}))


@dataclass(frozen=True)
class _Classes:
    dtype: str
    labels: list[bool | int | float | str]


@dataclass(frozen=True)
class _Network:
    hidden: list[int]
    activation: Activation
    direct: bool = False  # as they were before a file had them
    share: float = 0.0


@dataclass(frozen=True)
class _Plan:
    batch_size: int
    binding: Binding
    seed: int


@dataclass(frozen=True, kw_only=True)
class _Fitted:
    """Attributes of the classifier that are kept under their names, in this order."""

    n_features_in_: int
    temperature_: float
    n_iter_: int
    loss_curve_: list[float]
    gap_curve_: list[float]
    loss_gap_: float


@dataclass(frozen=True, kw_only=True)
class _ClassifierFile:
    """What a file says beside its tensors."""

    format: Literal["orthoframe.FrameClassifier"]
    options: dict[str, Any]
    classes: _Classes
    columns: list[str] | None
    fitted: _Fitted
    stopped: StopReason
    network: _Network
    plan: _Plan
    dead_rows: int
    collapse_trace: float | None
    accuracy: Accuracy
    # As they were before a file had them.
    loss: TableLoss = "supcon"
    adjust: float = 0.0
    calibration: Calibration | None = None


def load_classifier(classifier: Any, path: Path) -> None:
    """Restore a classifier from a file; errors as in `FrameClassifier.load`."""
    try:
        parsed(partial(_restore, classifier), path)
    except ValueError as error:
        raise ValueError(f"{path} is not a classifier that FrameClassifier.save wrote ({brief(error, 200)})") from None


def _restore(classifier: Any, path: Path) -> None:
    with open_tensors(path) as file:
        about = msgspec.convert(json.loads((file.metadata() or {}).get("orthoframe", "null")), _ClassifierFile)
        encoder = _read_network(file, about)
        classes = _class_array(about.classes)
        k, columns = len(classes), about.fitted.n_features_in_
        dim = encoder.dim + (0 if encoder.linear is None else k)
        if not 1 < k <= dim:
            raise ValueError(f"{k} classes and {dim} dimensions")
        shapes = {"mean_": [columns], "scale_": [columns], "centres_": [k, dim], "spreads": [k]}
        shapes["labels"] = file.get_slice("labels").get_shape()[:1]  # any number of them
        if "weights" in file.keys():  # noqa: SIM118
            shapes["weights"] = shapes["labels"]
        tensors = {name: _read_tensor(file, name, shape) for name, shape in shapes.items()}
    labels = tensors["labels"].long()
    inside = bool(((labels >= 0) & (labels < k)).all())  # first, because counts have an entry up to the largest label
    counts = torch.bincount(labels, minlength=k) if inside else torch.zeros(k)
    if not counts.all():
        raise ValueError(f"labels must be from 0 to {k - 1}, with rows of every class")
    weights = tensors["weights"].numpy() if "weights" in tensors else None
    if weights is not None and not ((weights.astype(np.float32) > 0) & (weights <= 1)).all():
        raise ValueError("weights must be positive, and at most 1")
    options = dict(about.options)
    if options["hidden"] is not None:
        options["hidden"] = tuple(options["hidden"])
    options.pop("patience", None)  # which version 0.1.0 had
    if isinstance(options.get("class_weight"), list):
        options["class_weight"] = dict(msgspec.convert(options["class_weight"], _Pairs))
    classifier.set_params(**options)
    vars(classifier).update(vars(about.fitted))
    for name in _ARRAYS:
        setattr(classifier, name, tensors[name].numpy())
    if not math.isfinite(about.adjust) or (about.calibration and not 0 < about.calibration.temperature < math.inf):
        raise ValueError("adjust must be finite, and the temperature of the calibration positive")
    classifier.loss_, classifier.adjust_, classifier.calibration_ = about.loss, about.adjust, about.calibration
    classifier.stopped_, classifier.classes_, classifier.encoder_ = about.stopped, classes, encoder.double()
    if about.columns:
        classifier.feature_names_in_ = np.array(about.columns, dtype=object)
    names = tuple(plain_labels(classes).tolist())
    # Numbered as they are: an array with the name of each row could be far larger than the file.
    numbered = Labels(tensors["labels"].numpy(), names)
    classifier.plan_ = BatchPlan(numbered, weights=weights, **asdict(about.plan))
    classifier.geometry_ = _geometry(about, tensors, counts, names)


def _read_network(file: Any, about: _ClassifierFile) -> TableEncoder:
    """The network with its weights; memory is allocated after their shapes were compared."""
    hidden, share = about.network.hidden, about.network.share
    if not (0 <= share < 1 if hidden else share == 1):
        raise ValueError(f"{len(hidden)} hidden layers, and {share:g} of a linear path")
    layers = sum(name.endswith(".bias") for name in file.keys()) - (share < 1) - (share > 0)  # noqa: SIM118
    if len(hidden) != layers or min(hidden, default=1) < 1 or about.fitted.n_features_in_ < 1:
        sizes = brief([about.fitted.n_features_in_, *hidden], 60)
        raise ValueError(f"layers of the sizes {sizes}, and the weights of {layers} layers")
    columns, network = about.fitted.n_features_in_, about.network
    classes = len(about.classes.labels) if share else 0
    encoder = TableEncoder(
        columns, hidden, network.activation, weights=False, direct=network.direct, classes=classes, share=share
    )
    load_weights(encoder, file)
    return encoder


def _class_array(classes: _Classes) -> NDArray[Any]:
    dtype = np.dtype(classes.dtype)
    if dtype.kind not in "biufUO" or dtype.itemsize * len(classes.labels) > _MOST_BYTES:
        raise ValueError(f"{len(classes.labels)} class names of {dtype}")
    array = np.array(classes.labels, dtype=dtype)
    if len(set(array.tolist())) < len(array):
        raise ValueError("two classes with one name")
    return array


def _read_tensor(file: Any, name: str, shape: list[int]) -> Tensor:
    tensor: Tensor = file.get_tensor(name).clone()
    dtype = torch.int32 if name == "labels" else torch.float64
    if list(tensor.shape) != shape or tensor.dtype != dtype:
        actual = f"{tensor.dtype} of shape {brief(list(tensor.shape), 60)}"
        raise ValueError(f"{name} must be {dtype} of shape {brief(shape, 60)}, not {actual}")
    return tensor


def _geometry(about: _ClassifierFile, tensors: dict[str, Tensor], counts: Tensor, names: tuple[Any, ...]) -> Geometry:
    """The measures: all but two, which are in the file, follow from the moments of the classes."""
    statistics = ClassStatistics(len(names), tensors["centres_"].shape[1], scatter=False)
    statistics.counts = counts.double()
    statistics.means = tensors["centres_"]
    statistics.spreads = tensors["spreads"] * statistics.counts
    statistics.dead_rows = about.dead_rows
    return geometry_of(statistics, names, trace=about.collapse_trace, accuracy=about.accuracy)


def plain_labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels as plans and measures take them, integers or strings; sorted like the classes."""
    if classes.dtype.kind == "f":  # whole numbers: scikit-learn refuses others
        return classes.astype(np.int64)
    return classes if classes.dtype.kind in "iu" else classes.astype(str)


def _option(value: Any) -> Any:
    """An option in types that JSON knows; None for a generator."""
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):  # in pairs, because the keys of JSON are strings
        value = list(value.items())
    return [_option(entry) for entry in value] if isinstance(value, list | tuple) else value
