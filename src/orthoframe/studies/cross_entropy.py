"""Does cross-entropy on the same non-negative features lead to the frame?"""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, Claim, misses_frame
from orthoframe.studies._study import WIDE, Cell, Panel, Study, trained, way_to_frame

_LONG = {"epochs": 300, "measure_every": 10}


def grid(scale: Scale) -> list[Cell]:
    """Both losses: three ratios on the digits, one on FashionMNIST."""
    digits = [("digits", ratio, _LONG) for ratio in ((1, 10, 100) if scale != "smoke" else (1, 10))]
    return [
        trained(scale, {"data": data, "loss": loss, "ratio": ratio}, desk=desk)
        for data, ratio, desk in (*digits, ("fashion-mnist", 10, {}))
        for loss in ("supcon", "cross-entropy")
    ]


def _farther(text: str, times: float, versus: dict[str, Any], **where: Any) -> Claim:
    """Cross-entropy is this many times as far from the OF as what it is compared with, or more."""
    return Claim(text, "paper", "delta_of", {"loss": "cross-entropy", **where}, versus=versus, at_least=times)


STUDY = Study(
    name="cross-entropy",
    question="Does cross-entropy on the same non-negative features lead to the orthogonal frame?",
    claims=(
        misses_frame(
            "Cross-entropy does not lead to the OF under imbalance", "paper", loss="cross-entropy", ratio=(10, 100)
        ),
        _farther("Cross-entropy ends farther from the OF than the contrastive loss", 1.0, versus={"loss": "supcon"}),
        _farther("With cross-entropy the distance grows with the imbalance", 1.2, versus={"ratio": 1}, ratio=100),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "max_cosine", "balanced_accuracy", "worst_accuracy"),
    panels=(
        Panel("Digits", "delta_of", "ratio", ("loss",), {"data": WIDE}, OF, "xy"),
        way_to_frame("On the way, R = 10", "loss", "data", ratio=10),
    ),
    remark=(
        "At desk scale the contrastive loss has a temperature of 0.1 and 300 epochs on the digits; on FashionMNIST "
        "both losses have 80 epochs, and the temperature rises from 0.1 to 0.5."
    ),
)
