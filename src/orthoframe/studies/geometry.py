"""Does ReLU lead to the orthogonal frame, whatever the imbalance, the data and the network?"""

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, Claim, reaches_frame
from orthoframe.studies._networks import network, trained
from orthoframe.studies._study import Cell, Panel, Study, way_to_frame

RATIOS = (1, 5, 10, 50, 100)


def grid(scale: Scale) -> list[Cell]:
    """Every ratio on the digits, and the decisive points on real images and with convolutions; at paper scale all."""
    if scale == "paper":
        return [
            _cell(scale, "ratios", data, model, imbalance, ratio)
            for data in ("cifar10", "mnist", "fashion-mnist")
            for model in ("resnet18", "densenet40")
            for imbalance in ("step", "long-tail")
            for ratio in RATIOS
        ]
    cells = [
        _cell(scale, "ratios", "digits", "mlp", imbalance, ratio)
        for imbalance in ("step", "long-tail")
        for ratio in (RATIOS if scale != "smoke" else (1, 10))
    ]
    for data in ("mnist", "fashion-mnist"):
        cells += [_cell(scale, "images", data, "mlp", "step", ratio) for ratio in (10, 100)]
    cells.append(_cell(scale, "images", "cifar10", "resnet18", "step", 10))
    cells.append(_cell(scale, "images", "fashion-mnist", "densenet40", "step", 10))
    where = {"grid": "full width", "data": "", "model": "", "imbalance": "step", "ratio": 10}
    wide = network(scale, "fashion-mnist", "resnet18", desk={"width": 64, "epochs": 20}, ratio=10)
    return [*cells, trained(where, wide, seeds=1)]


def _cell(scale: Scale, part: str, data: str, model: str, imbalance: str, ratio: int) -> Cell:
    where = {"grid": part, "data": data, "model": model, "imbalance": imbalance, "ratio": ratio}
    narrow = {"width": 4} if model == "densenet40" else {}  # two cores have time for no more
    return trained(where, network(scale, data, model, desk=narrow, imbalance=imbalance, ratio=ratio))


_MAIN = ("mlp", "resnet18")  # at desk and at paper scale; the ResNet-18 of full width is on its own

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
