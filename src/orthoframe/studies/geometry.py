"""Does ReLU lead to the orthogonal frame, whatever the imbalance, the data and the network?"""

from dataclasses import replace
from itertools import product
from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, Claim, reaches_frame
from orthoframe.studies._study import Cell, Panel, Study, trained, way_to_frame

IMBALANCES = ("step", "long-tail")
RATIOS = (1, 5, 10, 50, 100)
_MAIN = ("mlp", "resnet18")  # at desk and at paper scale; the ResNet-18 of full width is on its own


def grid(scale: Scale) -> list[Cell]:
    """Every ratio on the digits, and the decisive points on real images and with convolutions; at paper scale all."""
    if scale == "paper":
        every = product(("cifar10", "mnist", "fashion-mnist"), ("resnet18", "densenet40"), IMBALANCES, RATIOS)
        return [_cell(scale, "ratios", *point) for point in every]
    ratios = RATIOS if scale != "smoke" else (1, 10)
    return [
        *(_cell(scale, "ratios", "digits", "mlp", *point) for point in product(IMBALANCES, ratios)),
        *(_cell(scale, "images", data, ratio=ratio) for data in ("mnist", "fashion-mnist") for ratio in (10, 100)),
        _cell(scale, "images", "cifar10", "resnet18"),
        _cell(scale, "images", "fashion-mnist", "densenet40", width=4),  # two cores have time for no more
        replace(_cell(scale, "full width", "fashion-mnist", "resnet18", width=64, epochs=20), seeds=1),
    ]


def _cell(
    scale: Scale, part: str, data: str, model: str = "mlp", imbalance: str = "step", ratio: int = 10, **desk: Any
) -> Cell:
    where = {"grid": part, "data": data, "model": model, "imbalance": imbalance, "ratio": ratio}
    return trained(scale, where, desk=desk)


STUDY = Study(
    name="geometry",
    question="Does ReLU lead to the orthogonal frame for every imbalance, on every data set and network?",
    claims=(
        reaches_frame("OF at every STEP imbalance in these epochs", "paper", grid="ratios", imbalance="step"),
        reaches_frame(
            "OF at every long-tailed imbalance in these epochs", "paper", grid="ratios", imbalance="long-tail"
        ),
        reaches_frame("OF on MNIST in these epochs", "paper", data="mnist"),
        reaches_frame(
            "OF on FashionMNIST in these epochs", "paper", grid=("ratios", "images"), data="fashion-mnist", model=_MAIN
        ),
        reaches_frame("OF of a ResNet-18 on CIFAR-10", "paper", data="cifar10", model="resnet18"),
        reaches_frame("OF of a DenseNet-40 in these epochs", "paper", model="densenet40"),
        Claim("Classes collapse", "paper", "beta_nc", {"grid": ("ratios", "images"), "model": _MAIN}, at_most=0.1),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "max_cosine", "epochs_to_of", "balanced_accuracy"),
    panels=(
        Panel("Every imbalance", "delta_of", "ratio", ("imbalance",), {"grid": "ratios"}, OF, "xy"),
        way_to_frame("On the way, R = 10", "data", "model", ratio=10, imbalance="step"),
    ),
    remark=(
        "At desk scale digits and MNIST are trained at a temperature of 0.1 for 150 epochs. On FashionMNIST and "
        "CIFAR-10 it rises from 0.1 to 0.5: at 0.1 they need more steps than two cores have time for. Convolutional "
        "networks are narrow (the ResNet-18 has width 8, an eighth of the paper's; the DenseNet-40 has growth 4, a "
        "third) and see 110 images, 20 or 2 per class. The ResNet-18 of full width has one seed and decides nothing."
    ),
)
