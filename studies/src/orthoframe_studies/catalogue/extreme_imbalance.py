"""Is the frame reached at R of 1000 and more, and how does the time depend on R?"""

from typing import Any

from orthoframe.training import Ramp
from orthoframe_studies._claims import Claim, Proof, reaches_frame
from orthoframe_studies._free_jobs import GradientFlow
from orthoframe_studies._grids import RISING, free, trained
from orthoframe_studies._study import Cell, Panel, Scale, Study, way_to_frame

# At desk scale at least four images are left of 4000.
_RATIOS: dict[Scale, tuple[int, ...]] = {"smoke": (2, 10), "desk": (10, 1000), "paper": (10, 100, 1000)}
_BUDGET: dict[str, Any] = {"majority": 4000, "batch_size": 128, "epochs": 125, "measure_every": 5, "test_images": 100}
_CONSTANT, _RISES, _MARGIN = "0.1", "0.1 to 0.5", "0.1, margin 0.5"
_WAYS: dict[str, dict[str, Any]] = {
    _CONSTANT: {"temperature": 0.1},
    _RISES: {"temperature": RISING},
    _MARGIN: {"temperature": 0.1, "margin": Ramp(0.5, 0.5)},
}


def grid(scale: Scale) -> list[Cell]:
    """Gradient flow of two classes, the small one of two samples; a network on MNIST."""
    cells = []
    for temperature in (0.1, 0.5):
        for ratio in (10, 100, 1000) if scale != "smoke" else (2, 10):
            where = {"features": "free", "schedule": temperature, "ratio": ratio}
            cells.append(free(where, GradientFlow((2 * ratio, 2), 4, 0, temperature)))
    for way, options in _WAYS.items():
        # Times are compared at the constant temperature only.
        for ratio in _RATIOS[scale] if way == _CONSTANT else _RATIOS[scale][-1:]:
            where = {"features": "MNIST", "schedule": way, "ratio": ratio}
            cells.append(trained(scale, where, desk=_BUDGET, data="mnist", **options))
    return cells


def _longer(text: str, features: str, schedule: str | float, versus: int = 10, **threshold: Any) -> Claim:
    """The time at R = 1000, compared with that at another ratio."""
    quantity = "time_to_of" if features == "free" else "epochs_to_of"
    where = {"features": features, "schedule": schedule, "ratio": 1000}
    proof: Proof = "none" if features == "free" else "learnt"
    return Claim(text, "our theory", quantity, where, versus={"ratio": versus}, proof=proof, **threshold)


def _reaches(text: str, schedule: str) -> Claim:
    return reaches_frame(text, "next check", features="MNIST", schedule=schedule, ratio=1000)


STUDY = Study(
    name="extreme-imbalance",
    question="Is the orthogonal frame reached at R = 1000, and does the time grow with R as predicted?",
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
        _reaches("A network at 0.1 reaches the OF at R = 1000", _CONSTANT),
        _reaches("A network whose temperature rises reaches the OF at R = 1000", _RISES),
        _reaches("A network with a margin reaches the OF at R = 1000", _MARGIN),
        _longer(
            "At 0.1 a network takes at most twice as long at R = 1000 as at R = 10", "MNIST", _CONSTANT, at_most=2.0
        ),
    ),
    grid=grid,
    columns=("live_delta_of", "dead_rows", "merged_classes", "time_to_of", "epochs_to_of", "balanced_accuracy"),
    panels=(
        Panel(
            "Gradient flow of free features", "time_to_of", "ratio", ("schedule",), where={"features": "free"}, log="xy"
        ),
        Panel("MLP on MNIST", "epochs_to_of", "ratio", ("schedule",), where={"features": "MNIST"}, log="xy"),
        way_to_frame("MLP on MNIST, R = 1000", "schedule", features="MNIST", ratio=1000),
    ),
    remark=(
        "Free features: two classes, of 2R and of 2 samples. The network: an MLP, half of the classes with 4000 images "
        "and half with 4000 / R, 4 at R = 1000; every batch is bound; 125 epochs, 20,000 steps."
    ),
    desk_seeds=6,
)
