"""The page of `benchmarks/images.py`: from the runs that it keeps to tables."""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import stats

Runs = dict[str, dict[str, Any]]
"""Entries by key."""
OURS = "accurate"
PLAIN, ADJUSTED = RULES = ("plain", "adjusted")
"""How scores predict: as they are, and adjusted for class sizes by what fits validation images best."""
_BARE, _ADJUSTED = "cross-entropy", "cross-entropy, adjusted"  # what most people do; and one of the methods
_NUMBERS = ("balanced", "minority", "worst", "ece", "seconds")
_FORMATS = {"epochs": ".1f", "rows": ",.0f", "seconds": ".0f", "flops": ".1e"}
_TITLES = ("balanced accuracy", "minority half", "worst class", "calibration error", "seconds")


def page(runs: Runs, scenes: Sequence[str], methods: Sequence[str], budgets: Sequence[int]) -> str:
    """All tables."""
    columns = [name for method in methods for name in ([_BARE, _ADJUSTED] if method == _BARE else [method])]
    parts = [part for rows in budgets for part in _budget(runs, scenes, columns, rows)]
    return "\n".join([*parts, *_ways(runs)]) + "\n"


def _budget(runs: Runs, scenes: Sequence[str], rules: Sequence[str], rows: int) -> Iterator[str]:
    by_seed = _by_seed(runs, rows)
    whole = [scene for scene in scenes if all(len(by_seed.get((scene, rule), ())) > 1 for rule in rules)]
    if not whole:
        return
    yield f"## {rows:,} rows: balanced accuracy\n"
    yield f"| | {' | '.join(rules)} |"
    yield "|---" * (len(rules) + 1) + "|"
    means = {each: statistics.fmean(seed["balanced"] for seed in by_seed[each].values()) for each in by_seed}
    for scene in whole:
        best = max(means[scene, rule] for rule in rules)
        cells = [means[scene, rule] for rule in rules]
        yield f"| {scene} | {' | '.join(f'**{m:.3f}**' if m == best else f'{m:.3f}' for m in cells)} |"
    averages = [statistics.fmean(means[scene, rule] for scene in whole) for rule in rules]
    yield f"| mean | {' | '.join(f'{mean:.3f}' for mean in averages)} |\n"
    yield from _differences(by_seed, whole, [rule for rule in rules if rule != OURS])
    yield f"\n### {rows:,} rows: what else was measured, means over settings and seeds\n"
    yield f"| | {' | '.join(_TITLES)} |"
    yield "|---" * (len(_TITLES) + 1) + "|"
    for rule in rules:
        every = [seed for scene in whole for seed in by_seed[scene, rule].values()]
        numbers = [statistics.fmean(each[name] for each in every) for name in _NUMBERS]
        yield f"| {rule} | {' | '.join(f'{n:.0f}' if n > 2 else f'{n:.3f}' for n in numbers)} |"
    yield ""


def _by_seed(runs: Runs, rows: int) -> dict[tuple[str, str], dict[int, dict[str, float]]]:
    """Numbers of each setting and rule, by seed."""
    by_seed: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for entry in runs.values():
        if "scene" in entry and not entry["tuning"] and entry["budget"] == rows:
            shown = {entry["method"]: entry["rule"]}
            if entry["method"] == _BARE:
                shown = {_BARE: PLAIN, _ADJUSTED: ADJUSTED}
            for name, rule in shown.items():
                numbers = {**entry["results"][rule], "seconds": entry["cpu"]}
                by_seed.setdefault((entry["scene"], name), {})[entry["seed"]] = numbers
    return by_seed


def _differences(by_seed: Any, scenes: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Ours less theirs, paired by seed; Holm's correction is over all comparisons of a budget."""
    tests = {}
    for scene in scenes:
        for rule in others:
            ours, theirs = by_seed[scene, OURS], by_seed[scene, rule]
            seeds = sorted(ours.keys() & theirs.keys())
            if len(seeds) > 1:
                tests[scene, rule] = paired(*([side[s]["balanced"] for s in seeds] for side in (ours, theirs)))
    ranked = sorted(tests, key=lambda each: tests[each][2])
    clear, open_ = set(), True
    for rank, each in enumerate(ranked):
        open_ = open_ and tests[each][2] * (len(tests) - rank) < 0.05
        clear |= {each} if open_ else set()
    yield f"`{OURS}` less each of the others, with 95 % intervals of the difference paired by seed; a star: different "
    yield f"after Holm's correction over the {len(tests)} comparisons.\n"
    yield f"| | {' | '.join(others)} |"
    yield "|---" * (len(others) + 1) + "|"
    for scene in scenes:
        cells = []
        for rule in others:
            mean, half, _ = tests[scene, rule]
            cells.append(f"{mean:+.3f} ± {half:.3f}{' *' if (scene, rule) in clear else ''}")
        yield f"| {scene} | {' | '.join(cells)} |"


def paired(ours: list[float], theirs: list[float]) -> tuple[float, float, float]:
    """Mean difference, half the width of its 95 % interval, and the p-value of a two-sided t test."""
    differences = np.subtract(ours, theirs)
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / math.sqrt(len(differences)))
    half = float(stats.t.ppf(0.975, len(differences) - 1)) * error
    return mean, half, float(stats.ttest_rel(ours, theirs).pvalue)


def _ways(runs: Runs) -> Iterator[str]:
    """How long it takes to the frame."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in runs.values():
        if "way" in entry:
            groups.setdefault((entry["model"], entry["way"]), []).append(entry)
    if not groups:
        return
    yield "## The way to the frame\n"
    yield "| network | recipe | reached | epochs | rows | seconds | FLOPs | Δ_GM at the end | balanced accuracy |"
    yield "|---" * 9 + "|"
    for (model, way), entries in sorted(groups.items()):
        there = [entry["arrived"] for entry in entries if entry["arrived"]]
        numbers = ["-"] * 4
        if len(there) == len(entries):
            means = {name: statistics.fmean(each[name] for each in there) for name in there[0]}
            numbers = [f"{means[name]:{how}}" for name, how in _FORMATS.items()]
        else:
            most = f"more than {max(entry['of'] for entry in entries)}"
            numbers = [most, "", f"more than {statistics.fmean(e['total_seconds'] for e in entries):.0f}"]
            numbers.append(f"more than {statistics.fmean(e['total_flops'] for e in entries):.1e}")
        delta = statistics.fmean(entry["delta"] for entry in entries)
        accuracy = statistics.fmean(entry["balanced"] for entry in entries)
        cells = [model, way, f"{len(there)} of {len(entries)}", *numbers]
        yield f"| {' | '.join(cells)} | {delta:.3f} | {accuracy:.3f} |"
