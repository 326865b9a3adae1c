"""How far a run has come: whether it has learnt, whether it has ended, and whether it is where its loss leads."""

import math
from collections.abc import Mapping, Sequence

from orthoframe.runs import END, power_law
from orthoframe_studies._claims import Proof

Numbers = Mapping[str, int | float | None]  # `final` of a result

PROVEN_BOUND = 0.1
"""The largest angle bound of a gap at which cosines are those of a frame, on average over the rows compared."""
_LEARNT = 0.5  # of the way from features that are all alike to the floor
_AT_OPTIMUM = 0.1  # of the way from the floor of non-negative features down to the optimum of all features
_STILL = 0.1  # exponent of the summed learning rate: twice as much training would change a quantity by 7 per cent
_DISTANCES = ("delta_of", "live_delta_of")  # to the frame


def has_learnt(final: Numbers) -> bool:
    """Whether the loss has come half of the way to its floor; a loss without a floor counts as learnt."""
    left = final.get("relative_gap")
    return left is None or left <= 1 - _LEARNT


def has_ended(final: Numbers, quantity: str = "live_delta_of") -> bool:
    """Whether more of the same training would change nothing that a claim is about.

    - Non-negative features and a floor (`angle_bound` is known): the run is at the frame, and that is what the claim is
      about; or its distance no longer moves, and either its gap says that cosines are those of a frame on average,
      which can hide two small classes, or the gap stands still too, because something holds it: classes that share a
      direction, or rows that are zero.
    - Features of any sign and one batch of everything (`excess` is known): the loss is at its optimum, up to a tenth
      of what tells it from a frame; and distances no longer move, unless the claim is about the loss.
    - Free features: the solver says so.
    - Others, such as cross-entropy: distances no longer move.
    """
    if "converged" in final:
        return bool(final["converged"])
    if not has_learnt(final):
        return False
    if (bound := final.get("angle_bound")) is not None:
        if quantity in _DISTANCES and at_frame(final):
            return True
        moved = final.get("gap_trend")
        held = (final.get("merged_classes") or final.get("dead_rows")) and moved is not None and moved <= _STILL
        return bool(held or bound <= PROVEN_BOUND) and _is_still(final)
    if (excess := final.get("excess")) is not None:
        return excess <= _AT_OPTIMUM and (quantity == "gap" or _is_still(final))
    return _is_still(final)


def at_frame(final: Numbers) -> bool:
    """Whether the means of the rows that are not zero are an orthogonal frame."""
    from orthoframe.geometry import is_frame

    distance, cosine = final.get("live_delta_of"), final.get("max_cosine")
    return distance is not None and is_frame(distance, math.nan if cosine is None else cosine)


def is_admissible(final: Numbers, proof: Proof, kept: bool | None, quantity: str) -> bool:
    """Whether the outcome of a run may be counted, given what the claim asks for; `kept` if it is as claimed."""
    if proof == "none" or (proof == "unmet" and kept):
        return True
    if proof in ("end", "unmet"):
        return has_ended(final, quantity)
    leads_to_frame = final.get("angle_bound") is not None
    return at_frame(final) if proof == "goal" and leads_to_frame else has_learnt(final)


def trend(done: Sequence[float], values: Sequence[float | None]) -> float | None:
    """How a quantity moved in the last fifth of a run: the exponent of its power law, without its sign.

    By `done`, the learning rate summed up to each measurement.

    Examples:
        >>> trend([1.0, 80.0, 100.0], [0.3, 0.25, 0.25])
        0.0
    """
    last = next((place for place, value in zip(reversed(done), reversed(values), strict=True) if _is_finite(value)), 0)
    exponent = power_law(done, values, (1 - END) * last * (1 + 1e-9))
    return None if exponent is None else abs(exponent)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _is_still(final: Numbers) -> bool:
    moved = final.get("trend")
    return moved is not None and moved <= _STILL
