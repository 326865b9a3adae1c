"""What ReLU and binding cost or bring in accuracy, against cross-entropy."""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim
from orthoframe.studies._study import Cell, Panel, Study, trained

_TOLERATED = -0.02  # a loss of accuracy that nobody would call one
# How features are made and trained, by the name that the study gives it.
WAYS: dict[str, dict[str, Any]] = {
    "ReLU, bound": {"activation": "relu", "binding": "fixed"},
    "ReLU": {"activation": "relu", "binding": "none"},
    "no ReLU, bound": {"activation": "none", "binding": "fixed"},
    "no ReLU": {"activation": "none", "binding": "none"},
    "cross-entropy": {"activation": "relu", "binding": "none", "loss": "cross-entropy"},
}


def grid(scale: Scale) -> list[Cell]:
    """Every way on two data sets, with augmentation as a user would have it."""
    cells = []
    for data, ratio, majority in (("digits", 10, None), ("digits", 100, None), ("fashion-mnist", 10, 500)):
        desk = {"majority": majority, "epochs": 80, "measure_every": 20}
        for way, options in WAYS.items():
            where = {"data": data, "ratio": ratio, "way": way}
            cells.append(trained(scale, where, desk=desk, augment=True, **options))
    return cells


def _no_worse(text: str, source: str, quantity: str, versus: str, at_least: float = _TOLERATED) -> Claim:
    """ReLU and binding, compared with another way."""
    here, there = {"way": "ReLU, bound"}, {"way": versus}
    return Claim(text, source, f"{quantity}_accuracy", here, there, "difference", at_least=at_least)


STUDY = Study(
    name="accuracy",
    question="Do ReLU and binding cost accuracy, and do they help the worst class?",
    claims=(
        _no_worse("ReLU costs no balanced accuracy", "paper", "balanced", "no ReLU, bound"),
        _no_worse("ReLU helps the worst class", "paper", "worst", "no ReLU, bound", at_least=0.0),
        _no_worse("Binding costs no balanced accuracy", "paper", "balanced", "ReLU"),
        _no_worse("Binding costs the worst class nothing", "open question", "worst", "ReLU"),
        _no_worse(
            "With ReLU and binding the worst class is as accurate as with cross-entropy",
            "open question",
            "worst",
            "cross-entropy",
        ),
        _no_worse("With ReLU and binding it is as accurate as cross-entropy", "paper", "balanced", "cross-entropy"),
    ),
    grid=grid,
    columns=("balanced_accuracy", "worst_accuracy", "majority_accuracy", "minority_accuracy", "delta_of"),
    panels=(
        Panel("Balanced accuracy", "balanced_accuracy", "way", ("data", "ratio")),
        Panel("Accuracy of the worst class", "worst_accuracy", "way", ("data", "ratio")),
    ),
    remark=(
        "Accuracy is that of the nearest class centre, also for cross-entropy. Images are augmented to the end, so no "
        "network is at its frame when it is measured. At R = 100 the small classes of the digits have one image. "
        "FashionMNIST has 100 test images per class here: the accuracy of the worst class moves in steps of 0.01."
    ),
    desk_seeds=6,
)
