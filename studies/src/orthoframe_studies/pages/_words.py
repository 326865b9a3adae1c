"""What a study's quantities, coordinates, rules and numbers are called."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from orthoframe.reporting._format import NOTHING, lasted, plain, short
from orthoframe_studies import (
    MOST,
    OF,
    CellResult,
    Claim,
    Comparison,
    Decision,
    Failure,
    Finding,
    GradientFlow,
    Interval,
    StudyResult,
)

NOT_REACHED = "not reached"
NOT_KNOWN = "not known"

_QUANTITIES = {
    "delta_of": "distance to the frame, Δ_GM",
    "live_delta_of": "Δ_GM of non-zero rows",
    "raw_delta_of": "Δ_GM without normalisation",
    "delta_etf": "distance of centred means to a simplex ETF",
    "delta_predicted": "distance to the predicted geometry",
    "beta_nc": "collapse, β_NC",
    "mean_cosine": "mean cosine of class means",
    "max_cosine": "largest cosine of class means",
    "floor": "floor of the loss",
    "gap": "loss above its floor",
    "angle_bound": "angle bound of the gap",
    "excess": "loss above its optimum, relative to that of a frame",
    "trend": "trend of Δ_GM (0: stationary)",
    "gap_trend": "trend of the gap (0: stationary)",
    "merged_classes": "classes that share a direction",
    "rate_to_formula": "rate near the frame, relative to the formula",
    "pair_cosine": "cosine of the unseparated pair",
    "max_other_cosine": "largest cosine of other pairs",
    "relative_gap": "gap to the floor, relative to features that are all alike",
    "epochs_to_of": f"epochs to Δ_GM ≤ {OF:g}",
    "time_to_of": f"time of the flow to Δ_GM ≤ {GradientFlow.near:g}",
    "worst_accuracy": "accuracy of the worst class",
    "majority_accuracy": "accuracy of the larger half of the classes",
    "minority_accuracy": "accuracy of the smaller half of the classes",
    "test_balanced_accuracy": "balanced accuracy",
    "test_worst_accuracy": "accuracy of the worst class",
    "minority_margin": "margin of the smaller half of the classes",
    "certified": "seeds whose plan is certified",
    "coverage": "predicted probability to be certified",
    "certificate_correct": "runs that agree with the certificate",
    "epochs_to_certify": "epochs that certify, as predicted",
    "dead_rows": "rows that are zero",
    "higher_ends": "fraction of starts at worse optima",
    "seconds": "seconds of training",
}
_COORDINATES = {
    "ratio": "imbalance R",
    "temperature": "temperature τ",
    "bound_examples": "bound examples per class",
    "dim": "dimensions",
    "lr": "learning rate",
    "schedule": "temperature schedule",
    "batches": "how batches are made",
}
_SIGNS = {"ratio": "R", "temperature": "τ"}
_BARE = (
    "features",
    "data",
    "model",
    "loss",
    "batches",
    "method",
    "network",
    "stopped",
    "geometry",
)  # whose values say what they are
_COUNTED = ("certified", "certificate_correct")  # yes or no for each seed
_PROOFS = {
    "none": "",
    "learnt": "; runs must have learnt",
    "unmet": "; runs that miss it must have ended",
    "end": "; runs must have ended",
    "goal": "; networks with a frame must be at it",
}


def abbreviations(studies: Iterable[StudyResult]) -> str:
    """What OF stands for, if a claim or a remark of these studies says OF; otherwise nothing."""
    used = [text for study in studies for text in (study.remark, *(finding.claim.text for finding in study.findings))]
    if not any(re.search(r"\bOF\b", text) for text in used):
        return ""
    return f"OF is an orthogonal frame: class means at right angles and equally long, Δ_GM at most {OF:g}."


def title(study: StudyResult) -> str:
    """The name of a study, as a heading."""
    words = study.study.replace("-", " ").replace("relu", "ReLU")
    return words[:1].upper() + words[1:]


def quantity_words(name: str) -> str:
    """A quantity in words."""
    return _QUANTITIES.get(name) or name.replace("_", " ")


def coordinate_words(name: str) -> str:
    """A coordinate in words."""
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
    """Coordinates as a reader would say them: with their names, unless the value says what it is."""
    parts = [
        value_words(where[name])
        if name in _BARE
        else f"{_SIGNS.get(name) or coordinate_words(name)} {value_words(where[name])}"
        for name in (where if names is None else names)
        if name in where
    ]
    return ", ".join(parts) or "everywhere"


def varying(places: Sequence[Mapping[str, Any]]) -> list[str]:
    """The coordinates in which places differ, in their order; all of them if there is one place."""
    names = list(dict.fromkeys(name for where in places for name in where))
    if len(places) == 1:
        return names
    return [name for name in names if len({repr(where.get(name, NOTHING)) for where in places}) > 1]


def interval_words(found: Interval, unknown: str = NOTHING) -> str:
    """A mean with its interval, or what is known instead; `unknown` if nothing is."""
    mean, low, high = found.centre, found.low, found.high
    if mean is not None:
        return short(mean) if low is None or high is None else f"{short(mean)} [{short(low)}, {short(high)}]"
    if high is None:
        return f"more than {short(low)}" if low else unknown
    return f"from {short(low)} to {short(high)}" if low else f"less than {short(high)}"


def cell_words(found: Interval, quantity: str) -> str:
    """A quantity of a cell, as a field of a table.

    Args:
        found: The quantity over seeds.
        quantity: Its name.

    Examples:
        >>> cell_words(Interval(0.02, 0.01, 0.03, {0: 0.02}), "gap"), cell_words(Interval(1, 1, 1, {0: 1}), "certified")
        ('0.02 [0.01, 0.03]', '1 of 1')
        >>> cell_words(Interval(None, 40.0, None, {0: None}), "epochs_to_of")
        'not reached'
    """
    if found.missing:
        if not found.known:
            return NOT_REACHED
        typical = "" if found.centre is None else f"{short(found.centre)}, "
        return f"{typical}{NOT_REACHED} by {found.missing} of {len(found.values)}"
    if quantity in _COUNTED and found.known:
        return f"{sum(found.known):.0f} of {len(found.known)}"
    return interval_words(found)


def measured_words(claim: Claim, name: Callable[[str], str] = quantity_words) -> str:
    """What a claim measures."""
    if claim.versus is None:
        return name(claim.quantity)
    return f"{name(claim.quantity)}, {claim.how} to {where_words(claim.versus)}"


def thresholds(claim: Claim) -> dict[str, float]:
    """The thresholds of a claim by their words."""
    bounds = {"at least": claim.at_least, "at most": claim.at_most}
    return {word: bound for word, bound in bounds.items() if bound is not None}


def rule_words(claim: Claim, name: Callable[[str], str] = quantity_words) -> str:
    """The rule of a claim.

    Args:
        claim: The claim.
        name: How a quantity is called.

    Examples:
        >>> rule_words(Claim("", "", "gap", {}, versus={"binding": "none"}, at_most=0.5))
        'loss above its floor, ratio to binding none, at most 0.5, in most runs'
    """
    bounds = " and ".join(f"{word} {bound:g}" for word, bound in thresholds(claim).items())
    runs = "in most runs of all cells together" if claim.pooled else "in most runs"
    over = "on average" if claim.over == "mean" else runs
    return f"{measured_words(claim, name)}{'' if claim.versus is None else ','} {bounds}, {over}{_PROOFS[claim.proof]}"


def found_words(finding: Finding) -> str:
    """The numbers of the comparison that decides a claim, and where it is.

    Args:
        finding: The claim, and what was found.
    """
    worst = finding.deciding
    if worst is None:
        return "no cell decides it"
    if not any(part.interval.values for part in finding.comparisons) and worst.tally.missing:
        return "not run"
    said = comparison_words(worst)
    count = len(finding.comparisons)
    where = where_words(worst.where, varying([part.where for part in finding.comparisons]))
    if count == 1:
        return f"{said} ({where})"
    agree = sum(part.decision is Decision.SUPPORTED for part in finding.comparisons)
    others = f"; {agree} of them yes" if agree and finding.decision is not Decision.SUPPORTED else ""
    return f"{said} (the worst of {count} cells{others}: {where})"


def sure_words(finding: Finding) -> str:
    """The interval of the share of runs of which a claim is true, in the cell that decides it.

    Args:
        finding: The claim, and what was found. A mean has its interval beside it, in `found_words`.
    """
    worst = finding.deciding
    if worst is None or worst.interval.kind != "share" or worst.decision in (Decision.NOT_RUN, Decision.NOT_CONVERGED):
        return NOTHING
    low, high = worst.interval.low, worst.interval.high
    return NOTHING if low is None or high is None else f"{100 * low:.0f} to {100 * high:.0f} % of runs"


def comparison_words(part: Comparison) -> str:
    """The numbers of a comparison: a mean, or how many runs there are of which the claim is true, and their values.

    Examples:
        >>> from orthoframe_studies import Decision, Tally
        >>> found = Interval(0.7, 0.39, 0.91, {10: 0.02, 11: 0.3}, "share")
        >>> comparison_words(Comparison({}, Decision.NOT_CONVERGED, found, Tally(yes=7, untrained=2, missing=1)))
        '7 of 10 runs, 2 not trained, 1 not run; median 0.16'
    """
    found, tally = part.interval, part.tally
    off = "not trained" if found.kind == "share" else "not at the frame"
    apart = {off: tally.untrained, "not known": tally.unknown, "not run": tally.missing}
    rest = "".join(f", {count} {word}" for word, count in apart.items() if count)
    if found.kind != "share":
        return f"{interval_words(found, NOT_KNOWN)}{rest}"
    trials = tally.yes + tally.no + tally.untrained + tally.unknown + tally.missing
    typical = f"; median {short(median(found.known))}" if found.known and not found.missing else ""
    return f"{tally.yes} of {trials} runs{rest}{typical}"


def limit_words(claim: Claim) -> dict[str, float]:
    """The limits of what is drawn of a claim, by their words: of the share of the runs, or of the mean."""
    return {"more than": MOST} if claim.over == "runs" else thresholds(claim)


def drawn_words(claim: Claim) -> str:
    """What is drawn of a claim: the share of the runs, or the mean."""
    if claim.over == "mean":
        return measured_words(claim)
    bounds = " and ".join(f"{word} {bound:g}" for word, bound in thresholds(claim).items())
    return f"share of the runs with {measured_words(claim)} {bounds}"


def failure_words(failure: Failure) -> str:
    """A run that failed, and why."""
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
    """How many of its seeds a cell has, and where they begin if that is its own."""
    missing = f" of {cell.seeds}" if len(cell.results) != cell.seeds else ""
    begin = f", from {min(cell.results)} on" if _begins_later(study, cell) else ""
    return f"{len(cell.results)}{missing}{begin}"


def _begins_later(study: StudyResult, cell: CellResult) -> bool:
    """Whether no seed of a cell is among those of the study."""
    return min(cell.results, default=0) >= study.first_seed + study.seeds


def made(study: StudyResult) -> dict[str, str]:
    """How a study was made, except its command."""
    more = f" to {study.first_seed + study.seeds - 1}" if study.seeds > 1 else ""
    own = any(cell.seeds != study.seeds or _begins_later(study, cell) for cell in study.cells)
    return {
        "scale": study.scale,
        "seeds": f"{study.first_seed}{more}{', unless a cell has its own' if own else ''}",
        "runs": f"{study.runs}, of which {study.missing} have not been run" if study.missing else str(study.runs),
        "version": study.version,
        "commit": study.commit or NOTHING,
        "commits of the runs": ", ".join(study.run_commits) or NOTHING,
        "time of all runs, one after the other": lasted(study.seconds),
    }


def for_matplotlib(text: Any, longest: int = 200) -> str:
    """Text of a matplotlib figure, with real subscripts."""
    signs = {"Δ": r"\Delta", "β": r"\beta"}
    return re.sub(
        r"([Δβ])_([A-Z]+)",
        lambda found: rf"${signs[found[1]]}_{{\mathrm{{{found[2]}}}}}$",
        plain(text, longest),
    )
