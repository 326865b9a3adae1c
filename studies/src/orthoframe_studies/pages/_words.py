"""What a study's quantities, coordinates, rules and numbers are called."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from orthoframe.options import FRAME_COSINE, FRAME_DISTANCE
from orthoframe.reporting.style import NOTHING, lasted, plain, short
from orthoframe_studies import (
    CellResult,
    Claim,
    Comparison,
    Decision,
    Failure,
    Finding,
    Interval,
    StudyResult,
)
from orthoframe_studies._free_jobs import GradientFlow

NOT_REACHED = "not reached"
NOT_KNOWN = "not known"
EARLIER_LIMIT = 0.1
"""The largest Δ_GM of a frame on pages before there was one definition."""

# Others are called by their names.
_QUANTITIES = {
    "delta_of": "distance to the frame, Δ_GM",
    "live_delta_of": "Δ_GM of non-zero rows",
    "raw_delta_of": "Δ_GM without normalisation",
    "delta_etf": "distance of centred means to a simplex ETF",
    "delta_predicted": "distance to the predicted geometry",
    "beta_nc": "collapse, β_NC",
    "gap": "loss above its floor",
    "excess": "loss above its optimum, relative to that of a frame",
    "trend": "trend of Δ_GM (0: stationary)",
    "merged_classes": "classes that share a direction",
    "rate_to_formula": "rate near the frame, relative to the formula",
    "pair_cosine": "cosine of the unseparated pair",
    "max_other_cosine": "largest cosine of other pairs",
    "relative_gap": "gap to the floor, relative to collapsed features",
    "epochs_to_of": f"epochs to Δ_GM ≤ {FRAME_DISTANCE:g}",
    "time_to_of": f"time of the flow to Δ_GM ≤ {GradientFlow.near:g}",
    "worst_accuracy": "accuracy of the worst class",
    "minority_accuracy": "accuracy of the smaller half of the classes",
    "minority_margin": "margin of the smaller half of the classes",
    "certificate_correct": "runs that agree with the certificate",
    "dead_rows": "rows that are zero",
    "higher_ends": "fraction of starts at worse optima",
}
_COORDINATES = {
    "ratio": "imbalance R",
    "temperature": "temperature τ",
    "schedule": "temperature schedule",
    "batches": "how batches are made",
}
_SIGNS = {"ratio": "R", "temperature": "τ"}
# Their values say what they are.
_BARE = ("features", "data", "model", "loss", "batches", "method", "network", "stopped", "geometry")
_COUNTED = ("certified", "certificate_correct")  # yes or no for each run
_PROOFS = {
    "none": "",
    "learnt": "; only runs past half the gap count",
    "unmet": "; misses count only if converged",
    "end": "; only converged runs count",
    "goal": "; non-negative features must be at the frame",
}


def abbreviations(studies: Iterable[StudyResult]) -> str:
    """What OF stands for, if a claim or a remark of these studies says OF; otherwise nothing."""
    texts = [text for study in studies for text in (study.remark, *(finding.claim.text for finding in study.findings))]
    if not any(re.search(r"\bOF\b", text) for text in texts):
        return ""
    limits = f"Δ_GM at most {FRAME_DISTANCE:g}, and no two with a cosine above {FRAME_COSINE:g}"
    return f"OF is an orthogonal frame: class means at right angles and equally long ({limits})."


def title(study: StudyResult) -> str:
    words = study.study.replace("-", " ").replace("relu", "ReLU")
    return words[:1].upper() + words[1:]


def quantity_words(name: str) -> str:
    return _QUANTITIES.get(name) or name.replace("_", " ")


def coordinate_words(name: str) -> str:
    return _COORDINATES.get(name) or name.replace("_", " ")


def is_number(value: Any) -> bool:
    """Whether a value can stand on an axis of numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_words(value: Any) -> str:
    """The value of a coordinate."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return short(value, 5) if is_number(value) else str(value)


def where_words(where: Mapping[str, Any], names: Iterable[str] | None = None) -> str:
    """Coordinates as a reader would say them: with their names, unless the value says what it is.

    Examples:
        >>> where_words({"data": "digits", "ratio": 10, "batch_size": 64}), where_words({})
        ('digits, R 10, batch size 64', 'all cells pooled')
    """
    parts = [
        value_words(where[name])
        if name in _BARE
        else f"{_SIGNS.get(name) or coordinate_words(name)} {value_words(where[name])}"
        for name in (where if names is None else names)
        if name in where
    ]
    return ", ".join(parts) or "all cells pooled"


def varying(places: Sequence[Mapping[str, Any]]) -> list[str]:
    """The coordinates in which places differ, in their order; all of them if there is one place."""
    names = list(dict.fromkeys(name for where in places for name in where))
    if len(places) == 1:
        return names
    return [name for name in names if len({repr(where.get(name, NOTHING)) for where in places}) > 1]


def interval_words(interval: Interval, unknown: str = NOTHING) -> str:
    """A mean or median with its interval; `unknown` if it is not known."""
    if interval.centre is None:
        return unknown
    ends = "" if interval.low is None or interval.high is None else f" [{short(interval.low)}, {short(interval.high)}]"
    return f"{short(interval.centre)}{ends}"


def cell_words(over_seeds: Interval, quantity: str) -> str:
    """A quantity of a cell over its seeds, as a field of a table.

    Examples:
        >>> cell_words(Interval(centre=0.02, low=0.01, high=0.03, values={0: 0.02}), "gap")
        '0.02 [0.01, 0.03]'
        >>> cell_words(Interval(centre=1, low=1, high=1, values={0: 1}), "certified")
        '1 of 1'
        >>> cell_words(Interval(centre=None, low=40.0, high=None, values={0: None}), "epochs_to_of")
        'not reached'
    """
    if over_seeds.missing:
        if not over_seeds.known_values:
            return NOT_REACHED
        typical = "" if over_seeds.centre is None else f"{short(over_seeds.centre)}, "
        return f"{typical}{NOT_REACHED} by {over_seeds.missing} of {len(over_seeds.values)}"
    if quantity in _COUNTED and over_seeds.known_values:
        return f"{sum(over_seeds.known_values):.0f} of {len(over_seeds.known_values)}"
    return interval_words(over_seeds)


def rule_words(claim: Claim, name: Callable[[str], str] = quantity_words) -> str:
    """The rule of a claim; `name` says how a quantity is called.

    Examples:
        >>> rule_words(Claim("", "", "gap", {}, versus={"binding": "none"}, at_most=0.5))
        'loss above its floor, ratio to binding none, at most 0.5, in most runs'
    """
    runs = "in most runs of all cells pooled" if claim.pooled else "in most runs"
    over = "on average" if claim.over == "mean" else runs
    return f"{condition_words(claim, name)}, {over}{_PROOFS[claim.proof]}"


def measured_words(claim: Claim, name: Callable[[str], str] = quantity_words) -> str:
    versus = "" if claim.versus is None else f", {claim.how} to {where_words(claim.versus)}"
    return f"{name(claim.quantity)}{versus}"


def condition_words(claim: Claim, name: Callable[[str], str] = quantity_words) -> str:
    """What a claim measures, and its thresholds."""
    bounds = " and ".join(f"{word} {bound:g}" for word, bound in thresholds(claim).items())
    return f"{measured_words(claim, name)}{'' if claim.versus is None else ','} {bounds}"


def thresholds(claim: Claim) -> dict[str, float]:
    """The thresholds of a claim by their words."""
    bounds = {"at least": claim.at_least, "at most": claim.at_most}
    return {word: bound for word, bound in bounds.items() if bound is not None}


def finding_words(finding: Finding) -> str:
    """The numbers of the comparison that decides a claim, and where it is."""
    worst, count = finding.deciding, len(finding.comparisons)
    if worst is None:
        return "no cell decides it"
    if not any(part.interval.values for part in finding.comparisons) and worst.tally.missing:
        return "not run"
    where = where_words(worst.where, varying([part.where for part in finding.comparisons]))
    numbers = f"{comparison_words(worst)}{_earlier_words(finding.claim, worst)}"
    if count == 1:
        return f"{numbers} ({where})"
    agree = sum(part.decision is Decision.SUPPORTED for part in finding.comparisons)
    partly = agree and finding.decision is not Decision.SUPPORTED
    others = f"; {agree} of them support{'s' if agree == 1 else ''} it" if partly else ""
    return f"{numbers} (the worst of {count} cells{others}: {where})"


def _earlier_words(claim: Claim, part: Comparison) -> str:
    """How many runs are at the frame by the limit of earlier pages, if that is another number."""
    if claim.versus is not None or (claim.quantity, claim.at_most) != ("live_delta_of", FRAME_DISTANCE):
        return ""
    near = sum(distance <= EARLIER_LIMIT for distance in part.interval.known_values)
    return "" if near == part.tally.yes else f"; at {EARLIER_LIMIT:g}: {near} of {part.tally.trials}"


def sure_words(finding: Finding) -> str:
    """The interval of the share of runs of which a claim is true, in the cell that decides it."""
    worst = finding.deciding
    if worst is None or worst.interval.kind != "share" or worst.decision in (Decision.NOT_RUN, Decision.NOT_CONVERGED):
        return NOTHING
    low, high = worst.interval.low, worst.interval.high
    return NOTHING if low is None or high is None else f"{100 * low:.0f} to {100 * high:.0f} % of runs"


def comparison_words(part: Comparison) -> str:
    """The numbers of a comparison: a mean, or how many runs there are of which the claim is true, and their values.

    Examples:
        >>> from orthoframe_studies import Tally
        >>> share = Interval(centre=0.7, low=0.39, high=0.91, values={10: 0.02, 11: 0.3}, kind="share")
        >>> comparison_words(Comparison({}, Decision.NOT_CONVERGED, share, Tally(yes=7, untrained=2, missing=1)))
        '7 of 10 runs, 2 not converged, 1 not run; median 0.16'
    """
    interval, tally = part.interval, part.tally
    off = "not converged" if interval.kind == "share" else "not at the frame"
    apart = {off: tally.untrained, NOT_KNOWN: tally.unknown, "not run": tally.missing}
    rest = "".join(f", {count} {word}" for word, count in apart.items() if count)
    if interval.kind != "share":
        return f"{interval_words(interval, NOT_KNOWN)}{rest}"
    typical = (
        f"; median {short(median(interval.known_values))}" if interval.known_values and not interval.missing else ""
    )
    return f"{tally.yes} of {tally.trials} runs{rest}{typical}"


def failure_words(failure: Failure) -> str:
    return f"{where_words(failure.where)}, seed {failure.seed}: {failure.sentence}"


def cell_table(study: StudyResult) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of cells."""
    names = list(dict.fromkeys(name for cell in study.cells for name in cell.where))
    head = [*map(coordinate_words, names), "seeds", *map(quantity_words, study.columns)]
    rows = [
        [
            *(value_words(cell.where[name]) if name in cell.where else NOTHING for name in names),
            _seed_words(study, cell),
            *(cell_words(cell.over_seeds(column), column) for column in study.columns),
        ]
        for cell in study.cells
    ]
    return head, rows


def _seed_words(study: StudyResult, cell: CellResult) -> str:
    """How many of its seeds a cell has, and where they begin if none is among those of the study."""
    missing = f" of {cell.seeds}" if len(cell.results) != cell.seeds else ""
    first = min(cell.results, default=0)
    return f"{len(cell.results)}{missing}{f', from {first} on' if first >= study.first_seed + study.seeds else ''}"


def made(study: StudyResult) -> dict[str, str]:
    """How a study was made, except its command; its JSON has the version and the commits of the source."""
    last = f" to {study.first_seed + study.seeds - 1}" if study.seeds > 1 else ""
    differ = any(_seed_words(study, cell) != str(study.seeds) for cell in study.cells)
    return {
        "scale": study.scale,
        "seeds": f"{study.first_seed}{last}{', unless the table says otherwise' if differ else ''}",
        "runs": f"{study.runs}, of which {study.missing} have not been run" if study.missing else str(study.runs),
        "time of all runs, one after the other": lasted(study.seconds),
    }


def for_matplotlib(text: Any, longest: int = 200) -> str:
    """Text of a matplotlib figure, with real subscripts."""
    return re.sub(r"([Δβ])_([A-Z]+)", r"$\\mathrm{\1_{\2}}$", plain(text, longest))
