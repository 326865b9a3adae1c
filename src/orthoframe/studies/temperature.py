"""Speed and end against the temperature, its schedules, and the four denominators."""

from orthoframe.losses import fastest_temperature
from orthoframe.options import Denominator, Scale
from orthoframe.studies._claims import Claim, faster, reaches_frame
from orthoframe.studies._jobs import FreeFeatures, GradientFlow
from orthoframe.studies._networks import RISING, coordinate, free, network, trained
from orthoframe.studies._study import Cell, Panel, Study, way_to_frame
from orthoframe.training import TemperatureSchedule

TEMPERATURES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
SCHEDULES = (TemperatureSchedule(0.1, 0.3), RISING, TemperatureSchedule(0.1, 1.0))
_OTHERS: tuple[Denominator, ...] = ("sincere", "negatives", "class-average")  # than the one of the paper
_COUNTS = (20, 20, 20, 20)
_BEST = round(float(fastest_temperature(19, 60)), 3)  # an anchor has 19 positives and 60 negatives


def grid(scale: Scale) -> list[Cell]:
    """A network and free features at every temperature; schedule and denominators with the network."""
    cells = []
    some = TEMPERATURES if scale != "smoke" else (0.1, 0.5)
    for temperature in some:
        for features, lr in (("network", 0.1), ("network, lr 0.02", 0.02)):
            where = {"features": features, "denominator": "all", "temperature": temperature}
            cells.append(trained(where, network(scale, temperature=temperature, lr=lr)))
    for schedule in SCHEDULES if scale != "smoke" else (RISING,):
        where = {"features": "network", "denominator": "all", "temperature": coordinate(schedule)}
        cells.append(trained(where, network(scale, temperature=schedule)))
    for denominator in _OTHERS:
        where = {"features": "network", "denominator": denominator, "temperature": 0.1}
        cells.append(trained(where, network(scale, denominator=denominator)))
    counts = _COUNTS if scale != "smoke" else (4, 4)
    for temperature in (*some, _BEST):
        where = {"features": "free", "denominator": "all", "temperature": temperature}
        cells.append(_flow(where, counts, temperature, "all"))
    for temperature in some:
        where = {"features": "free, solved", "denominator": "all", "temperature": temperature}
        cells.append(free(where, FreeFeatures(counts, 2 * len(counts), 0, temperature)))
    for denominator in _OTHERS:
        where = {"features": "free", "denominator": denominator, "temperature": 0.1}
        cells.append(_flow(where, counts, 0.1, denominator))
    return cells


def _flow(where: dict[str, object], counts: tuple[int, ...], temperature: float, denominator: Denominator) -> Cell:
    return Cell(where, lambda seed: GradientFlow(counts, 2 * len(counts), seed, temperature, denominator))


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
            "A network reaches the OF at every temperature in these epochs",
            "paper",
            features="network",
            denominator="all",
            temperature=TEMPERATURES,
        ),
        reaches_frame(
            "So it does at a fifth of the learning rate",
            "paper",
            features="network, lr 0.02",
            denominator="all",
            temperature=TEMPERATURES,
        ),
        Claim(
            "Free features at the predicted fastest temperature are faster than at 0.1",
            "our theory",
            "time_to_of",
            {"features": "free", "denominator": "all", "temperature": _BEST},
            versus={"temperature": 0.1},
            at_most=0.5,
        ),
        Claim(
            "No temperature of the grid is much faster than the predicted one",
            "our theory",
            "time_to_of",
            {"features": "free", "denominator": "all", "temperature": TEMPERATURES},
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
        reaches_frame(
            "The denominator does not change the end",
            "our theory",
            features="network",
            denominator=_OTHERS,
        ),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "epochs_to_of", "time_to_of", "dead_rows", "balanced_accuracy"),
    panels=(
        Panel(
            "Free features, four classes",
            "time_to_of",
            "temperature",
            (),
            {"features": "free", "denominator": "all"},
            None,
            "xy",
        ),
        way_to_frame("A network, R = 10", "temperature", features="network", denominator="all"),
        way_to_frame("The same at lr = 0.02", "temperature", features="network, lr 0.02"),
        way_to_frame("Denominators at 0.1", "denominator", features="network", temperature=0.1),
    ),
    remark=(
        "The network is an MLP on the digits at desk scale; STEP, R = 10, learning rate 0.1 unless stated. Times of "
        "free features are those of gradient flow from random features until Delta_GM is 0.01."
    ),
)
