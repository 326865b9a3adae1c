"""Is the time to the frame flat in R at tau = 0.1 and linear at tau = 0.5, as predicted?"""

from collections.abc import Callable

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim, reaches_frame
from orthoframe.studies._jobs import GradientFlow, Job
from orthoframe.studies._networks import RISING, coordinate, network, trained
from orthoframe.studies._study import Cell, Panel, Study, way_to_frame


def grid(scale: Scale) -> list[Cell]:
    """Gradient flow of two classes, the small one of two samples; a network on MNIST."""
    cells = []
    smoke = scale == "smoke"
    for temperature in (0.1, 0.5):
        for ratio in (10, 100, 1000) if not smoke else (2, 10):
            where = {"features": "free", "temperature": temperature, "ratio": ratio}
            cells.append(Cell(where, _flow(ratio, temperature)))
    budget = {"majority": 2000, "batch_size": 128, "epochs": 60}
    for schedule in (0.1, 0.5, RISING):
        for ratio in (10, 1000, 2000) if not smoke else (2, 10):
            where = {"features": "MNIST", "temperature": coordinate(schedule), "ratio": ratio}
            cells.append(trained(where, network(scale, "mnist", desk=budget, ratio=ratio, temperature=schedule)))
    return cells


def _flow(ratio: int, temperature: float) -> Callable[[int], Job]:
    return lambda seed: GradientFlow((2 * ratio, 2), 4, seed, temperature)


STUDY = Study(
    name="extreme-imbalance",
    question="Is the time to the orthogonal frame flat in R at tau = 0.1 and linear at tau = 0.5?",
    claims=(
        Claim(
            "Free features at 0.1: the time is flat up to R = 1000",
            "our theory",
            "time_to_of",
            {"features": "free", "temperature": 0.1, "ratio": 1000},
            versus={"ratio": 10},
            at_most=2.0,
        ),
        Claim(
            "Free features at 0.5: the time is linear in R from 100 to 1000",
            "our theory",
            "time_to_of",
            {"features": "free", "temperature": 0.5, "ratio": 1000},
            versus={"ratio": 100},
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
        Claim(
            "At 0.5 a network takes five times as long or more at R = 1000 as at R = 10",
            "our theory",
            "epochs_to_of",
            {"features": "MNIST", "temperature": 0.5, "ratio": 1000},
            versus={"ratio": 10},
            at_least=5.0,
        ),
        Claim(
            "At 0.1 a network takes at most twice as long at R = 1000 as at R = 10",
            "our theory",
            "epochs_to_of",
            {"features": "MNIST", "temperature": 0.1, "ratio": 1000},
            versus={"ratio": 10},
            at_most=2.0,
        ),
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
