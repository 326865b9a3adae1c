"""Does the full-batch loss of a network reach its floor?"""

from typing import Any

from orthoframe_studies._claims import Claim, reaches_frame
from orthoframe_studies._endings import PROVEN_BOUND
from orthoframe_studies._grids import WIDE, trained
from orthoframe_studies._study import Cell, Panel, Scale, Study, way_to_frame

_LONG: dict[str, Any] = {"epochs": 3000, "measure_every": 100}
_FULL: dict[str, Any] = {"scheme": "full", "binding": "none"}


def grid(scale: Scale) -> list[Cell]:
    """One batch of everything, at three ratios, and a higher temperature without imbalance; and real images."""
    ratios = (1, 10, 50) if scale != "smoke" else (1, 10)
    points = [(1, 0.1), (1, 0.3), *((ratio, 0.1) for ratio in ratios[1:])]
    cells = [
        trained(scale, {"data": "digits", "ratio": ratio, "temperature": temperature}, desk=_LONG, **_FULL)
        for ratio, temperature in points
    ]
    images = {"data": "fashion-mnist", "ratio": 10, "temperature": 0.1}
    return [*cells, trained(scale, images, desk={**_LONG, "majority": 100}, **_FULL)]


_DRAWN = {"data": WIDE, "temperature": 0.1}


def _floor(text: str, **where: Any) -> Claim:
    return Claim(text, "paper", "angle_bound", where, at_most=PROVEN_BOUND, proof="unmet")


STUDY = Study(
    name="floor",
    question="Does the full-batch loss of a network reach its floor?",
    claims=(
        _floor(
            "The full-batch loss comes so near its floor that cosines are those of a frame on average",
            data=WIDE,
            temperature=0.3,
        ),
        _floor("The full-batch loss comes as near its floor at the paper's 0.1", data=WIDE, temperature=0.1),
        _floor("The full-batch loss comes as near its floor on FashionMNIST, at 0.1", data="fashion-mnist"),
        reaches_frame("Trained on full batches, a network ends at the OF", "paper", data=(*WIDE, "fashion-mnist")),
    ),
    grid=grid,
    columns=("gap", "angle_bound", "live_delta_of", "dead_rows", "merged_classes", "beta_nc"),
    panels=(
        Panel("Digits, τ = 0.1", "gap", "epoch", ("ratio",), where=_DRAWN, log="y"),
        way_to_frame("Digits, τ = 0.1", "ratio", **_DRAWN),
    ),
    remark=(
        "The angle bound is what the gap above the floor proves: in no class do cosines differ by more from those of "
        "a frame, on average over the rows compared. Two small classes may still share a direction, so that they are "
        "counted apart. A gap that is small relative to the loss proves nothing by itself. At R = 50 the small "
        "classes of the digits have two images; a class of one image would have no term of its own in the loss."
    ),
    desk_seeds=8,
)
