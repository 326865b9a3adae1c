"""Which examples meet: no shuffling, shuffling, binding, and what else could explain the difference."""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, Claim, faster, misses_frame, reaches_frame
from orthoframe.studies._jobs import FreeFeatures
from orthoframe.studies._networks import RISING, free, network, trained
from orthoframe.studies._study import Cell, Panel, Study, way_to_frame

_BATCH = 16
# How batches are made, by the name that the study gives it.
WAYS: dict[str, dict[str, Any]] = {
    "fixed partition": {"scheme": "partition", "binding": "none"},
    "reshuffled": {"binding": "none"},
    "bound": {"binding": "fixed"},
    "partition, bound": {"scheme": "partition", "binding": "fixed"},
    "random extra rows": {"binding": "random"},
    "redrawn extra rows": {"binding": "redrawn"},
    "partition, half bound": {"scheme": "partition", "binding": "fixed", "bound_classes": 5},
    "bound, 3 examples": {"binding": "fixed", "bound_examples": 3},
}
FIRST_THREE = ("fixed partition", "reshuffled", "bound")


def grid(scale: Scale) -> list[Cell]:
    """Every way with a network on the digits and with free features; the first three on CIFAR-10."""
    cells = []
    for way, options in WAYS.items():
        where = {"features": "network", "batches": way}
        settings = network(
            scale, desk={"epochs": 60, "measure_every": 2}, temperature=RISING, batch_size=_BATCH, **options
        )
        cells.append(trained(where, settings))
    # Ten epochs of batches together; a partition has the same in each.
    epochs = 3 if scale == "smoke" else 10
    counts = (12,) * 3 + (3,) * 3 if scale == "smoke" else (20,) * 5 + (4,) * 5
    for way, options in WAYS.items():
        bound = {**options, "bound_classes": len(counts) // 2} if "bound_classes" in options else options
        job = FreeFeatures(
            counts,
            2 * len(counts),
            0,
            temperature=0.5,
            epochs=1 if options.get("scheme") == "partition" else epochs,
            batch_size=_BATCH // 2,
            **bound,
        )
        cells.append(free({"features": "free", "batches": way}, job))
    for way in FIRST_THREE if scale != "paper" else ():  # there the network is this one
        where = {"features": "CIFAR-10, ResNet-18", "batches": way}
        cells.append(trained(where, network(scale, "cifar10", "resnet18", **WAYS[way])))
    return cells


_NETWORKS = ("network", "CIFAR-10, ResNet-18")

STUDY = Study(
    name="batching",
    question="Does it matter which examples meet in a batch, and does binding guarantee the orthogonal frame?",
    claims=(
        misses_frame(
            "Free features of a fixed partition do not reach the OF",
            "paper",
            features="free",
            batches="fixed partition",
        ),
        misses_frame(
            "A network with a fixed partition does not reach the OF",
            "paper",
            features=_NETWORKS,
            batches="fixed partition",
        ),
        Claim(
            "Reshuffling brings a network closer than a fixed partition",
            "paper",
            "delta_of",
            {"features": _NETWORKS, "batches": "reshuffled"},
            versus={"batches": "fixed partition"},
            at_most=1.0,
        ),
        Claim(
            "Reshuffling brings free features closer than a fixed partition",
            "paper",
            "delta_of",
            {"features": "free", "batches": "reshuffled"},
            versus={"batches": "fixed partition"},
            at_most=1.0,
        ),
        reaches_frame("Binding reaches the OF", "paper", batches=("bound", "partition, bound")),
        faster(
            "Binding is faster than reshuffling alone",
            "paper",
            {"features": _NETWORKS, "batches": "bound"},
            versus={"batches": "reshuffled"},
        ),
        faster(
            "Binding is faster than as many random rows",
            "control",
            {"features": "network", "batches": "bound"},
            versus={"batches": "random extra rows"},
        ),
        faster(
            "Binding is faster than redrawn rows of every class",
            "control",
            {"features": "network", "batches": "bound"},
            versus={"batches": "redrawn extra rows"},
        ),
        misses_frame(
            "With half of the classes bound, free features of a fixed partition do not reach the OF",
            "paper",
            features="free",
            batches="partition, half bound",
        ),
        faster(
            "Three bound examples per class are faster than one",
            "ours",
            {"features": "network", "batches": "bound, 3 examples"},
            versus={"batches": "bound"},
        ),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "epochs_to_of", "certified", "balanced_accuracy"),
    panels=(
        way_to_frame("A network, batches of 16", "batches", features="network"),
        way_to_frame("CIFAR-10, ResNet-18", "batches", features="CIFAR-10, ResNet-18"),
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
