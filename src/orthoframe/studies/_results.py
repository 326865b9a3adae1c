"""What studies found, with every number: typed in memory, JSON on disk."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from orthoframe._atomic import write_json
from orthoframe._untrusted import few_entries, parsed
from orthoframe.errors import InputError
from orthoframe.options import Scale
from orthoframe.studies._claims import POSITIVE, TIMES, Bounds, Claim, Decision, Interval, agrees, interval, mean_of
from orthoframe.studies._jobs import JobResult
from orthoframe.studies._study import Panel


@dataclass(frozen=True)
class CellResult:
    """A cell with the results of its seeds, without those that failed.

    Attributes:
        where: Its coordinates.
        summary: Each quantity over seeds.
        results: By seed.
    """

    where: Mapping[str, Any]
    summary: Mapping[str, Interval]
    results: Mapping[int, JobResult]

    @classmethod
    def of(cls, where: Mapping[str, Any], results: Mapping[int, JobResult]) -> "CellResult":
        """A cell with its summary."""
        names = dict.fromkeys(name for result in results.values() for name in result.final)
        summary = {name: interval(_bounds(results, name), logarithm=name in POSITIVE) for name in names}
        return cls(where, summary, results)

    def over_seeds(self, quantity: str) -> Interval:
        """A quantity over seeds; without values if no seed has it."""
        return self.summary.get(quantity) or Interval(None, None, None, {})

    def curves(self, x: str, y: str, log: str = "") -> list[dict[float, float]]:
        """The curve of each seed, y by x: the points that are known, and positive along the axes in `log`."""
        found = []
        for _, result in sorted(self.results.items()):
            pairs = zip(result.curve.get(x) or (), result.curve.get(y) or (), strict=False)
            known = ((float(a), float(b)) for a, b in pairs if a is not None and b is not None and math.isfinite(b))
            found.append({a: b for a, b in known if (a > 0 or "x" not in log) and (b > 0 or "y" not in log)})
        return found

    def mean_curve(self, x: str, y: str, log: str = "") -> dict[float, tuple[float, float, float]] | None:
        """Mean, smallest and largest over the seeds that have points, y by x.

        The mean is geometric for a quantity that is positive by nature or has a logarithmic axis, if all values are
        positive. None if seeds were not measured at the same places.
        """
        seeds = [points for points in self.curves(x, y, log) if points]
        if len({tuple(points) for points in seeds}) != 1:
            return None
        columns = {place: [points[place] for points in seeds] for place in seeds[0]}
        positive = all(min(column) > 0 for column in columns.values())
        geometric = positive and ("y" in log or y in POSITIVE)
        return {
            place: (mean_of(column, geometric=geometric), min(column), max(column)) for place, column in columns.items()
        }


@dataclass(frozen=True)
class Comparison:
    """A cell's part in a claim."""

    where: Mapping[str, Any]
    decision: Decision
    interval: Interval


@dataclass(frozen=True)
class Finding:
    """A claim, and what was found."""

    claim: Claim
    decision: Decision
    comparisons: tuple[Comparison, ...]

    @property
    def worst_first(self) -> list[Comparison]:
        """The comparisons, those that are worst for the claim first."""
        falling = self.claim.at_most is None

        def goodness(part: Comparison) -> tuple[int, float]:
            end = part.interval.low if falling else part.interval.high
            worst = part.interval.mean if end is None else end
            return list(Decision).index(part.decision), -math.inf if worst is None else worst if falling else -worst

        return sorted(self.comparisons, key=goodness)

    @property
    def deciding(self) -> Comparison | None:
        """The comparison that is worst for the claim; None if no cell decides it."""
        return next(iter(self.worst_first), None)


@dataclass(frozen=True)
class Failure:
    """A run without a result.

    Attributes:
        where: The coordinates of its cell.
        key: Its folder in the store.
        sentence: Why it failed.
    """

    where: Mapping[str, Any]
    seed: int
    key: str
    sentence: str


@dataclass(frozen=True)
class StudyResult:
    """How a study ended.

    Attributes:
        remark: What a reader should know of the design that was run.
        seeds: Seeds per cell.
        command: What computes these numbers again.
        commit: The commit of the source that decided the claims; None if it is not known.
        modified: Whether files differed from that commit.
        run_commits: The commits of the source that computed the runs, as far as they are known.
        runs: How many jobs the study has; the same job in two cells is one.
        reused: How many of them had a result before.
        seconds: What all runs took together, one after the other, whenever they were run.
        columns: The quantities of the table.
        cells: In the order of the grid.
    """

    study: str
    question: str
    remark: str
    scale: Scale
    seeds: int
    command: str
    version: str
    commit: str | None
    modified: bool | None
    run_commits: tuple[str, ...]
    runs: int
    reused: int
    seconds: float
    columns: tuple[str, ...]
    panels: tuple[Panel, ...]
    findings: tuple[Finding, ...]
    cells: tuple[CellResult, ...]
    failures: tuple[Failure, ...]

    @property
    def decision(self) -> Decision:
        """That of all claims together."""
        return Decision.of_all([finding.decision for finding in self.findings])


def write_result(result: StudyResult, path: Path) -> None:
    """Write a result as JSON, with six digits of each number, and null for one that is not finite.

    Raises:
        OSError: If it cannot be written.
    """
    write_json(path, msgspec.to_builtins(result), digits=6, indent=None)


def read_result(path: Path) -> StudyResult:
    """Read what `write_result` wrote.

    Raises:
        InputError: If the file cannot be read, or is not the result of a study.
    """
    try:
        result = parsed(msgspec.json.Decoder(StudyResult).decode, few_entries(path.read_bytes()))
        _check_cells(result.cells)
        return result
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path} is not the result of a study: {error}") from None


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


def decide(claim: Claim, cells: Sequence[CellResult]) -> Finding:
    """What the results say about a claim."""
    comparisons = []
    for cell in cells:
        other = None if claim.versus is None else counterpart(cell.where, claim.versus, cells)
        if agrees(cell.where, claim.where) and (other is not None or claim.versus is None):
            found = cell.over_seeds(claim.quantity) if other is None else _compared(claim, cell, other)
            comparisons.append(Comparison(cell.where, claim.decide(found), found))
    return Finding(claim, Decision.of_all([part.decision for part in comparisons]), tuple(comparisons))


def counterpart(where: Mapping[str, Any], versus: Mapping[str, Any], cells: Sequence[CellResult]) -> CellResult | None:
    """The cell that has the coordinates `versus`, and otherwise those of another cell."""
    wanted = {**where, **versus}
    return next((cell for cell in cells if dict(cell.where) == wanted != dict(where)), None)


def _compared(claim: Claim, cell: CellResult, other: CellResult) -> Interval:
    """Seed by seed, so that what a seed does to both cancels."""
    mine, theirs = _bounds(cell.results, claim.quantity), _bounds(other.results, claim.quantity)
    pairs = {seed: (mine[seed], theirs[seed]) for seed in sorted(mine.keys() & theirs.keys())}
    if claim.how == "difference":
        return interval({seed: (one[0] - two[1], one[1] - two[0]) for seed, (one, two) in pairs.items()})
    return interval({seed: _ratio(one, two) for seed, (one, two) in pairs.items()}, logarithm=True)


def _ratio(one: Bounds, two: Bounds) -> Bounds:
    """The smallest and the largest ratio; nan if the divisor may be 0."""
    if two[0] == 0:
        return math.nan, math.nan
    return one[0] / two[1], one[1] / two[0]


def _bounds(results: Mapping[int, JobResult], quantity: str) -> dict[int, Bounds]:
    """What is known of a quantity, by seed; seeds without it are left out."""
    found = {}
    for seed, result in results.items():
        value = result.final.get(quantity)
        if value is not None:
            found[seed] = (float(value), float(value))
        elif quantity in TIMES and quantity in result.final:
            places = result.curve.get("epoch") or result.curve["time"]
            found[seed] = (float(places[-1] or 0), math.inf)  # the frame was not reached in the whole run
    return found
