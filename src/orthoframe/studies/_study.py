"""A study: a question, a grid of jobs, claims that numbers decide, and figures; and all studies by name."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, Claim
from orthoframe.studies._jobs import Job

SEEDS: dict[Scale, int] = {"smoke": 2, "desk": 3, "paper": 3}
"""Seeds per cell, by scale."""

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
        title: Above it.
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

    def jobs(self, scale: Scale, seeds: int | None = None) -> dict[tuple[int, int], Job]:
        """The jobs by number of their cell and seed."""
        count = self.seeds(scale) if seeds is None else seeds
        return {
            (number, seed): cell.make(seed)
            for number, cell in enumerate(self.grid(scale))
            for seed in range(min(count, cell.seeds or count))
        }


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
