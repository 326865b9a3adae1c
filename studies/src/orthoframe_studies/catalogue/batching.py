"""Which examples meet: no shuffling, shuffling, binding, and what else could explain the difference."""

from typing import Any

from orthoframe.options import FRAME_DISTANCE
from orthoframe_studies._claims import Claim, faster, misses_frame, reaches_frame
from orthoframe_studies._free_jobs import FreeFeatures
from orthoframe_studies._grids import RISING, free, network, trained
from orthoframe_studies._planned_job import PlanName, PlannedTraining
from orthoframe_studies._study import Cell, Panel, Scale, Study, way_to_frame

_BATCH = 16
_FIXED = "fixed partition"
# How batches are made, by the name that the study gives it.
WAYS: dict[str, dict[str, Any]] = {
    _FIXED: {"scheme": "partition", "binding": "none"},
    "reshuffled": {"binding": "none"},
    "bound": {"binding": "fixed"},
    "random extra rows": {"binding": "random"},
    "redrawn extra rows": {"binding": "redrawn"},
    "partition, bound": {"scheme": "partition", "binding": "fixed"},
    "partition, half bound": {"scheme": "partition", "binding": "fixed", "bound_classes": 5},
    "bound, 3 examples": {"binding": "fixed", "bound_examples": 3},
}
FIRST_FIVE = (_FIXED, "reshuffled", "bound", "random extra rows", "redrawn extra rows")
_CIFAR = "CIFAR-10, ResNet-18"
_NETWORKS = ("network", _CIFAR)
_PLANNED = "planned network"
_PAIR: PlanName = "pair never anchored"
PLANS: tuple[PlanName, ...] = (_PAIR, "certified")
_IMAGES: dict[str, Any] = {
    **{"width": 8, "majority": 200, "epochs": 60, "batch_size": 32, "lr": 0.03, "temperature": RISING},
    **{"precision": "bf16-mixed", "measure_every": 3, "test_images": 100},
}


def grid(scale: Scale) -> list[Cell]:
    """Every way with a network on the digits and with free features; the first five on CIFAR-10; two given plans."""
    cells = []
    desk = {"epochs": 100, "measure_every": 2}
    for way, options in WAYS.items():
        where = {"features": "network", "batches": way}
        cells.append(trained(scale, where, desk=desk, temperature=RISING, batch_size=_BATCH, **options))
    half = 3 if scale == "smoke" else 5  # of the classes
    counts = (12,) * half + (3,) * half if scale == "smoke" else (20,) * half + (4,) * half
    for way, options in WAYS.items():
        # Ten epochs of batches together; a partition has the same in each.
        epochs = 3 if scale == "smoke" else 10
        epochs = 1 if options.get("scheme") == "partition" else epochs
        bound = {**options, "bound_classes": half} if "bound_classes" in options else options
        job = FreeFeatures(counts, 4 * half, 0, temperature=0.5, epochs=epochs, batch_size=_BATCH // 2, **bound)
        cells.append(free({"features": "free", "batches": way}, job))
    for plan in PLANS:
        cells.append(_planned(scale, plan))
    for way in FIRST_FIVE if scale != "paper" else ():  # there the network is this one
        where = {"features": _CIFAR, "batches": way}
        cells.append(trained(scale, where, desk=_IMAGES, seeds=7, data="cifar10", model="resnet18", **WAYS[way]))
    return cells


def _planned(scale: Scale, plan: PlanName) -> Cell:
    """An MLP on 40 images of each digit, whatever the scale."""
    options: dict[str, Any] = {
        "imbalance": "none",
        "majority": 40,
        "width": 256,
        "epochs": 300,
        "lr": 0.05,
        "temperature": RISING,
    }
    settings = network("smoke" if scale == "smoke" else "desk", {}, **options)
    where = {"features": _PLANNED, "batches": plan}
    return Cell(where, lambda seed: PlannedTraining(settings.with_options(seed=seed), plan))


def _faster(text: str, source: str, versus: str, way: str = "bound", features: Any = _NETWORKS) -> Claim:
    return faster(text, source, {"features": features, "batches": way}, versus={"batches": versus})


STUDY = Study(
    name="batching",
    question="Does it matter which examples meet in a batch, and does binding guarantee the orthogonal frame?",
    claims=(
        misses_frame(
            "Free features of a fixed partition do not reach the OF", "paper", features="free", batches=_FIXED
        ),
        misses_frame(
            "Networks with a fixed partition do not reach the OF", "paper", features=_NETWORKS, batches=_FIXED
        ),
        _faster("Reshuffling is faster than a fixed partition", "paper", _FIXED, "reshuffled"),
        reaches_frame("Binding reaches the OF", "paper", batches=("bound", "partition, bound")),
        _faster("Binding is faster than reshuffling alone", "paper", "reshuffled"),
        _faster("Binding is faster than as many random rows", "control", "random extra rows"),
        _faster("Binding is faster than redrawn rows of every class", "control", "redrawn extra rows"),
        misses_frame(
            "With half of the classes bound, free features of a fixed partition do not reach the OF",
            "paper",
            features="free",
            batches="partition, half bound",
        ),
        _faster("Three bound examples per class are faster than one", "ours", "bound", "bound, 3 examples", "network"),
        Claim(
            "A network on a plan that passes the paper's condition but not ours leaves the predicted pair of classes "
            "at no right angle",
            "our theory",
            "pair_cosine",
            {"features": _PLANNED, "batches": _PAIR},
            at_least=0.1,
            proof="end",
        ),
        Claim(
            "On that plan all other pairs of classes are at right angles",
            "our theory",
            "max_other_cosine",
            {"features": _PLANNED, "batches": _PAIR},
            at_most=0.1,
            proof="unmet",
        ),
        reaches_frame(
            "One more row, which certifies that plan, leads a network to the OF", "our theory", batches="certified"
        ),
    ),
    grid=grid,
    columns=("live_delta_of", "angle_bound", "epochs_to_of", "certified", "pair_cosine", "max_other_cosine"),
    panels=(
        way_to_frame("MLP on the digits", "batches", features="network"),
        way_to_frame("ResNet-18 on CIFAR-10", "batches", features=_CIFAR),
        Panel("Free features", "delta_of", "batches", (), where={"features": "free"}, level=FRAME_DISTANCE),
    ),
    remark=(
        "STEP imbalance, R = 10 (free features: 5), a temperature that rises from 0.1 to 0.5 (free features: 0.5). "
        "The network is an MLP on the digits at desk scale, in batches of 16. The two controls have batches of the "
        "same size as binding. Where half of the classes are bound, they are the larger ones. Free features see the "
        "batches of ten epochs together. The ResNet-18 has width 8, bfloat16 (mixed precision) and 200 images of a "
        "large class at desk scale. The planned networks have 40 images of each digit, and the same 11 batches but for "
        "one row; the pair is 1 and 8."
    ),
)
