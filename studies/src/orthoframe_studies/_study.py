"""What studies are made of: a question, cells of jobs, claims that numbers decide, and figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from orthoframe.options import FRAME_DISTANCE
from orthoframe_studies._claims import Claim
from orthoframe_studies._jobs import Job

Scale = Literal["smoke", "desk", "paper"]
"""How large a study is: seconds, minutes on two cores, or the setting of the paper, which needs GPUs."""
SCALES: tuple[Scale, ...] = get_args(Scale)
"""From the smallest to the largest."""
FIRST_SEED = 10
"""The seeds that judge begin here: with smaller ones the designs were chosen."""
FRESH_SEED = 20
"""Those that judge what the usual ones suggested begin here."""
_SEEDS: dict[Scale, int] = {"smoke": 2, "desk": 10, "paper": 5}


@dataclass(frozen=True)
class Cell:
    """A point of the grid."""

    where: Mapping[str, Any]
    make: Callable[[int], Job]
    seeds: int | None = None  # how many seeds it has at desk scale; None for as many as the study has
    # The smallest of them: a larger one for a claim that results of the usual seeds suggested.
    first_seed: int = FIRST_SEED


@dataclass(frozen=True)
class Panel:
    """A panel of the figure: a quantity against a coordinate, or along the epochs."""

    title: str
    quantity: str  # a name in `final`, or in `curve` if x is `epoch` or `time`
    x: str  # a coordinate, or `epoch` or `time` for curves
    lines: tuple[str, ...] = ()  # coordinates whose values have one line (or group of points) each
    where: Mapping[str, Any] = field(default_factory=dict)  # which cells are shown
    level: float | None = None  # a level that is drawn across, such as the threshold
    log: Literal["", "x", "y", "xy"] = ""  # axes that are logarithmic


def way_to_frame(title: str, *lines: str, **where: Any) -> Panel:
    """A panel of the distance to the frame along the epochs."""
    return Panel(title, "delta_of", "epoch", lines, where=where, level=FRAME_DISTANCE, log="y")


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question that runs decide; it holds no results."""

    name: str
    question: str
    claims: tuple[Claim, ...]
    grid: Callable[[Scale], list[Cell]]
    columns: tuple[str, ...]  # the quantities of the table
    panels: tuple[Panel, ...]
    remark: str = ""  # what a reader should know of the design
    # Seeds per cell at desk scale: ten where a run takes seconds, five otherwise, or as many more as one cell needs
    # to refute a claim about several. The number is part of the design: none is added after a look at results.
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
