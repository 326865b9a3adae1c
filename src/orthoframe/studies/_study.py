"""A study: a question, a grid of jobs, claims that numbers decide, and pictures."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from orthoframe.studies._claims import POSITIVE, TIMES, Bounds, Claim, Decision, Interval, interval, together
from orthoframe.studies._jobs import Free, Job, Training
from orthoframe.training import Settings

Scale = Literal["smoke", "desk", "paper"]
SEEDS: dict[str, int] = {"smoke": 2, "desk": 3, "paper": 3}
"""Seeds of each cell, by scale."""


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
    """A picture: a quantity against a coordinate, or along the epochs.

    Attributes:
        title: Above it.
        quantity: A name in `final`, or in `curve` if x is `epoch` or `time`.
        x: A coordinate, or `epoch` or `time` for curves.
        lines: Coordinates whose values have a line (or a group of points) each.
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


@dataclass(frozen=True)
class Study:
    """A question that runs decide."""

    name: str
    question: str
    claims: tuple[Claim, ...]
    grid: Callable[[Scale], list[Cell]]
    columns: tuple[str, ...]  # quantities of the table
    panels: tuple[Panel, ...]
    remark: str = ""  # what a reader should know of the design
    history: str = ""  # what was asked and found before the design was changed
    desk_seeds: int = SEEDS["desk"]  # more where runs are short and three seeds decide little

    def seeds(self, scale: Scale) -> int:
        """How many seeds a cell has, unless somebody asks for another number."""
        return self.desk_seeds if scale == "desk" else SEEDS[scale]

    def jobs(self, scale: Scale, seeds: int | None = None) -> dict[tuple[int, int], Job]:
        """The jobs by number of their cell and seed."""
        count = self.seeds(scale) if seeds is None else seeds
        return {
            (number, seed): cell.make(seed)
            for number, cell in enumerate(self.grid(scale))
            for seed in range(min(count, cell.seeds or count))
        }


@dataclass(frozen=True)
class Comparison:
    """A cell's part in a claim."""

    where: Mapping[str, Any]
    seeds: tuple[int, ...]
    interval: Interval
    decision: Decision


@dataclass(frozen=True)
class Finding:
    """A claim, and what was found."""

    claim: Claim
    decision: Decision
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Measured:
    """A cell with the results of its seeds; those that failed are not among them."""

    where: Mapping[str, Any]
    results: Mapping[int, Mapping[str, Any]]  # by seed

    def values(self, quantity: str) -> dict[int, Bounds]:
        """What is known of a quantity, by seed; nothing where it does not exist."""
        found = {}
        for seed, result in self.results.items():
            value = result["final"].get(quantity)
            if value is not None:
                found[seed] = (float(value), float(value))
            elif quantity in TIMES and quantity in result["final"]:
                found[seed] = (_length(result), math.inf)
        return found

    def interval(self, quantity: str) -> Interval:
        """Over seeds."""
        return interval(list(self.values(quantity).values()), logarithm=quantity in POSITIVE)


def agrees(where: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether coordinates are those that are wanted; a tuple allows several.

    Examples:
        >>> agrees({"ratio": 10, "data": "digits"}, {"ratio": (10, 100)})
        True
    """
    for name, value in wanted.items():
        allowed = value if isinstance(value, tuple) else (value,)
        if name not in where or where[name] not in allowed:
            return False
    return True


def decide(claim: Claim, cells: Sequence[Measured]) -> Finding:
    """What the results say about a claim."""
    comparisons = []
    for cell in cells:
        if not agrees(cell.where, claim.where):
            continue
        if claim.versus is None:
            seeds, found = list(cell.values(claim.quantity)), cell.interval(claim.quantity)
        else:
            other = _counterpart(cell, claim.versus, cells)
            if other is None:
                continue
            seeds, found = _compared(claim, cell, other)
        comparisons.append(Comparison(cell.where, tuple(seeds), found, claim.decide(found)))
    return Finding(claim, together([part.decision for part in comparisons]), tuple(comparisons))


def _counterpart(cell: Measured, versus: Mapping[str, Any], cells: Sequence[Measured]) -> Measured | None:
    wanted = {**cell.where, **versus}
    return next((other for other in cells if other is not cell and dict(other.where) == wanted), None)


def _compared(claim: Claim, cell: Measured, other: Measured) -> tuple[list[int], Interval]:
    """Seed by seed, so that what a seed decides for both falls out."""
    mine, theirs = cell.values(claim.quantity), other.values(claim.quantity)
    seeds = sorted(mine.keys() & theirs.keys())
    pairs = [(mine[seed], theirs[seed]) for seed in seeds]
    if claim.how == "difference":
        return seeds, interval([(one[0] - two[1], one[1] - two[0]) for one, two in pairs])
    return seeds, interval([_ratio(one, two) for one, two in pairs], logarithm=True)


def _ratio(one: Bounds, two: Bounds) -> Bounds:
    """The smallest and the largest ratio; nan to what may be 0."""
    if two[0] == 0:
        return math.nan, math.nan
    return one[0] / two[1], one[1] / two[0]


def _length(result: Mapping[str, Any]) -> float:
    """All the time that a run had."""
    curve = result["curve"]
    places: Sequence[float] = curve.get("epoch") or curve["time"]
    return float(places[-1])


def trained(where: Mapping[str, Any], settings: Settings, seeds: int | None = None) -> Cell:
    """A cell of trainings that differ in their seed; data and model are called what they are."""
    where = {name: getattr(settings, name) if name in ("data", "model") else value for name, value in where.items()}
    return Cell(where, lambda seed: Training(replace(settings, seed=seed)), seeds)


def free(where: Mapping[str, Any], job: Free, seeds: int | None = None) -> Cell:
    """A cell of free features that differ in their seed."""
    return Cell(where, lambda seed: replace(job, seed=seed), seeds)
