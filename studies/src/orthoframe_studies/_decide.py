"""From the results of cells to what they say about a claim."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orthoframe.options import FRAME_DISTANCE
from orthoframe_studies._claims import TIME_QUANTITIES, Claim, Decision, agrees
from orthoframe_studies._endings import at_frame, is_admissible
from orthoframe_studies._jobs import JobResult
from orthoframe_studies._results import CellResult, Comparison, Finding, Tally, bounds_of
from orthoframe_studies._statistics import (
    ALPHA,
    Bounds,
    Interval,
    chance_of_mean,
    chance_of_most,
    clopper_pearson,
    holm,
    mean_interval,
)

_LEFT_OUT = 0.1  # the largest part of the seeds that may miss the gate of a claim about a mean
_Seed = tuple[Bounds, tuple[JobResult, ...]]  # what is known of the quantity, and the runs that it comes from


def decide(claim: Claim, cells: Sequence[CellResult]) -> Finding:
    """What the results say about a claim.

    A cell supports it if its own test does; all cells must. It is refuted by a cell whose test stands Holm's correction
    for the number of cells.
    """
    groups: list[tuple[Mapping[str, Any], dict[int, _Seed], int]] = []
    for cell in cells:
        other = None if claim.versus is None else counterpart(cell.where, claim.versus, cells)
        if agrees(cell.where, claim.where) and (other is not None or claim.versus is None):
            planned = cell.seeds if other is None else min(cell.seeds, other.seeds)
            groups.append((cell.where, _seeds(claim, cell, other), planned))
    if claim.pooled and groups:
        every = [seed for _, seeds, _ in groups for seed in seeds.values()]
        groups = [({}, dict(enumerate(every)), sum(planned for _, _, planned in groups))]
    judge = _counted if claim.over == "runs" else _averaged
    parts = [judge(claim, where, seeds, planned) for where, seeds, planned in groups]
    corrected = holm([against for _, against in parts])
    comparisons = tuple(
        part if against > ALPHA else Comparison(part.where, Decision.NOT_SUPPORTED, part.interval, part.tally)
        for (part, _), against in zip(parts, corrected, strict=True)
    )
    return Finding(claim, Decision.of_all([part.decision for part in comparisons]), comparisons)


def counterpart(where: Mapping[str, Any], versus: Mapping[str, Any], cells: Sequence[CellResult]) -> CellResult | None:
    """The cell that has the coordinates `versus`, and otherwise those of another cell."""
    other = {**where, **versus}
    return next((cell for cell in cells if dict(cell.where) == other != dict(where)), None)


def _counted(
    claim: Claim, where: Mapping[str, Any], seeds: Mapping[int, _Seed], planned: int
) -> tuple[Comparison, float]:
    """Count the runs of which the claim is true, and those of which it is not; a p-value against it.

    Runs that say nothing, and those that are missing, are in neither count, but among the trials of both.
    """
    yes = no = untrained = unknown = 0
    for bounds, runs in seeds.values():
        kept = None if any(map(math.isnan, bounds)) else claim.kept(*bounds)
        if kept and (claim.quantity, claim.at_most) == ("live_delta_of", FRAME_DISTANCE):
            kept = all(at_frame(run.final) for run in runs)  # two classes that are too near do not show in the mean
        if not all(is_admissible(run.final, claim.proof, kept, claim.quantity) for run in runs):
            untrained += 1
        elif kept is None:
            unknown += 1
        else:
            yes, no = yes + kept, no + (not kept)
    missing = max(0, planned - len(seeds))
    trials = max(planned, len(seeds))
    tally = Tally(yes=yes, no=no, untrained=untrained, unknown=unknown, missing=missing)
    decision = Decision.SUPPORTED if chance_of_most(yes, trials) <= ALPHA else _undecided(tally, trials)
    values = {seed: low if low == high else None for seed, ((low, high), _) in seeds.items()}
    # Runs that say nothing may be all false, or all true.
    low, high = clopper_pearson(yes, trials)[0], clopper_pearson(trials - no, trials)[1]
    shown = Interval(centre=yes / trials if trials else None, low=low, high=high, values=values, kind="share")
    return Comparison(where, decision, shown, tally), chance_of_most(no, trials)


def _undecided(tally: Tally, trials: int) -> Decision:
    """Why: missing runs could decide; or those that have not ended would decide if they agreed; or outcomes differ."""
    most = max(tally.yes, tally.no) + tally.missing
    decisive = chance_of_most(trials, trials) <= ALPHA  # whether the design has enough runs for a verdict
    if tally.missing and (chance_of_most(most, trials) <= ALPHA or not decisive):
        return Decision.NOT_RUN
    decides = tally.untrained and chance_of_most(most + tally.untrained, trials) <= ALPHA
    return Decision.NOT_CONVERGED if decides else Decision.INCONCLUSIVE


def _averaged(
    claim: Claim, where: Mapping[str, Any], seeds: Mapping[int, _Seed], planned: int
) -> tuple[Comparison, float]:
    """Test the mean over the seeds that pass the gate; a p-value against the claim.

    Every seed of the design is needed, and all but a few must pass: the others are left out.
    """
    passed = {
        seed: low if low == high else math.nan
        for seed, ((low, high), runs) in seeds.items()
        if all(is_admissible(run.final, claim.proof, None, claim.quantity) for run in runs)
    }
    interval = mean_interval(passed)
    missing = max(0, planned - len(seeds))
    tally = Tally(yes=0, no=0, untrained=len(seeds) - len(passed), unknown=0, missing=missing)
    if missing or not seeds:
        return Comparison(where, Decision.NOT_RUN, interval, tally), 1.0
    if tally.untrained > _LEFT_OUT * len(seeds):
        return Comparison(where, Decision.NOT_CONVERGED, interval, tally), 1.0
    if interval.missing:
        return Comparison(where, Decision.INCONCLUSIVE, interval, tally), 1.0
    values, mirrored = interval.known_values, [-value for value in interval.known_values]
    above, below, for_it, against = claim.at_least, claim.at_most, [], []
    if above is not None:  # the limit itself is allowed
        for_it.append(chance_of_mean(values, above) if min(values) != max(values) else float(values[0] < above))
        against.append(chance_of_mean(mirrored, -above))
    if below is not None:
        for_it.append(chance_of_mean(mirrored, -below) if min(values) != max(values) else float(values[0] > below))
        against.append(chance_of_mean(values, below))
    decision = Decision.SUPPORTED if len(values) > 1 and max(for_it) <= ALPHA else Decision.INCONCLUSIVE
    return Comparison(where, decision, interval, tally), min(1.0, len(against) * min(against))


def _seeds(claim: Claim, cell: CellResult, other: CellResult | None) -> dict[int, _Seed]:
    """The quantity by seed, or its ratio or difference, so that what a seed does to both cancels; nan if not known."""
    mine, unknown = _bounds(claim, cell), (math.nan, math.nan)
    if other is None:
        return {seed: (mine.get(seed, unknown), (result,)) for seed, result in cell.results.items()}
    theirs = _bounds(claim, other)
    compared: dict[int, _Seed] = {}
    for seed in sorted(cell.results.keys() & other.results.keys()):
        one, two = mine.get(seed, unknown), theirs.get(seed, unknown)
        bounds = (one[0] - two[1], one[1] - two[0]) if claim.how == "difference" else _ratio(one, two)
        compared[seed] = bounds, (cell.results[seed], other.results[seed])
    return compared


def _bounds(claim: Claim, cell: CellResult) -> dict[int, Bounds]:
    """What is known of the quantity, by seed.

    Times are to the frame for good, and count rows that are zero. A run that has none because of such rows, or because
    it was thrown away from the frame, was not slow: its time may be any.
    """
    bounds = bounds_of(cell.results, claim.quantity)
    if claim.quantity not in TIME_QUANTITIES:
        return bounds
    return {
        seed: (0.0, math.inf) if math.isinf(high) and _was_there(cell.results[seed]) else (low, high)
        for seed, (low, high) in bounds.items()
    }


def _was_there(result: JobResult) -> bool:
    distances = [distance for distance in result.curve.get("delta_of") or () if distance is not None]
    return at_frame(result.final) or min(distances, default=math.inf) <= FRAME_DISTANCE


def _ratio(one: Bounds, two: Bounds) -> Bounds:
    """The smallest and the largest ratio; nan if the divisor may be 0."""
    if two[0] == 0:
        return math.nan, math.nan
    return one[0] / two[1], one[1] / two[0]
