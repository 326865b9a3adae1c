"""How a run ended, in words: the frame, or what is missing and why."""

import math
from collections.abc import Sequence
from typing import Any

from orthoframe.batches import Certificate
from orthoframe.losses import fastest_temperature
from orthoframe.training._evaluate import Measured
from orthoframe.training._schedules import Temperature
from orthoframe.training._setup import Task

# What counts as a frame, and as collapsed; a distance that fell by this part in the last tenth still falls.
FRAME, COLLAPSED, FALLING = 0.05, 0.01, 0.1


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
    spread = float(geometry.spreads.mean())
    orthogonal, collapsed = geometry.delta_of <= FRAME, max(geometry.beta_nc, spread) <= COLLAPSED
    numbers = f"distance to the frame {geometry.delta_of:.4f}, beta_NC {geometry.beta_nc:.2g}"
    if spread > COLLAPSED >= geometry.beta_nc:
        numbers += f", mean squared distance to the class mean {spread:.2g}"
    if orthogonal and collapsed:
        words = (
            f"The frame is reached: class means are orthogonal and classes have collapsed ({numbers}); "
            f"balanced test accuracy {found.test['balanced']:.3f}."
        )
        return _verdict(words, "frame reached", reached=True)
    falling = _falls(rows)
    if not orthogonal and not collapsed:
        signature, shows = (
            "means not orthogonal, classes not collapsed",
            "class means are not orthogonal, and classes have not collapsed",
        )
    elif not orthogonal:
        signature, shows = "means not orthogonal", "classes have collapsed, but their means are not orthogonal"
    else:
        signature, shows = "classes not collapsed", "class means are orthogonal, but classes have not collapsed"
    causes, advice = _causes(task, certificate, found, falling)
    if falling:
        signature += ", still falling"
    elif not causes:
        signature += ", stalled"
        causes.append("the distance has stopped falling, and nothing that can be checked explains it")
        advice.append("another --seed, a wider encoder, a larger --lr or a temperature schedule such as 0.1->0.5")
    return _verdict(f"The frame is not reached: {shows} ({numbers}).", signature, causes=causes, advice=advice)


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


def _causes(task: Task, certificate: Certificate, found: Measured, falling: bool) -> tuple[list[str], list[str]]:
    """What can be checked, the gravest first."""
    settings, geometry = task.settings, found.geometry
    causes, advice = [], []
    if settings.loss == "cross-entropy":
        causes.append("cross-entropy does not lead to an orthogonal frame")
        advice.append("--loss supcon")
    if not task.encoder.nonnegative:
        causes.append(
            f"features may be negative (--activation {settings.activation}): their optimum is no orthogonal frame"
        )
        advice.append("--activation relu, abs or square")
    if settings.loss == "supcon" and not certificate.holds:
        causes.append(certificate.sentence())
        advice.append("--binding fixed, which guarantees the frame at the cost of one row a class in every batch")
    k, live = len(geometry.names), geometry.dim - geometry.ownership.dead
    if live < k:
        causes.append(f"only {live} dimensions are alive, and {k} classes need one each")
        advice.append("more --features, a smaller --lr, or --activation abs, which has no dead units")
    if geometry.dead_rows:
        causes.append(f"{geometry.dead_rows} images have no feature above zero")
        advice.append("a smaller --lr, or --activation abs, which has no dead units")
    if settings.head == "none" and settings.model != "vit" and settings.activation == "relu":
        causes.append("features are averages of ReLU maps, which are rarely exactly zero and approach the frame slowly")
        advice.append("--head linear")
    slow = _slowness(task)
    if slow is not None and not causes:
        causes.append(slow)
        advice.append("a schedule such as --temperature 0.1->0.5, or --denominator sincere or negatives")
    if falling:
        causes.append("the distance to the frame is still falling")
        advice.append("more --epochs")
    return causes, advice


def _slowness(task: Task) -> str | None:
    """Whether the temperature is far below that at which free features near the frame move fastest."""
    settings = task.settings
    if settings.loss != "supcon" or settings.denominator == "negatives":
        return None
    tau = Temperature.of(settings.temperature).last
    rows = min(settings.batch_size, len(task.train)) * settings.views
    largest = max(task.class_counts) / len(task.train)
    positives = max(1.0, rows * largest - 1)
    negatives = (
        len(task.class_counts) - 1.0 if settings.denominator == "class-average" else max(1.0, rows * (1 - largest))
    )
    best = float(fastest_temperature(positives, negatives, denominator=settings.denominator))  # type: ignore[arg-type]
    if tau >= best / 2:
        return None
    return f"temperature {tau:g} is far below {best:.2f}, at which features near the frame move fastest"


def _falls(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether the distance fell by a tenth or more in the last tenth of the run."""
    known = [(row["epoch"], row["delta_of"]) for row in rows if isinstance(row.get("delta_of"), float)]
    if len(known) < 2:
        return True
    last_epoch, last = known[-1]
    before = [delta for epoch, delta in known[:-1] if epoch <= 0.9 * last_epoch] or [known[0][1]]
    return math.isfinite(last) and last < (1 - FALLING) * before[-1]
