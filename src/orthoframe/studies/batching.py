"""Which examples meet: no shuffling, shuffling, binding, and what else could explain the difference."""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, Claim, faster, misses_frame, reaches_frame
from orthoframe.studies._jobs import FreeFeatures
from orthoframe.studies._study import RISING, Cell, Panel, Study, free, trained, way_to_frame

_BATCH = 16
_FIXED = "fixed partition"
# How batches are made, by the name that the study gives it.
WAYS: dict[str, dict[str, Any]] = {
    _FIXED: {"scheme": "partition", "binding": "none"},
    "reshuffled": {"binding": "none"},
    "bound": {"binding": "fixed"},
    "partition, bound": {"scheme": "partition", "binding": "fixed"},
    "random extra rows": {"binding": "random"},
    "redrawn extra rows": {"binding": "redrawn"},
    "partition, half bound": {"scheme": "partition", "binding": "fixed", "bound_classes": 5},
    "bound, 3 examples": {"binding": "fixed", "bound_examples": 3},
}
FIRST_THREE = (_FIXED, "reshuffled", "bound")
_CIFAR = "CIFAR-10, ResNet-18"
_NETWORKS = ("network", _CIFAR)


def grid(scale: Scale) -> list[Cell]:
    """Every way with a network on the digits and with free features; the first three on CIFAR-10."""
    cells = []
    desk = {"epochs": 60, "measure_every": 2}
    for way, options in WAYS.items():
        where = {"features": "network", "batches": way}
        cells.append(trained(scale, where, desk=desk, temperature=RISING, batch_size=_BATCH, **options))
    half = 3 if scale == "smoke" else 5  # of the classes
    counts = (12,) * half + (3,) * half if scale == "smoke" else (20,) * half + (4,) * half
    for way, options in WAYS.items():
        # Ten epochs of batches together; a partition has the same in each.
        epochs = 1 if options.get("scheme") == "partition" else 3 if scale == "smoke" else 10
        bound = {**options, "bound_classes": half} if "bound_classes" in options else options
        job = FreeFeatures(counts, 4 * half, 0, temperature=0.5, epochs=epochs, batch_size=_BATCH // 2, **bound)
        cells.append(free({"features": "free", "batches": way}, job))
    for way in FIRST_THREE if scale != "paper" else ():  # there the network is this one
        where = {"features": _CIFAR, "batches": way}
        cells.append(trained(scale, where, data="cifar10", model="resnet18", **WAYS[way]))
    return cells


def _faster(text: str, source: str, versus: str, way: str = "bound", features: Any = "network") -> Claim:
    return faster(text, source, {"features": features, "batches": way}, versus={"batches": versus})


def _closer(text: str, features: Any) -> Claim:
    """Reshuffled batches, compared with a fixed partition."""
    here, there = {"features": features, "batches": "reshuffled"}, {"batches": _FIXED}
    return Claim(text, "paper", "delta_of", here, versus=there, at_most=1.0)


STUDY = Study(
    name="batching",
    question="Does it matter which examples meet in a batch, and does binding guarantee the orthogonal frame?",
    claims=(
        misses_frame(
            "Free features of a fixed partition do not reach the OF", "paper", features="free", batches=_FIXED
        ),
        misses_frame(
            "A network with a fixed partition does not reach the OF", "paper", features=_NETWORKS, batches=_FIXED
        ),
        _closer("Reshuffling brings a network closer than a fixed partition", _NETWORKS),
        _closer("Reshuffling brings free features closer than a fixed partition", "free"),
        reaches_frame("Binding reaches the OF", "paper", batches=("bound", "partition, bound")),
        _faster("Binding is faster than reshuffling alone", "paper", "reshuffled", features=_NETWORKS),
        _faster("Binding is faster than as many random rows", "control", "random extra rows"),
        _faster("Binding is faster than redrawn rows of every class", "control", "redrawn extra rows"),
        misses_frame(
            "With half of the classes bound, free features of a fixed partition do not reach the OF",
            "paper",
            features="free",
            batches="partition, half bound",
        ),
        _faster("Three bound examples per class are faster than one", "ours", "bound", "bound, 3 examples"),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "epochs_to_of", "certified", "balanced_accuracy"),
    panels=(
        way_to_frame("A network, batches of 16", "batches", features="network"),
        way_to_frame(_CIFAR, "batches", features=_CIFAR),
        Panel("Free features", "delta_of", "batches", (), {"features": "free"}, OF),
    ),
    remark=(
        "STEP imbalance, R = 10 (free features: 5), a temperature that rises from 0.1 to 0.5 (free features: 0.5). "
        "The network is an MLP on the digits at desk scale. The two controls have batches of the same size as "
        "binding. Where half of the classes are bound, they are the larger ones. Free features see the batches of ten "
        "epochs together. The ResNet-18 has width 8 and 110 images of CIFAR-10 at desk scale. A plan is certified "
        "over its first 20 epochs: a network may still be far from the only optimum that is left."
    ),
)
