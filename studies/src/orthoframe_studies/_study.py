"""What studies are made of: a question, cells of jobs, claims that numbers decide, and figures; all studies by name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import Any, Literal, get_args

from orthoframe.options import Scale
from orthoframe_studies._claims import OF, Claim
from orthoframe_studies._free_jobs import FreeClassifier, FreeFeatures, GradientFlow
from orthoframe_studies._jobs import Job
from orthoframe_studies._planned_job import PlannedNetwork
from orthoframe_studies._training_job import Training
from orthoframe.training import RECIPES, Ramp, Settings, TemperatureSchedule

SCALES: tuple[Scale, ...] = get_args(Scale)
"""From the smallest to the largest."""
FIRST_SEED = 10
"""The seeds that judge begin here: with smaller ones the designs were chosen."""
FRESH_SEED = 20
"""Those that judge what the usual ones suggested begin here."""
_SEEDS: dict[Scale, int] = {"smoke": 2, "desk": 10, "paper": 5}


@dataclass(frozen=True)
class Cell:
    """A point of the grid.

    Attributes:
        where: Its coordinates.
        make: The job of a seed.
        seeds: How many seeds it has at desk scale; None for as many as the study has.
        first_seed: The smallest of them: a larger one for a claim that results of the usual seeds suggested.
    """

    where: Mapping[str, Any]
    make: Callable[[int], Job]
    seeds: int | None = None
    first_seed: int = FIRST_SEED


@dataclass(frozen=True)
class Panel:
    """A panel of the figure: a quantity against a coordinate, or along the epochs.

    Attributes:
        quantity: A name in `final`, or in `curve` if x is `epoch` or `time`.
        x: A coordinate, or `epoch` or `time` for curves.
        lines: Coordinates whose values have one line (or group of points) each.
        where: Which cells are shown.
        level: A level that is drawn across, such as the threshold.
        log: Axes that are logarithmic.
    """

    title: str
    quantity: str
    x: str
    lines: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None
    log: Literal["", "x", "y", "xy"] = ""


def way_to_frame(title: str, *lines: str, **where: Any) -> Panel:
    """A panel of the distance to the frame along the epochs."""
    return Panel(title, "delta_of", "epoch", lines, where, OF, "y")


@dataclass(frozen=True)
class Study:
    """A question that runs decide; it holds no results.

    Attributes:
        columns: The quantities of the table.
        remark: What a reader should know of the design.
        desk_seeds: Seeds per cell at desk scale: ten where a run takes seconds, five otherwise, or as many more as one
            cell needs to refute a claim about several. The number is part of the design: none is added after a look
            at results.
    """

    name: str
    question: str
    claims: tuple[Claim, ...]
    grid: Callable[[Scale], list[Cell]]
    columns: tuple[str, ...]
    panels: tuple[Panel, ...]
    remark: str = ""
    desk_seeds: int = _SEEDS["desk"]

    def seeds(self, scale: Scale, cell: Cell | None = None) -> int:
        """How many seeds a cell has; without one, how many a cell usually has."""
        if cell is not None and cell.seeds is not None and scale == "desk":
            return cell.seeds
        return self.desk_seeds if scale == "desk" else _SEEDS[scale]

    def cells(self, scale: Scale) -> list[Cell]:
        """The cells of the grid, each place once: at `smoke`, where all data are digits, several may have the same."""
        return list({repr(sorted(cell.where.items())): cell for cell in self.grid(scale)}.values())

    def jobs(self, scale: Scale, seeds: int | None = None) -> dict[tuple[int, int], Job]:
        """The jobs by number of their cell and seed; of at most `seeds` seeds per cell, if it is given."""
        return {
            (number, seed): cell.make(seed)
            for number, cell in enumerate(self.cells(scale))
            for seed in range(
                cell.first_seed, cell.first_seed + min(self.seeds(scale, cell), seeds or self.seeds(scale, cell))
            )
        }


RISING = TemperatureSchedule(0.1, 0.5)
"""The temperature where 0.1 needs too many epochs."""
WIDE = ("digits", "cifar10")
"""The data of the wide grids, at desk and at paper scale."""
# Which the data alone would decide otherwise.
_MLP: dict[str, Any] = {"model": "mlp", "imbalance": "step", "augment": False, "clean_fraction": 0.0}
_SMOKE = Settings(**_MLP, majority=40, width=32, batch_size=32, epochs=4, measure_every=1)
# Images without augmentation: the theory is about the training set, and this is the shortest way to the frame.
_DESK = Settings(**_MLP, epochs=150, measure_every=5)
_DESK_OF: dict[str, dict[str, Any]] = {
    "mnist": {"majority": 200, "batch_size": 64, "lr": 0.05},
    "fashion-mnist": {"majority": 500, "temperature": RISING, "epochs": 80},
}
# One batch of everything, at paper scale: as many images per large class as one GPU can hold, and one step per epoch.
_WHOLE: dict[str, Any] = {"majority": 200, "epochs": 3000, "measure_every": 100}
_COORDINATES = {option.name for option in fields(Settings)} - {"features"}  # which tells networks from free features


def trained(
    scale: Scale,
    where: Mapping[str, Any],
    *,
    desk: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    first_seed: int = FIRST_SEED,
    **changes: Any,
) -> Cell:
    """A cell of trainings that differ in their seed; coordinates that name settings are settings of the trainings too.

    `desk` has settings at that scale only, where two cores must do, and `seeds` the number of runs there, from
    `first_seed` on; `changes` are settings at every scale. At `smoke` it is always a tiny network on few digits; at
    `paper` it is the paper's setting, with CIFAR-10 instead of the digits and a ResNet-18 instead of an MLP.
    """
    chosen = {name: value for name, value in where.items() if name in _COORDINATES}
    settings = _network(scale, desk or {}, **chosen, **changes)
    used = {name: getattr(settings, name) for name in chosen}
    used |= {name: coordinate(used[name]) for name in ("temperature", "margin") if name in used}
    return Cell({**where, **used}, lambda seed: Training(replace(settings, seed=seed)), seeds, first_seed)


def free(where: Mapping[str, Any], job: FreeFeatures | FreeClassifier | GradientFlow | PlannedNetwork) -> Cell:
    """A cell of other jobs that differ in their seed."""
    return Cell(where, lambda seed: replace(job, seed=seed))


def coordinate(schedule: Ramp) -> float | str:
    """A temperature or margin as a coordinate of a cell.

    Examples:
        >>> coordinate(TemperatureSchedule(0.1, 0.1)), coordinate(RISING)
        (0.1, '0.1 to 0.5')
    """
    return schedule.first if schedule.constant else f"{schedule.first:g} to {schedule.last:g}"


def _network(scale: Scale, desk: Mapping[str, Any], data: str = "digits", model: str = "mlp", **more: Any) -> Settings:
    if scale == "smoke":
        settings = replace(_SMOKE, **{**more, "epochs": _SMOKE.epochs})
    elif scale == "desk":
        base = {"data": data, "model": model, **_DESK_OF.get(data, {}), **desk}
        settings = replace(_DESK, **{**base, **more})
    else:
        data, model = "cifar10" if data == "digits" else data, "resnet18" if model == "mlp" else model
        settings = Settings(**{**RECIPES["paper"], "imbalance": "step", "data": data, "model": model, **more})
    if settings.scheme == "full":
        settings = replace(settings, batch_size=Settings.batch_size, **(_WHOLE if scale == "paper" else {}))
    if settings.linear_classifier:
        settings = replace(settings, temperature=Settings.temperature)
    return settings


_PACKAGE = "orthoframe_studies"
_MODULES = (
    "geometry",
    "without_relu",
    "cross_entropy",
    "floor",
    "batching",
    "temperature",
    "batch_size",
    "accuracy",
    "extreme_imbalance",
    "activations",
    "complexity",
    "generalisation",
    "paper_size",
)


class _Catalogue(Mapping[str, Study]):
    """Loads a study when it is asked for. Names have dashes, modules have underscores."""

    def __getitem__(self, name: str) -> Study:
        if name not in list(self):
            raise KeyError(name)
        study: Study = import_module(f"{_PACKAGE}.{name.replace('-', '_')}").STUDY
        return study

    def __iter__(self) -> Iterator[str]:
        return (module.replace("_", "-") for module in _MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


STUDIES: Mapping[str, Study] = _Catalogue()
"""All studies by name, in the order in which they are read."""
