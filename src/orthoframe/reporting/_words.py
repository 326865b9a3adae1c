"""The parts of the report that are words and tables."""

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from orthoframe.reporting._format import NOTHING, RUN_COLOURS, lasted, short
from orthoframe.reporting._measured import Accuracies, Measured
from orthoframe.reporting._run import Run, Verdict

# Signatures of a run that more epochs may help; all others need a change.
_WAITING = ("falling", "begun", "slow", "stopped", "interrupted")
_LISTED, _PAIRS = 12, 6
DELTA, BETA = "Δ<sub>GM</sub>", "β<sub>NC</sub>"


def escape(value: Any) -> str:
    """Any value as text of a page."""
    return html.escape(str(value))


def status(verdict: Verdict) -> str:
    """The colour of a verdict: good, wait or bad."""
    if verdict.reached:
        return "good"
    return "wait" if any(word in verdict.signature.lower() for word in _WAITING) else "bad"


def mark(verdict: Verdict) -> str:
    """The mark of a verdict, with its signature."""
    return tag(status(verdict), verdict.signature)


def tag(colour: str, said: str) -> str:
    """A coloured mark (good, wait or bad) with words: colour alone tells nothing to some."""
    sign = {"good": "✓", "wait": "…", "bad": "✕"}[colour]
    return f'<span class="mark {colour}"><span aria-hidden="true">{sign}</span> {escape(said)}</span>'


def verdict_section(run: Run) -> str:
    """The verdict, likely causes and what to try."""
    verdict = run.verdict
    lists = [
        f"<div><h3>{title}</h3><ul>{''.join(f'<li>{escape(entry)}</li>' for entry in entries)}</ul></div>"
        for title, entries in (("Likely causes", verdict.causes), ("What to try next", verdict.advice))
        if entries
    ]
    return (
        f'<section class="verdict {status(verdict)}">{mark(verdict)}<p class="words">{escape(verdict.words)}</p>'
        + (f'<div class="columns">{"".join(lists)}</div>' if lists else "")
        + "</section>"
    )


def cards(run: Run) -> str:
    """The key figures."""
    kind, found = _accuracies(run)
    floor = run.last("floor")
    asked = run.config.get("epochs")
    ended = f"of {asked}" if isinstance(asked, int) and asked != len(run.epochs) else ""
    entries = [
        (DELTA, short(run.last("delta_of")), "0 at an orthogonal frame"),
        (BETA, short(run.last("beta_nc")), "0 when classes have collapsed"),
        ("Gap above floor", short(run.last("gap")), "no floor" if floor is None else f"floor {short(floor, 5)}"),
        ("Balanced accuracy", _part(found.balanced), f"{kind} set, nearest centre"),
        ("Worst class", _part(found.worst), _worst(found.worst_class, kind)),
        ("Epochs", f"{len(run.epochs):,}", ended),
        ("Time", duration(run), "of training"),
    ]
    return (
        '<div class="cards">'
        + "".join(
            f'<div class="card"><div class="title">{title}</div><div class="value">{value}</div>'
            f'<div class="note">{note}</div></div>'
            for title, value, note in entries
        )
        + "</div>"
    )


def _accuracies(run: Run) -> tuple[str, Accuracies]:
    """Of the test set if there is one, at the last measured epoch."""
    end = run.measured[-1] if run.measured else None
    if end is not None and end.test is not None:
        return "test", end.test
    return "training", (end.train if end is not None else None) or Accuracies(None, None, None, ())


def _part(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f} %"


def _worst(name: int | str | None, kind: str) -> str:
    return f"{kind} set" if name is None else f"class {escape(name)}, {kind} set"


def duration(run: Run) -> str:
    """Seconds of all epochs, in units that suit them."""
    return lasted(sum(value for value in run.metrics["seconds"] if value is not None))


def certificate_section(run: Run) -> str:
    """What the batch plan guarantees, with the worst classes first."""
    found = run.certificate
    if found is None:
        return '<p class="note">This run has no certificate: only a contrastive loss asks which examples meet.</p>'
    k = len(found["classes"])
    facts = [
        f"{found['num_batches']:,} batches of {_epochs(found['epochs'])} were looked at together",
        f"{found['single_class_batches']:,} of them hold a single class",
        f"{found['memberships']:,} rows",
        f"{len(found['missing_pairs']):,} of {k * (k - 1) // 2:,} pairs of classes are not pushed apart"
        + _pairs(found["missing_pairs"]),
        f"the paper's condition, as stated, {'holds' if found['holds_as_stated'] else 'does not hold'}",
    ]
    ordered = sorted(found["classes"], key=lambda entry: (-entry["components"], -entry["absent"]))
    rows = "".join(
        f"<tr><td>{escape(entry['name'])}</td>"
        + "".join(f"<td>{entry[key]:,}</td>" for key in ("samples", "absent", "components", "components_as_stated"))
        + "</tr>"
        for entry in ordered[:_LISTED]
    )
    if k > _LISTED:
        rows += f'<tr><td colspan="5" class="note">{k - _LISTED:,} more</td></tr>'
    return (
        f'<p class="sentence {"good" if found["holds"] else "bad"}">{escape(found["sentence"])}</p>'
        f'<div class="columns"><ul class="facts">{"".join(f"<li>{fact}</li>" for fact in facts)}</ul>'
        '<div class="scroll"><table class="numbers"><thead><tr><th>class</th><th>samples</th><th>in no batch</th>'
        f"<th>pieces</th><th>as stated</th></tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


def ownership_table(measured: Measured) -> str:
    """What each class has of its own, those with the fewest dimensions first."""
    purity: list[list[float]] = [[] for _ in measured.names]
    for owner, part in zip(measured.owners, measured.purity, strict=True):
        if owner >= 0 and part is not None:
            purity[owner].append(part)
    ordered = sorted(range(len(purity)), key=lambda c: len(purity[c]))
    rows = "".join(
        f"<tr><td>{escape(measured.names[c])}</td><td>{measured.counts[c]:,}</td><td>{len(purity[c]):,}</td>"
        f"<td>{short(sum(purity[c]) / len(purity[c]) if purity[c] else None)}</td></tr>"
        for c in ordered[:_LISTED]
    )
    if len(ordered) > _LISTED:
        rows += f'<tr><td colspan="4" class="note">{len(ordered) - _LISTED:,} more</td></tr>'
    return (
        '<div class="scroll"><table class="numbers" id="ownership"><thead><tr><th>class</th><th>rows</th>'
        f"<th>dimensions</th><th>owner's part of them</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _pairs(pairs: list[list[int | str]]) -> str:
    if not pairs:
        return ""
    names = ", ".join(f"{escape(a)} and {escape(b)}" for a, b in pairs[:_PAIRS])
    return f": {names}{', …' if len(pairs) > _PAIRS else ''}"


def configuration(run: Run) -> str:
    """Every setting, those too that this report does not know."""
    return settings({key: _setting(value) for key, value in run.config.items()})


def settings(entries: Mapping[str, str]) -> str:
    """Names and values side by side; the values are markup."""
    rows = "".join(f"<div><dt>{escape(key)}</dt><dd>{value}</dd></div>" for key, value in entries.items())
    return f'<dl class="settings">{rows}</dl>'


def _setting(value: Any) -> str:
    return escape(value if isinstance(value, str) else NOTHING if value is None else json.dumps(value))


def table_of_runs(runs: Sequence[Run], names: Sequence[str]) -> str:
    """A row for each run: the settings in which they differ, the verdict and key figures."""
    keys = list(dict.fromkeys(key for run in runs for key in run.config))
    # Each run has its own folder, which its name says already.
    differing = [key for key in keys if key != "out" and len({_setting(run.config.get(key)) for run in runs}) > 1]
    heads = ["run", *map(escape, differing), "verdict", DELTA, BETA, "gap", "balanced", "worst class", "time"]
    rows = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        _, found = _accuracies(run)
        cells = [
            swatch(number) + escape(name),
            *(_setting(run.config.get(key)) for key in differing),
            mark(run.verdict),
            *(short(run.last(column)) for column in ("delta_of", "beta_nc", "gap")),
            _part(found.balanced),
            _part(found.worst),
            duration(run),
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{head}</th>" for head in heads)
    return (
        f'<div class="scroll"><table class="runs"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def swatch(number: int) -> str:
    """The colour of a run."""
    return f'<span class="swatch" style="background:{RUN_COLOURS[number % len(RUN_COLOURS)]}"></span>'


def verdicts(runs: Sequence[Run], names: Sequence[str]) -> str:
    """The verdict of each run in its words."""
    return "".join(
        f"<dt>{swatch(number)}{escape(name)}</dt><dd>{escape(run.verdict.words)}</dd>"
        for number, (run, name) in enumerate(zip(runs, names, strict=True))
    ).join(('<dl class="verdicts">', "</dl>"))


def _epochs(count: int) -> str:
    return "1 epoch" if count == 1 else f"{count:,} epochs"
