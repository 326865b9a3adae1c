"""Is the time to the frame flat in R at tau = 0.1 and linear at tau = 0.5, as predicted?"""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim, reaches_frame
from orthoframe.studies._jobs import GradientFlow
from orthoframe.studies._study import RISING, Cell, Panel, Study, coordinate, free, trained, way_to_frame

_BUDGET = {"majority": 2000, "batch_size": 128, "epochs": 60}


def grid(scale: Scale) -> list[Cell]:
    """Gradient flow of two classes, the small one of two samples; a network on MNIST."""
    cells = []
    for temperature in (0.1, 0.5):
        for ratio in (10, 100, 1000) if scale != "smoke" else (2, 10):
            where = {"features": "free", "temperature": temperature, "ratio": ratio}
            cells.append(free(where, GradientFlow((2 * ratio, 2), 4, 0, temperature)))
    for schedule in (0.1, 0.5, RISING):
        for ratio in (10, 1000, 2000) if scale != "smoke" else (2, 10):
            where = {"features": "MNIST", "temperature": schedule, "ratio": ratio}
            cells.append(trained(scale, where, desk=_BUDGET, data="mnist"))
    return cells


def _longer(text: str, features: str, temperature: float, versus: int = 10, **threshold: Any) -> Claim:
    """The time at R = 1000, compared with that at another ratio."""
    quantity = "time_to_of" if features == "free" else "epochs_to_of"
    where = {"features": features, "temperature": temperature, "ratio": 1000}
    return Claim(text, "our theory", quantity, where, versus={"ratio": versus}, **threshold)


STUDY = Study(
    name="extreme-imbalance",
    question="Is the time to the orthogonal frame flat in R at tau = 0.1 and linear at tau = 0.5?",
    claims=(
        _longer("Free features at 0.1: the time is flat up to R = 1000", "free", 0.1, at_most=2.0),
        _longer(
            "Free features at 0.5: the time is linear in R from 100 to 1000",
            "free",
            0.5,
            versus=100,
            at_least=5.0,
            at_most=20.0,
        ),
        reaches_frame(
            "A network whose temperature rises reaches the OF at R = 1000 and more",
            "next check",
            features="MNIST",
            temperature=coordinate(RISING),
            ratio=(1000, 2000),
        ),
        reaches_frame("So does one at 0.1", "next check", features="MNIST", temperature=0.1, ratio=(1000, 2000)),
        _longer(
            "At 0.5 a network takes five times as long or more at R = 1000 as at R = 10", "MNIST", 0.5, at_least=5.0
        ),
        _longer("At 0.1 a network takes at most twice as long at R = 1000 as at R = 10", "MNIST", 0.1, at_most=2.0),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "time_to_of", "epochs_to_of", "balanced_accuracy"),
    panels=(
        Panel(
            "Gradient flow of free features", "time_to_of", "ratio", ("temperature",), {"features": "free"}, None, "xy"
        ),
        way_to_frame("A network on MNIST", "temperature", "ratio", features="MNIST"),
    ),
    remark=(
        "Free features: two classes, of 2R and of 2 samples. The network: an MLP, half of the classes with 2000 "
        "images and half with 2000 / R; every batch is bound. At R = 2000 a small class is one image, which its bound "
        "copy repeats: nothing has to collapse."
    ),
)
