"""Why a run may not have reached the frame: each check is a cause in words, and what to try."""

from typing import Any

from orthoframe.batches import Certificate
from orthoframe.losses import fastest_temperature
from orthoframe.training._evaluate import Measured
from orthoframe.training._schedules import Temperature
from orthoframe.training._settings import Settings
from orthoframe.training._setup import Task
from orthoframe.training._trend import Trend

# A cause, and what to try.
Cause = tuple[str, str]

# Parts of the way from features that are all alike to the floor: about none, half, and so much that the rest of the way
# shows in the distance to the frame and no longer in the loss.
ALIKE, BEGUN, NEAR = 0.05, 0.5, 0.9


def wrong_problem(task: Task) -> list[Cause]:
    """What is minimised has no orthogonal frame for its optimum."""
    causes = []
    if task.settings.loss == "cross-entropy":
        causes.append(("cross-entropy does not lead to an orthogonal frame", "--loss supcon"))
    if not task.encoder.nonnegative:
        cause = (
            f"features may be negative (--activation {task.settings.activation}): their optimum is no orthogonal frame"
        )
        causes.append((cause, "--activation relu, abs or square"))
    return causes


def is_sure(task: Task) -> bool:
    """Whether the certificate is about all batches of the run."""
    return task.repeats or task.settings.epochs <= task.certified_epochs


def uncertified(task: Task, certificate: Certificate) -> Cause | None:
    """The batches do not make the frame the only optimum."""
    settings = task.settings
    if settings.loss != "supcon" or certificate.holds:
        return None
    cause = certificate.sentence()
    if not is_sure(task):
        cause = f"in the first {task.certified_epochs} epochs (later ones were not looked at): {cause}"
    if settings.binding != "fixed":
        return cause, "--binding fixed, which guarantees the frame at the cost of one row a class in every batch"
    if settings.bound_classes is not None:
        return cause, "no --bound-classes, so that every class is bound"
    return cause, f"--bound-examples {settings.bound_examples + 1}"


def large_rate(settings: Settings, way: float, row: dict[str, Any]) -> Cause | None:
    """A learning rate far above the default, with which the loss has not come near its floor."""
    if settings.lr <= 10 * Settings.lr or way >= NEAR:
        return None
    return f"{_so_far(way, row)}, and --lr {settings.lr:g} is large", f"a smaller --lr, such as {Settings.lr:g}"


def hardly_begun(settings: Settings, way: float, row: dict[str, Any]) -> Cause:
    """The loss is still near its value for features that are all alike."""
    cause = _so_far(way, row)
    if settings.lr < Settings.lr / 10:
        return (
            f"{cause}, and --lr {settings.lr:g} is small",
            f"a larger --lr, such as {Settings.lr:g}, or more --epochs",
        )
    return cause, "more --epochs, or another --lr" if way < ALIKE else "more --epochs"


def _so_far(way: float, row: dict[str, Any]) -> str:
    if way < ALIKE:
        return f"the loss, {row['loss']:.4f}, is about that of features that are all alike, {row['collapsed']:.4f}"
    return f"the loss has gone {100 * way:.0f} % of the way from features that are all alike to its floor"


def dead(task: Task, found: Measured) -> list[Cause]:
    """Dimensions and rows that have no gradient."""
    settings, geometry = task.settings, found.geometry
    causes = []
    ways = (
        ["a smaller --lr"]
        if settings.activation == "abs"
        else ["a smaller --lr", "--activation abs, without dead units"]
    )
    k, live = len(geometry.names), geometry.dim - geometry.ownership.dead
    if live < k:
        more = "a larger --width" if settings.head == "none" else "more --features"
        causes.append((f"only {live} dimensions are alive, and {k} classes need one each", _either(more, *ways)))
    if geometry.dead_rows:
        images = "1 image has" if geometry.dead_rows == 1 else f"{geometry.dead_rows} images have"
        causes.append((f"{images} no feature above zero", _either(*ways)))
    return causes


def _fastest(task: Task) -> float | None:
    """The temperature at which free features near the frame move fastest, in batches such as those of the run."""
    settings = task.settings
    if settings.loss != "supcon" or settings.denominator == "negatives":
        return None
    rows = min(settings.batch_size, len(task.train)) * settings.views_in(settings.epochs - 1)
    largest = max(task.class_counts) / len(task.train)
    positives = max(1.0, rows * largest - 1)
    negatives = (
        len(task.class_counts) - 1.0 if settings.denominator == "class-average" else max(1.0, rows * (1 - largest))
    )
    return float(fastest_temperature(positives, negatives, denominator=settings.denominator))  # type: ignore[arg-type]


def too_hot(task: Task) -> Cause | None:
    """A temperature so high that it hardly tells classes apart."""
    schedule, best = Temperature.of(task.settings.temperature), _fastest(task)
    tau = max(schedule.first, schedule.last)
    if best is None or tau <= 2 * best:
        return None
    return (
        f"temperature {tau:g} is far above {best:.2f}, at which features near the frame move fastest: "
        "it may merge classes before they are told apart",
        f"--temperature 0.1, or a schedule that starts there and ends near {best:.2f}",
    )


def too_cold(task: Task) -> Cause | None:
    """A temperature so low that features near the frame hardly move."""
    schedule, best = Temperature.of(task.settings.temperature), _fastest(task)
    if best is None or schedule.last >= best / 2:
        return None
    others = " or ".join(name for name in ("sincere", "negatives") if name != task.settings.denominator)
    return (
        f"temperature {schedule.last:g} is far below {best:.2f}, at which features near the frame move fastest",
        _either(
            f"a schedule that ends near {best:.2f}"
            if schedule.first < schedule.last
            else "a schedule such as --temperature '0.1->0.5'",
            f"--denominator {others}",
        ),
    )


def unexplained(settings: Settings, progress: Trend) -> Cause:
    """Nothing was found."""
    ways = ["another --seed", "a wider encoder", "a larger --lr"]
    schedule = Temperature.of(settings.temperature)
    if schedule.first >= schedule.last:
        ways.append("a temperature schedule such as '0.1->0.5'")
    if progress == "slow":
        return "the distance falls slowly, and nothing that can be checked explains it", _either(
            "many more --epochs", *ways
        )
    return "the distance has stopped falling, and nothing that can be checked explains it", _either(*ways)


def _either(*ways: str) -> str:
    return ", or ".join(filter(None, (", ".join(ways[:-1]), ways[-1])))
