"""Does the full-batch loss of a network reach its floor?"""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim, reaches_frame
from orthoframe.studies._study import WIDE, Cell, Panel, Study, trained, way_to_frame

_LONG: dict[str, Any] = {"epochs": 1500, "measure_every": 50, "lr": 0.03}
_FULL: dict[str, Any] = {"scheme": "full", "binding": "none"}
# A loss above its floor by more than this, at a temperature of 0.1 and ten classes, says nothing of angles.
_TELLING = 4e-4
_LEFT = 0.01  # of the way from all features alike down to the floor


def grid(scale: Scale) -> list[Cell]:
    """One batch of everything, at three ratios and two temperatures; and real images."""
    cells = []
    for ratio in (1, 10, 50) if scale != "smoke" else (1, 10):
        for temperature in (0.1, 0.5):
            where = {"data": "digits", "ratio": ratio, "temperature": temperature}
            cells.append(trained(scale, where, desk=_LONG, **_FULL))
    images = {"data": "fashion-mnist", "ratio": 10, "temperature": 0.1}
    return [*cells, trained(scale, images, desk={**_LONG, "majority": 100}, **_FULL)]


def _floor(text: str, source: str, **where: Any) -> Claim:
    return Claim(text, source, "relative_gap", where, at_most=_LEFT)


STUDY = Study(
    name="floor",
    question="Does the full-batch loss of a network reach its floor?",
    claims=(
        _floor("The full-batch loss reaches its floor", "paper", temperature=0.1, data=WIDE),
        _floor("So it does on FashionMNIST", "paper", data="fashion-mnist"),
        _floor("So it does at a temperature of 0.5", "ours", temperature=0.5),
        Claim(
            "It comes so near that only a frame is left", "our theory", "gap", {"temperature": 0.1}, at_most=_TELLING
        ),
        reaches_frame("At the floor there is the OF", "paper", temperature=0.1),
    ),
    grid=grid,
    columns=("loss", "gap", "relative_gap", "delta_of", "beta_nc"),
    panels=(
        Panel("Loss above its floor", "gap", "epoch", ("ratio", "temperature"), {"data": WIDE}, None, "y"),
        way_to_frame("Distance to the frame", "ratio", "temperature", data=WIDE),
    ),
    remark=(
        "relative_gap is the gap above the floor divided by what it is when all features are alike. At R = 50 the "
        "small classes of the digits have two images; a class of one image would have no term of its own in the loss."
    ),
)
