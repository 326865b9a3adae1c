"""How a run ended, in words: the frame, or what is missing and why."""

from collections.abc import Sequence
from typing import Any

from orthoframe.batches import Certificate
from orthoframe.geometry import COLLAPSE
from orthoframe.training._causes import (
    ALIKE,
    BEGUN,
    NEAR,
    Cause,
    dead,
    hardly_begun,
    is_sure,
    large_rate,
    too_cold,
    too_hot,
    uncertified,
    unexplained,
    wrong_problem,
)
from orthoframe.training._evaluate import Measured
from orthoframe.training._setup import Task
from orthoframe.training._trend import travelled, trend

_NAMES = {"delta_of": "the distance to the frame", "beta_nc": "beta_NC", "gap": "the gap above the floor"}


def diagnose(task: Task, certificate: Certificate, rows: Sequence[dict[str, Any]], found: Measured) -> dict[str, Any]:
    """Say whether the frame is reached; if not, what shows, why that may be, and what to try.

    Args:
        task: What was trained.
        certificate: Of its batches.
        rows: The rows of `metrics.csv`.
        found: The last measurement.

    Returns:
        `verdict`, `reached`, `signature`, `causes` and `advice`, as in `verdict.json`.
    """
    geometry = found.geometry
    # beta_NC does not see rows that are spread at right angles to all class means.
    spread = geometry.spread
    orthogonal, collapsed = geometry.orthogonal, geometry.collapsed
    numbers = f"distance to the frame {geometry.delta_of:.4f}, beta_NC {geometry.beta_nc:.2g}"
    if spread > COLLAPSE >= geometry.beta_nc:
        numbers += f", mean squared distance to the class mean {spread:.2g}"
    if orthogonal and collapsed:
        words = (
            f"The frame is reached: class means are orthogonal and classes have collapsed ({numbers}); "
            f"balanced test accuracy {found.test.balanced:.3f}."
        )
        return _verdict(words, "frame reached", reached=True)
    if not orthogonal and not collapsed:
        signature, shows = (
            "means not orthogonal, classes not collapsed",
            "class means are not orthogonal, and classes have not collapsed",
        )
    elif not orthogonal:
        signature, shows = "means not orthogonal", "classes have collapsed, but their means are not orthogonal"
    else:
        signature, shows = "classes not collapsed", "class means are orthogonal, but classes have not collapsed"
    column = "beta_nc" if orthogonal and "beta_nc" in rows[-1] else "delta_of"
    found_causes, ending = _causes(task, certificate, rows, found, column)
    return _verdict(
        f"The frame is not reached: {shows} ({numbers}).",
        f"{signature}, {ending}" if ending else signature,
        causes=[cause for cause, _ in found_causes],
        advice=[advice for _, advice in found_causes],
    )


def _verdict(
    words: str, signature: str, *, reached: bool = False, causes: Sequence[str] = (), advice: Sequence[str] = ()
) -> dict[str, Any]:
    return {
        "verdict": words,
        "reached": reached,
        "signature": signature,
        "causes": list(causes),
        "advice": list(advice),
    }


def _causes(
    task: Task, certificate: Certificate, rows: Sequence[dict[str, Any]], found: Measured, column: str
) -> tuple[list[Cause], str]:
    """What can be checked, the gravest first; and how the run ended, in a word or two."""
    settings, last = task.settings, rows[-1]
    way = travelled(rows)
    way = 1.0 if way is None else way
    column = "gap" if way < NEAR else column
    progress = trend(rows, column, settings.settle)
    perhaps, rate, hot = uncertified(task, certificate), large_rate(settings, way, last), too_hot(task)
    sure = is_sure(task)
    causes = wrong_problem(task)
    causes += [cause for cause in (perhaps if sure else None, rate, hot) if cause is not None]
    causes += dead(task, found)
    # An MLP and a transformer end in no map.
    if settings.head == "none" and settings.model not in ("mlp", "vit") and settings.activation == "relu":
        maps = "features are averages of ReLU maps, which are rarely exactly zero and approach the frame slowly"
        causes.append((maps, "--head linear"))
    explained = bool(causes)
    if perhaps is not None and not sure:
        causes.append(perhaps)
    if rate is not None or hot is not None:
        return causes, "features all alike" if way < ALIKE else ""  # more of the same would not help
    if way < ALIKE or (way < BEGUN and progress != "stalled"):
        ending = "features all alike" if progress == "stalled" else "hardly begun"
        return [*causes, hardly_begun(settings, way, last)], ending
    if progress == "falling":
        return [*causes, (f"{_NAMES[column]} is still falling", "more --epochs")], "still falling"
    if explained:
        return causes, ""
    cold = too_cold(task) if way >= NEAR else None
    if cold is not None:
        return [*causes, cold], "slow"
    return (causes, "") if causes else ([unexplained(settings, progress)], progress)
