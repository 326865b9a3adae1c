"""Speed and end against the temperature, its schedules, and the four denominators."""

from orthoframe.losses import fastest_temperature
from orthoframe.options import Denominator, Scale
from orthoframe.studies._claims import Claim, faster, reaches_frame
from orthoframe.studies._jobs import FreeFeatures, GradientFlow
from orthoframe.studies._study import RISING, Cell, Panel, Study, coordinate, free, trained, way_to_frame
from orthoframe.training import TemperatureSchedule

TEMPERATURES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
SCHEDULES = (TemperatureSchedule(0.1, 0.3), RISING, TemperatureSchedule(0.1, 1.0))
_OTHERS: tuple[Denominator, ...] = ("sincere", "negatives", "class-average")  # than the one of the paper
_COUNTS = (20, 20, 20, 20)
_BEST = round(float(fastest_temperature(19, 60)), 3)  # an anchor has 19 positives and 60 negatives
_FREE = {"features": "free", "denominator": "all"}
_EVERY = {"denominator": "all", "temperature": TEMPERATURES}


def grid(scale: Scale) -> list[Cell]:
    """A network and free features at every temperature; schedule and denominators with the network."""
    some, schedules = (TEMPERATURES, SCHEDULES) if scale != "smoke" else ((0.1, 0.5), (RISING,))
    cells = []
    for temperature in some:
        for features, lr in (("network", 0.1), ("network, lr 0.02", 0.02)):
            cells.append(trained(scale, _where(features, temperature), lr=lr))
    cells += [trained(scale, _where("network", schedule)) for schedule in schedules]
    cells += [trained(scale, _where("network", 0.1, denominator)) for denominator in _OTHERS]
    counts = _COUNTS if scale != "smoke" else (4, 4)
    dim = 2 * len(counts)
    for temperature in (*some, _BEST):
        cells.append(free(_where("free", temperature), GradientFlow(counts, dim, 0, temperature)))
    for temperature in some:
        cells.append(free(_where("free, solved", temperature), FreeFeatures(counts, dim, 0, temperature)))
    for denominator in _OTHERS:
        cells.append(free(_where("free", 0.1, denominator), GradientFlow(counts, dim, 0, 0.1, denominator)))
    return cells


def _where(features: str, temperature: object, denominator: str = "all") -> dict[str, object]:
    return {"features": features, "denominator": denominator, "temperature": temperature}


STUDY = Study(
    name="temperature",
    question="How do speed and end depend on the temperature, its schedule and the denominator?",
    claims=(
        Claim(
            "The temperature does not change the end of free features",
            "paper",
            "delta_of",
            {"features": "free, solved"},
            at_most=1e-3,
        ),
        reaches_frame(
            "A network reaches the OF at every temperature in these epochs", "paper", features="network", **_EVERY
        ),
        reaches_frame("So it does at a fifth of the learning rate", "paper", features="network, lr 0.02", **_EVERY),
        Claim(
            "Free features at the predicted fastest temperature are faster than at 0.1",
            "our theory",
            "time_to_of",
            _where("free", _BEST),
            versus={"temperature": 0.1},
            at_most=0.5,
        ),
        Claim(
            "No temperature of the grid is much faster than the predicted one",
            "our theory",
            "time_to_of",
            _where("free", TEMPERATURES),
            versus={"temperature": _BEST},
            at_least=0.8,
        ),
        faster(
            "A temperature that rises is faster than 0.1",
            "our theory",
            {"features": "network", "temperature": tuple(map(coordinate, SCHEDULES))},
            versus={"temperature": 0.1},
        ),
        Claim(
            "Denominators with fewer positives or none are faster at 0.1",
            "our theory",
            "time_to_of",
            {"features": "free", "denominator": ("sincere", "negatives")},
            versus={"denominator": "all"},
            at_most=1.0,
        ),
        reaches_frame("The denominator does not change the end", "our theory", features="network", denominator=_OTHERS),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "epochs_to_of", "time_to_of", "dead_rows", "balanced_accuracy"),
    panels=(
        Panel("Free features, four classes", "time_to_of", "temperature", (), _FREE, None, "xy"),
        way_to_frame("A network, R = 10", "temperature", features="network", denominator="all"),
        way_to_frame("The same at lr = 0.02", "temperature", features="network, lr 0.02"),
        way_to_frame("Denominators at 0.1", "denominator", features="network", temperature=0.1),
    ),
    remark=(
        "The network is an MLP on the digits at desk scale; STEP, R = 10, learning rate 0.1 unless stated. Times of "
        "free features are those of gradient flow from random features until Delta_GM is 0.01."
    ),
)
