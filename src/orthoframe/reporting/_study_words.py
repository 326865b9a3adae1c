"""What a study's quantities, coordinates and numbers are called."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orthoframe.errors import InputError
from orthoframe.reporting._format import NOTHING, plain, short

NOT_REACHED = "not reached"

QUANTITIES = {
    "delta_of": "distance to the frame, Δ_GM",
    "delta_etf": "distance of centred means to a simplex ETF",
    "delta_predicted": "distance to the predicted geometry",
    "beta_nc": "collapse, β_NC",
    "mean_cosine": "mean cosine of class means",
    "max_cosine": "largest cosine of class means",
    "loss": "loss",
    "floor": "floor of the loss",
    "gap": "loss above its floor",
    "part_left": "part of the way down to the floor that is left",
    "epochs_to_of": "epochs to Δ_GM ≤ 0.1",
    "time_to_of": "time of the flow to Δ_GM ≤ 0.01",
    "balanced_accuracy": "balanced accuracy",
    "worst_accuracy": "accuracy of the worst class",
    "majority_accuracy": "accuracy of the larger half of the classes",
    "minority_accuracy": "accuracy of the smaller half of the classes",
    "test_balanced_accuracy": "balanced accuracy",
    "test_worst_accuracy": "accuracy of the worst class",
    "margin": "margin",
    "minority_margin": "margin of the smaller half of the classes",
    "certified": "seeds whose plan is certified",
    "coverage": "predicted probability to be certified",
    "foretold": "seeds that end as the certificate says",
    "epochs_to_certify": "epochs that certify, as predicted",
    "dead_rows": "rows that are zero",
    "live_dimensions": "live dimensions",
    "seconds": "seconds of training",
}
COORDINATES = {
    "epoch": "epoch",
    "time": "time",
    "ratio": "imbalance R",
    "imbalance": "imbalance",
    "temperature": "temperature τ",
    "batch_size": "batch size",
    "bound_classes": "bound classes",
    "bound_examples": "bound examples of a class",
    "dim": "dimensions",
    "classes": "classes",
    "lr": "learning rate",
    "weight_decay": "weight decay",
}
_SIGNS = {"ratio": "R", "temperature": "τ"}
_BARE = ("data", "model", "loss")
_COLOURS = {"supported": "good", "not supported": "bad"}
_NEEDED = ("study", "question", "claims", "columns", "panels", "cells")


def checked(study: Mapping[str, Any]) -> Mapping[str, Any]:
    """A study that has what its pages show.

    Raises:
        InputError: If a part is missing.
    """
    missing = [name for name in _NEEDED if name not in study]
    if missing:
        raise InputError(f"this is not the result of a study: it has no {', '.join(missing)}")
    return study


def quantity_words(name: str) -> str:
    """A quantity in words.

    Examples:
        >>> quantity_words("beta_nc"), quantity_words("not_known_here")
        ('collapse, β_NC', 'not known here')
    """
    return QUANTITIES.get(name) or name.replace("_", " ")


def coordinate_words(name: str) -> str:
    """A coordinate in words."""
    return COORDINATES.get(name) or name.replace("_", " ")


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
    """Coordinates as a reader would say them: with their names, but for those that say it themselves.

    Examples:
        >>> where_words({"data": "digits", "ratio": 10, "batch_size": 64, "activation": "none"})
        'digits, R 10, batch size 64, activation none'
    """
    chosen = where if names is None else [name for name in names if name in where]
    parts = [
        value_words(where[name])
        if name in _BARE
        else f"{_SIGNS.get(name) or coordinate_words(name)} {value_words(where[name])}"
        for name in chosen
    ]
    return ", ".join(parts) or "everywhere"


def varying(places: Sequence[Mapping[str, Any]]) -> list[str]:
    """The coordinates in which places differ, in their order; all of them if there is one place."""
    names = list(dict.fromkeys(name for where in places for name in where))
    if len(places) == 1:
        return names
    return [name for name in names if len({repr(where.get(name, NOTHING)) for where in places}) > 1]


def colour(decision: str) -> str:
    """The colour of a decision: good, wait or bad."""
    return _COLOURS.get(decision, "wait")


def interval_words(mean: float | None, low: float | None, high: float | None) -> str:
    """A mean with its interval, or what is known instead.

    Examples:
        >>> interval_words(0.02, 0.01, 0.03), interval_words(None, 40.0, None), interval_words(None, 0.0, 0.4)
        ('0.02 [0.01, 0.03]', 'more than 40', 'less than 0.4')
    """
    if mean is not None:
        return short(mean) if low is None or high is None else f"{short(mean)} [{short(low)}, {short(high)}]"
    if high is None:
        return f"more than {short(low)}" if low else NOTHING
    return f"from {short(low)} to {short(high)}" if low else f"less than {short(high)}"


def measured_words(claim: Mapping[str, Any]) -> str:
    """What a claim measures: its rule in words, without the threshold.

    Examples:
        >>> measured_words({"quantity": "gap", "rule": "gap, ratio to binding none, at most 0.5"})
        'loss above its floor, ratio to binding none'
    """
    return re.sub(r",? at (most|least) \S+( and at most \S+)?$", "", rule_words(claim))


def rule_words(claim: Mapping[str, Any]) -> str:
    """The rule of a claim, with its quantity in words."""
    rule, quantity = str(claim["rule"]), str(claim["quantity"])
    return quantity_words(quantity) + rule.removeprefix(quantity) if rule.startswith(quantity) else rule


def deciding(claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The comparison that is worst for a claim: it decides."""
    comparisons = claim["comparisons"]
    order = {"supported": 0, "inconclusive": 1, "not supported": 2}

    def bad(part: Mapping[str, Any]) -> tuple[int, float]:
        falling = claim.get("at_most") is None
        end = part["low" if falling else "high"]
        worst = part["mean"] if end is None else end
        height = float("inf") if worst is None else -worst if falling else worst
        return order.get(part["decision"], 1), height

    return max(comparisons, key=bad) if comparisons else None


def for_html(text: Any) -> str:
    """Text of a page or of a plotly picture, with real subscripts."""
    return re.sub(r"([Δβ])_([A-Z]+)", r"\1<sub>\2</sub>", html.escape(str(text)))


def for_matplotlib(text: Any, longest: int = 200) -> str:
    """Text of a matplotlib picture, with real subscripts."""
    signs = {"Δ": r"\Delta", "β": r"\beta"}
    return re.sub(
        r"([Δβ])_([A-Z]+)",
        lambda found: rf"${signs[found[1]]}_{{\mathrm{{{found[2]}}}}}$",
        plain(text, longest),
    )
