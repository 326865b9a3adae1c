"""What studies found, with every number: typed in memory, JSON on disk."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from orthoframe.files import LARGEST_RECORDS, read_small, reading, write_json
from orthoframe_studies._claims import TIME_QUANTITIES, UNEVEN_QUANTITIES, Claim, Decision
from orthoframe_studies._jobs import JobResult
from orthoframe_studies._statistics import Bounds, Interval, mean_interval, median_range
from orthoframe_studies._study import Panel, Scale


@dataclass(frozen=True)
class CellResult:
    """A cell with the results of its seeds, without those that failed."""

    where: Mapping[str, Any]
    summary: Mapping[str, Interval]  # each quantity over seeds
    results: Mapping[int, JobResult]  # by seed
    seeds: int  # how many seeds the design has; some may have no result

    @classmethod
    def of(cls, where: Mapping[str, Any], results: Mapping[int, JobResult], seeds: int | None = None) -> "CellResult":
        """A cell with its summary; `seeds` of the design, if some have no result."""
        summary = {}
        for name in dict.fromkeys(name for result in results.values() for name in result.final):
            bounds = bounds_of(results, name)
            if name in UNEVEN_QUANTITIES:
                summary[name] = median_range(bounds)
            else:
                summary[name] = mean_interval({seed: low for seed, (low, _) in bounds.items()})
        return cls(where, summary, results, len(results) if seeds is None else seeds)

    def over_seeds(self, quantity: str) -> Interval:
        """A quantity over seeds; without values if no seed has it."""
        return self.summary.get(quantity) or Interval(centre=None, low=None, high=None, values={})

    def curves(self, x: str, y: str, log: str = "") -> list[dict[float, float]]:
        """The curve of each seed, y by x: the points that are known, and positive along the axes in `log`."""
        curves = []
        for _, result in sorted(self.results.items()):
            pairs = zip(result.curve.get(x) or (), result.curve.get(y) or (), strict=False)
            points = ((float(a), float(b)) for a, b in pairs if a is not None and b is not None and math.isfinite(b))
            curves.append({a: b for a, b in points if (a > 0 or "x" not in log) and (b > 0 or "y" not in log)})
        return curves

    def median_curve(self, x: str, y: str, log: str = "") -> dict[float, tuple[float, float, float]] | None:
        """Median, smallest and largest over the seeds that have points; None if their places differ."""
        seeds = [points for points in self.curves(x, y, log) if points]
        if len({tuple(points) for points in seeds}) != 1:
            return None
        columns = {place: [points[place] for points in seeds] for place in seeds[0]}
        return {place: (median(column), min(column), max(column)) for place, column in columns.items()}


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The runs, or pairs of runs, of a cell."""

    yes: int = 0  # of which the claim is true
    no: int = 0  # of which it is not
    untrained: int = 0  # that have not come far enough to say so
    unknown: int = 0  # whose numbers do not tell, such as two times that are both longer than the runs
    missing: int = 0  # that the design has, and that have no result

    @property
    def trials(self) -> int:
        """The number of runs, or of pairs of runs."""
        return self.yes + self.no + self.untrained + self.unknown + self.missing


@dataclass(frozen=True)
class Comparison:
    """A cell's part in a claim."""

    where: Mapping[str, Any]
    decision: Decision
    interval: Interval
    tally: Tally


@dataclass(frozen=True)
class Finding:
    """A claim, and what was found."""

    claim: Claim
    decision: Decision
    comparisons: tuple[Comparison, ...]

    @property
    def worst_first(self) -> list[Comparison]:
        """The comparisons, those that are worst for the claim first."""
        least, most = self.claim.at_least, self.claim.at_most

        def room(low: float, high: float) -> float:
            """How far an interval is from the limits of the claim; negative beyond one of them."""
            return min(math.inf if least is None else low - least, math.inf if most is None else most - high)

        def goodness(part: Comparison) -> tuple[int, float, float, float]:
            interval, rank = part.interval, list(Decision).index(part.decision)
            # Of cells with as many runs for the claim and against it, that whose runs are nearest to the limit.
            typical = (
                room(median(interval.known_values), median(interval.known_values))
                if interval.known_values
                else -math.inf
            )
            low, high = (interval.centre if end is None else end for end in (interval.low, interval.high))
            if low is None or high is None:
                return rank, -math.inf, -math.inf, typical
            return (rank, low, high, typical) if self.claim.over == "runs" else (rank, room(low, high), 0.0, typical)

        return sorted(self.comparisons, key=goodness)

    @property
    def deciding(self) -> Comparison | None:
        """The comparison that is worst for the claim; None if no cell decides it."""
        return next(iter(self.worst_first), None)


@dataclass(frozen=True)
class Failure:
    """A run without a result."""

    where: Mapping[str, Any]  # the coordinates of its cell
    seed: int
    key: str  # its folder in the store
    sentence: str


@dataclass(frozen=True)
class RunRecord:
    """Where the result of a run is, and how it was made."""

    cell: int  # the number of its cell
    seed: int
    seconds: float  # how long it took
    commit: str | None  # the commit of the source that computed it; None if it is not known


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """How a study ended."""

    study: str
    question: str
    remark: str  # what a reader should know of the design that was run
    scale: Scale
    seeds: int  # seeds per cell, as the design has them
    first_seed: int  # the smallest seed of any cell
    command: str  # what computes these numbers again
    version: str
    commit: str | None  # the commit of the source that decided the claims; None if it is not known
    modified: bool | None
    run_commits: tuple[str, ...]  # the commits of the source that computed the runs, as far as they are known
    runs: int  # how many jobs the study has; the same job in two cells is one
    reused: int  # how many of them had a result before
    missing: int  # how many of them were not run
    seconds: float  # what all runs took together, one after the other, whenever they were run
    columns: tuple[str, ...]
    panels: tuple[Panel, ...]
    findings: tuple[Finding, ...]
    cells: tuple[CellResult, ...]  # in the order of the grid
    failures: tuple[Failure, ...]
    # Of the runs that have a result, by the keys of their jobs.
    records: Mapping[str, RunRecord] = field(default_factory=dict)

    @property
    def decision(self) -> Decision:
        """That of all claims together."""
        return Decision.of_all([finding.decision for finding in self.findings])


def write_result(result: StudyResult, path: Path) -> None:
    """Write a result as JSON, with six digits of each number, and null for one that is not finite."""
    write_json(path, msgspec.to_builtins(result), digits=6, indent=None)


def read_result(path: Path) -> StudyResult:
    """Read what `write_result` wrote.

    Raises:
        InputError: If the file cannot be read, or is not the result of a study.
    """
    with reading(path, "the result of a study"):
        result: StudyResult = msgspec.json.Decoder(StudyResult).decode(read_small(path, LARGEST_RECORDS))
        _check_cells(result.cells)
    return result


def _check_cells(cells: Sequence[CellResult]) -> None:
    """Pictures tell cells apart by their coordinates; a missing one is the same as null."""
    seen = set()
    for cell in cells:
        if not all(value is None or isinstance(value, str | int | float) for value in cell.where.values()):
            raise ValueError("coordinates of cells must be numbers or strings")
        where = frozenset((name, value) for name, value in cell.where.items() if value is not None)
        if where in seen:
            raise ValueError("two cells have the same coordinates")
        seen.add(where)


def bounds_of(results: Mapping[int, JobResult], quantity: str) -> dict[int, Bounds]:
    """What is known of a quantity, by seed; seeds without it are left out."""
    bounds = {}
    for seed, result in results.items():
        value = result.final.get(quantity)
        if value is not None:
            bounds[seed] = (float(value), float(value))
        elif quantity in TIME_QUANTITIES and quantity in result.final:
            places = result.curve.get("epoch") or result.curve["time"]
            bounds[seed] = (float(places[-1] or 0), math.inf)  # the frame was not reached in the whole run
    return bounds
