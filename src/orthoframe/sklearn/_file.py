"""A fitted classifier as a safetensors file: tensors, and everything else as JSON in its header. No pickle."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from orthoframe._atomic import json_ready, write_atomic
from orthoframe.batches import BatchPlan
from orthoframe.geometry import Accuracy, ClassStatistics, Geometry, geometry_of
from orthoframe.sklearn._fit import StopReason
from orthoframe.sklearn._network import TableEncoder

_FORMAT = "orthoframe.FrameClassifier"
_PLAIN = ("n_features_in_", "temperature_", "n_iter_", "loss_curve_", "gap_curve_", "loss_gap_")
_ARRAYS = ("mean_", "scale_", "centres_")


def save_classifier(classifier: Any, path: Path) -> None:
    """Write a fitted classifier, whole or not at all."""
    plan, geometry, encoder = classifier.plan_, classifier.geometry_, classifier.encoder_
    about = {
        "format": _FORMAT,
        "options": {name: _option(value) for name, value in classifier.get_params().items()},
        "classes": {"dtype": classifier.classes_.dtype.str, "labels": classifier.classes_.tolist()},
        "columns": getattr(classifier, "feature_names_in_", np.empty(0)).tolist() or None,
        "fitted": {name: getattr(classifier, name) for name in _PLAIN},
        "stopped": classifier.stopped_,
        # As fitted: the options may have been changed since.
        "network": {"hidden": [len(layer.bias) for layer in encoder.layers], "activation": encoder.head.activation},
        "plan": {"batch_size": _option(plan.batch_size), "binding": plan.binding, "seed": plan.seed},
        "dead_rows": geometry.dead_rows,
        "collapse_trace": json_ready(geometry.collapse_trace),
        "accuracy": json_ready(asdict(geometry.accuracy)),
    }
    tensors = {name: torch.from_numpy(getattr(classifier, name)) for name in _ARRAYS}
    tensors["labels"] = torch.from_numpy(plan.labels.classes.astype(np.int32))
    tensors["spreads"] = geometry.spreads
    # Trained in float32: nothing is lost.
    tensors |= {f"encoder.{name}": value.float() for name, value in encoder.state_dict().items()}
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    # One entry, because the order of several would differ from run to run.
    write_atomic(path, save(tensors, metadata={"orthoframe": json.dumps(about)}))


def load_classifier(classifier: Any, path: Path) -> None:
    """Restore a classifier from a file; errors as in `FrameClassifier.load`."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["orthoframe"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
        _restore(classifier, about, tensors)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        what = str(error).splitlines()[0][:200]
        raise ValueError(f"{path} is not a classifier that FrameClassifier.save wrote ({what})") from None


def _restore(classifier: Any, about: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    classifier.set_params(**about["options"] | {"hidden": tuple(about["options"]["hidden"])})
    for name in _PLAIN:
        setattr(classifier, name, about["fitted"][name])
    classifier.stopped_ = StopReason(about["stopped"])
    for name in _ARRAYS:
        setattr(classifier, name, tensors[name].numpy())
    classes = about["classes"]
    classifier.classes_ = np.array(classes["labels"], dtype=np.dtype(classes["dtype"]))
    if about["columns"]:
        classifier.feature_names_in_ = np.array(about["columns"], dtype=object)
    encoder = TableEncoder(classifier.n_features_in_, **about["network"])
    weights = {name.removeprefix("encoder."): value for name, value in tensors.items() if name.startswith("encoder.")}
    encoder.load_state_dict(weights)
    classifier.encoder_ = encoder.double()
    names = plain_labels(classifier.classes_)
    classifier.plan_ = BatchPlan(names[tensors["labels"].numpy()], **about["plan"])
    classifier.geometry_ = _geometry(about, tensors, names)


def _geometry(about: dict[str, Any], tensors: dict[str, Tensor], names: NDArray[Any]) -> Geometry:
    """All measures but these two follow from the moments of the classes."""
    statistics = ClassStatistics(len(names), tensors["centres_"].shape[1], scatter=False)
    statistics.counts = torch.bincount(tensors["labels"].long(), minlength=len(names)).double()
    statistics.means = tensors["centres_"]
    statistics.spreads = tensors["spreads"] * statistics.counts
    statistics.dead_rows = about["dead_rows"]
    accuracy = msgspec.convert(about["accuracy"], Accuracy)
    return geometry_of(statistics, tuple(names.tolist()), trace=about["collapse_trace"], accuracy=accuracy)


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
    return [_option(entry) for entry in value] if isinstance(value, list | tuple) else value
