"""What studies are made of: a question, cells of jobs, claims that numbers decide, and figures; all studies by name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import Any, Literal

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, Claim
from orthoframe.studies._jobs import FreeFeatures, GradientFlow, Job, Training
from orthoframe.training import RECIPES, Settings, TemperatureSchedule

SEEDS: dict[Scale, int] = {"smoke": 2, "desk": 3, "paper": 3}
"""Seeds per cell, by scale."""


@dataclass(frozen=True)
class Cell:
    """A point of the grid.

    Attributes:
        where: Its coordinates.
        make: The job of a seed.
        seeds: How many seeds at most; None for as many as asked for.
    """

    where: Mapping[str, Any]
    make: Callable[[int], Job]
    seeds: int | None = None


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
        desk_seeds: Seeds per cell at desk scale: more where runs are short and three seeds decide little.
    """

    name: str
    question: str
    claims: tuple[Claim, ...]
    grid: Callable[[Scale], list[Cell]]
    columns: tuple[str, ...]
    panels: tuple[Panel, ...]
    remark: str = ""
    desk_seeds: int = SEEDS["desk"]

    def seeds(self, scale: Scale) -> int:
        """How many seeds a cell has by default."""
        return self.desk_seeds if scale == "desk" else SEEDS[scale]

    def cells(self, scale: Scale) -> list[Cell]:
        """The cells of the grid, each place once: at `smoke`, where all data are digits, several may have the same."""
        return list({repr(sorted(cell.where.items())): cell for cell in self.grid(scale)}.values())

    def jobs(self, scale: Scale, seeds: int | None = None) -> dict[tuple[int, int], Job]:
        """The jobs by number of their cell and seed."""
        count = self.seeds(scale) if seeds is None else seeds
        return {
            (number, seed): cell.make(seed)
            for number, cell in enumerate(self.cells(scale))
            for seed in range(min(count, cell.seeds or count))
        }


RISING = TemperatureSchedule(0.1, 0.5)
"""The temperature where 0.1 needs too many epochs."""
WIDE = ("digits", "cifar10")
"""The data of the wide grids, at desk and at paper scale."""
FEW_IMAGES: dict[str, Any] = {"majority": 20, "batch_size": 32, "lr": 0.01, "epochs": 120, "test_images": 20}
"""What convolutional networks are given at desk scale."""

# What earlier results were made with, which the data alone would decide otherwise.
_MLP: dict[str, Any] = {"model": "mlp", "imbalance": "step", "augment": False, "clean_fraction": 0.0}
_SMOKE = Settings(**_MLP, majority=40, width=32, batch_size=32, epochs=4, measure_every=1)
# Images without augmentation: the theory is about the training set, and this is the shortest way to the frame.
_DESK = Settings(**_MLP, epochs=150, measure_every=5)
_DESK_OF: dict[str, dict[str, Any]] = {
    "mnist": {"majority": 200, "batch_size": 64, "lr": 0.05, "test_images": 100},
    "fashion-mnist": {"majority": 500, "temperature": RISING, "epochs": 80, "test_images": 100},
}
# Narrow, on few images, and with a rising temperature: what two cores can bring near a frame in minutes.
_CONVOLUTIONS: dict[str, Any] = {**FEW_IMAGES, "width": 8, "temperature": RISING}
# One batch of everything, at paper scale: as many images per large class as one GPU can hold, and one step per epoch.
_WHOLE: dict[str, Any] = {"majority": 200, "epochs": 3000, "measure_every": 100}
_COORDINATES = {option.name for option in fields(Settings)} - {"features"}  # which tells networks from free features


def trained(scale: Scale, where: Mapping[str, Any], *, desk: Mapping[str, Any] | None = None, **changes: Any) -> Cell:
    """A cell of trainings that differ in their seed; coordinates that name settings are settings of the trainings too.

    `desk` has settings at that scale only, where two cores must do; `changes` are settings at every scale. At `smoke`
    it is always a tiny network on few digits; at `paper` it is the paper's setting, with CIFAR-10 instead of the digits
    and a ResNet-18 instead of an MLP.
    """
    chosen = {name: value for name, value in where.items() if name in _COORDINATES}
    settings = _network(scale, desk or {}, **chosen, **changes)
    used = {name: getattr(settings, name) for name in chosen}
    if "temperature" in used:
        used["temperature"] = coordinate(settings.temperature)
    return Cell({**where, **used}, lambda seed: Training(replace(settings, seed=seed)))


def free(where: Mapping[str, Any], job: FreeFeatures | GradientFlow) -> Cell:
    """A cell of free features that differ in their seed."""
    return Cell(where, lambda seed: replace(job, seed=seed))


def coordinate(temperature: TemperatureSchedule) -> float | str:
    """A temperature as a coordinate of a cell.

    Examples:
        >>> coordinate(TemperatureSchedule(0.1, 0.1)), coordinate(RISING)
        (0.1, '0.1 to 0.5')
    """
    return temperature.first if temperature.constant else f"{temperature.first:g} to {temperature.last:g}"


def _network(scale: Scale, desk: Mapping[str, Any], data: str = "digits", model: str = "mlp", **more: Any) -> Settings:
    if scale == "smoke":
        settings = replace(_SMOKE, **{**more, "epochs": _SMOKE.epochs})
    elif scale == "desk":
        convolutions = {} if model == "mlp" else _CONVOLUTIONS
        base = {"data": data, "model": model, **_DESK_OF.get(data, {}), **convolutions, **desk}
        settings = replace(_DESK, **{**base, **more})
    else:
        data, model = "cifar10" if data == "digits" else data, "resnet18" if model == "mlp" else model
        settings = Settings(**{**RECIPES["paper"], "imbalance": "step", "data": data, "model": model, **more})
    if settings.scheme == "full":
        settings = replace(settings, batch_size=Settings.batch_size, **(_WHOLE if scale == "paper" else {}))
    if settings.loss == "cross-entropy":
        settings = replace(settings, temperature=Settings.temperature)
    return settings


_PACKAGE = "orthoframe.studies"
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
    "fast",
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
