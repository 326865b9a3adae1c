"""Where does cross-entropy on non-negative features lead: lengths and directions, optimum and networks?"""

from typing import Any

from orthoframe.options import FRAME_DISTANCE
from orthoframe_studies._claims import Claim, reaches_frame
from orthoframe_studies._free_jobs import FreeClassifier
from orthoframe_studies._grids import WIDE, free, trained
from orthoframe_studies._study import Cell, Panel, Scale, Study

_CONTRASTIVE: dict[str, Any] = {"epochs": 600, "measure_every": 20}
_LONG: dict[str, Any] = {"epochs": 2000, "measure_every": 50}
_IMBALANCED = (10, 100)


def grid(scale: Scale) -> list[Cell]:
    """Both losses with a network on the digits; and the optimum of cross-entropy, of unit rows and of any length."""
    cells = []
    for ratio in (1, 10, 100) if scale != "smoke" else (1, 10):
        for loss, desk in (("supcon", _CONTRASTIVE), ("cross-entropy", _LONG)):
            where = {"features": "network", "loss": loss, "data": "digits", "ratio": ratio}
            binding: dict[str, Any] = {} if loss == "supcon" else {"binding": "none"}  # rows as they come
            seeds = None if loss == "supcon" else 6  # a run takes more than a minute
            cells.append(trained(scale, where, desk=desk, seeds=seeds, **binding))
        large = 100 if scale != "smoke" else 10
        for length, unit in (("any", False), ("unit", True)):
            where = {"features": f"free, {length} length", "loss": "cross-entropy", "data": "none", "ratio": ratio}
            cells.append(free(where, FreeClassifier((large,) * 5 + (large // ratio,) * 5, 20, 0, unit)))
    return cells


def _optimum(text: str, quantity: str, length: str, ratio: tuple[int, ...], **threshold: Any) -> Claim:
    where = {"features": f"free, {length} length", "ratio": ratio}
    return Claim(text, "our theory", quantity, where, proof="end", **threshold)


def _network(text: str, source: str, quantity: str, **threshold: Any) -> Claim:
    where = {"features": "network", "loss": "cross-entropy", "ratio": _IMBALANCED}
    return Claim(text, source, quantity, where, proof="end", **threshold)


_ANY_LENGTH = {"features": ("network", "free, any length"), "loss": "cross-entropy"}

STUDY = Study(
    name="cross-entropy",
    question="Does cross-entropy on non-negative features lead to the orthogonal frame?",
    claims=(
        _network(
            "Cross-entropy: where a network stands still, class means without normalisation do not form an OF",
            "paper",
            "raw_delta_of",
            at_least=FRAME_DISTANCE,
        ),
        _network(
            "Cross-entropy: where a network stands still, class means of directions do not form an OF",
            "paper",
            "live_delta_of",
            at_least=FRAME_DISTANCE,
        ),
        reaches_frame(
            "The contrastive loss reaches the OF on the data of cross-entropy", "paper", loss="supcon", data=WIDE
        ),
        _optimum(
            "Cross-entropy: the optimum of unit features is the OF", "live_delta_of", "unit", (1, 10, 100), at_most=0.01
        ),
        _optimum(
            "Cross-entropy: at the optimum of features of any length, directions form the OF",
            "live_delta_of",
            "any",
            (1, 10, 100),
            at_most=0.01,
        ),
        _optimum(
            "Cross-entropy: at that optimum lengths differ between classes, so that features form no OF "
            "without normalisation",
            "raw_delta_of",
            "any",
            _IMBALANCED,
            at_least=FRAME_DISTANCE,
        ),
    ),
    grid=grid,
    columns=("live_delta_of", "raw_delta_of", "dead_rows", "higher_ends", "trend", "beta_nc", "balanced_accuracy"),
    panels=(
        Panel(
            "Directions, networks",
            "live_delta_of",
            "ratio",
            ("loss",),
            where={"features": "network"},
            level=FRAME_DISTANCE,
            log="xy",
        ),
        Panel(
            "Without normalisation, cross-entropy",
            "raw_delta_of",
            "ratio",
            ("features",),
            where=_ANY_LENGTH,
            level=FRAME_DISTANCE,
            log="xy",
        ),
    ),
    remark=(
        "Digits at desk scale, STEP. Cross-entropy has an ordinary linear classifier on the last ReLU features of the "
        "encoder, of any length, batches as they come, and 2000 epochs; the contrastive loss has 600, bound batches "
        "and a temperature of 0.1. Free features: non-negative, 100 rows of a large class (all rows of a class have "
        "the same optimum, so one stands for them), a linear classifier without bias, a weight decay of 1e-3 on the "
        "classifier and, where lengths are free, on the features; the lowest of ten ends. A network has ended where "
        "its distances no longer move."
    ),
)
