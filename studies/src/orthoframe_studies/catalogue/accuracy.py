"""What ReLU and binding cost or bring in accuracy, at the frame and before it, against linear classifiers."""

from itertools import product
from typing import Any

from orthoframe_studies._claims import Claim
from orthoframe_studies._grids import RISING, trained
from orthoframe_studies._study import Cell, Panel, Scale, Study

_TOLERATED = -0.02  # a loss of accuracy that nobody would call one
# How features are made and trained, by the name that the study gives it.
METHODS: dict[str, dict[str, Any]] = {
    "ReLU, bound": {"activation": "relu", "binding": "fixed"},
    "ReLU": {"activation": "relu", "binding": "none"},
    "no ReLU, bound": {"activation": "none", "binding": "fixed"},
    "cross-entropy": {"binding": "none", "loss": "cross-entropy"},
    "balanced softmax": {"binding": "none", "loss": "balanced-softmax"},
}
_END, _BEFORE = "at the frame", "before the frame"
# Unbound batches do not lead to the frame in these epochs.
_COMPARED = {
    _END: ("ReLU, bound", "no ReLU, bound", "cross-entropy", "balanced softmax"),
    _BEFORE: ("ReLU, bound", "ReLU", "balanced softmax"),
}
# Images as they are and a temperature that rises lead to the frame; augmented ones and 0.1 do not in these epochs.
_AUGMENT = {_END: False, _BEFORE: True}
_TEMPERATURES: dict[str, dict[str, Any]] = {_END: {"temperature": RISING}, _BEFORE: {"temperature": 0.1}}
_MLP: dict[str, Any] = {"majority": 500, "epochs": 160, "measure_every": 80, "test_images": None}


def grid(scale: Scale) -> list[Cell]:
    """Every method on FashionMNIST, settled onto the frame and stopped before it."""
    cells = []
    for ratio, stop in product((10, 100), _COMPARED):
        for method in _COMPARED[stop]:
            where = {"ratio": ratio, "stopped": stop, "method": method}
            # A linear classifier has no temperature.
            desk = _MLP | ({} if "loss" in METHODS[method] else _TEMPERATURES[stop])
            options = {"augment": _AUGMENT[stop], **METHODS[method]}
            cells.append(trained(scale, where, desk=desk, data="fashion-mnist", **options))
    return cells


def _compared(text: str, source: str, quantity: str, versus: str, at_least: float = 0.0, stop: str = _END) -> Claim:
    """ReLU and binding, compared with another method."""
    where, other = {"method": "ReLU, bound", "stopped": stop}, {"method": versus}
    proof: Any = "goal" if stop == _END else "none"
    return Claim(
        text, source, quantity, where, versus=other, how="difference", at_least=at_least, over="mean", proof=proof
    )


STUDY = Study(
    name="accuracy",
    question="Do ReLU and binding cost accuracy, and do they help the worst class?",
    claims=(
        _compared("ReLU costs no balanced accuracy", "paper", "balanced_accuracy", "no ReLU, bound", _TOLERATED),
        _compared("ReLU helps the worst class", "paper", "worst_accuracy", "no ReLU, bound"),
        _compared("Binding costs no balanced accuracy", "paper", "balanced_accuracy", "ReLU", _TOLERATED, stop=_BEFORE),
        _compared("Binding raises balanced accuracy", "ours", "balanced_accuracy", "ReLU", stop=_BEFORE),
        _compared(
            "ReLU and binding are as accurate as cross-entropy",
            "paper",
            "balanced_accuracy",
            "cross-entropy",
            _TOLERATED,
        ),
        _compared(
            "ReLU and binding are as accurate as balanced softmax",
            "open question",
            "balanced_accuracy",
            "balanced softmax",
            _TOLERATED,
        ),
        _compared(
            "ReLU and binding are as accurate as balanced softmax before the frame, too",
            "open question",
            "balanced_accuracy",
            "balanced softmax",
            _TOLERATED,
            _BEFORE,
        ),
        _compared(
            "The worst class is as accurate with ReLU and binding as with balanced softmax",
            "open question",
            "worst_accuracy",
            "balanced softmax",
            _TOLERATED,
        ),
        _compared(
            "ReLU raises the margin of minority classes on new images",
            "open question",
            "minority_margin",
            "no ReLU, bound",
        ),
    ),
    grid=grid,
    columns=("balanced_accuracy", "worst_accuracy", "minority_accuracy", "minority_margin", "live_delta_of"),
    panels=(
        Panel("At the frame", "balanced_accuracy", "method", ("ratio",), where={"stopped": _END}),
        Panel("At the frame", "worst_accuracy", "method", ("ratio",), where={"stopped": _END}),
        Panel("Before the frame", "balanced_accuracy", "method", ("ratio",), where={"stopped": _BEFORE}),
    ),
    remark=(
        "FashionMNIST, STEP, all 10,000 test images. The contrastive loss predicts with the nearest class mean, "
        "cross-entropy and balanced softmax with their own linear classifier. At the frame: images as they are, and "
        "networks with ReLU must have a Delta_GM of at most 0.1; the others have no frame, and are judged as they were "
        "trained in the same epochs. Before the frame: augmented images, a temperature of 0.1, and all are judged as "
        "they are; there, unbound batches are compared, which do not lead to the frame in these epochs. An MLP with "
        "500 images of a large class at desk scale, a ResNet-18 at paper scale."
    ),
)
