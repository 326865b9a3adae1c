"""How the size and the kind of a network change the speed to the frame."""

from typing import Any

from orthoframe.studies._claims import Claim
from orthoframe.studies._jobs import OF
from orthoframe.studies._networks import network
from orthoframe.studies._study import Cell, Panel, Scale, Study, trained

WIDTHS = (16, 64, 256, 1024)
# What convolutional networks are given, for the MLP beside them.
_FEW: dict[str, Any] = {"majority": 20, "batch_size": 32, "lr": 0.01, "test_images": 20, "epochs": 120}


def grid(scale: Scale) -> list[Cell]:
    """MLPs of every width on the digits; networks of several kinds on few images of FashionMNIST."""
    cells = []
    for width in WIDTHS if scale != "smoke" else (16, 64):
        where = {"data": "digits", "network": "mlp", "width": width}
        cells.append(trained(where, network(scale, desk={"width": width})))
    for name, model, width in (
        ("mlp", "mlp", 256),
        ("resnet18, narrow", "resnet18", 4),
        ("resnet18", "resnet18", 8),
        ("resnet34", "resnet34", 8),
        ("densenet40", "densenet40", 4),
    ):
        where = {"data": "fashion-mnist", "network": name, "width": width}
        cells.append(trained(where, network(scale, "fashion-mnist", model, desk={**_FEW, "width": width})))
    return cells


STUDY = Study(
    name="complexity",
    question="How do width, depth and kind of a network change the speed to the orthogonal frame?",
    claims=(
        Claim(
            "Wider MLPs are faster",
            "open question",
            "epochs_to_of",
            {"data": "digits", "width": 1024},
            versus={"width": 64},
            at_most=1.0,
        ),
        Claim(
            "DenseNet-40 is slower than ResNet-18",
            "paper",
            "epochs_to_of",
            {"network": "densenet40"},
            versus={"network": "resnet18", "width": 8},
            at_least=1.0,
        ),
        Claim(
            "A wider ResNet-18 is faster",
            "open question",
            "epochs_to_of",
            {"network": "resnet18"},
            versus={"network": "resnet18, narrow", "width": 4},
            at_most=1.0,
        ),
        Claim(
            "A deeper ResNet is faster",
            "open question",
            "epochs_to_of",
            {"network": "resnet34"},
            versus={"network": "resnet18"},
            at_most=1.0,
        ),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "epochs_to_of", "balanced_accuracy", "seconds"),
    panels=(
        Panel("MLPs on digits", "epochs_to_of", "width", (), {"data": "digits"}, None, "xy"),
        Panel("Few images of FashionMNIST", "delta_of", "epoch", ("network",), {"data": "fashion-mnist"}, OF, "y"),
    ),
    remark="STEP, R = 10. Narrow networks, as two cores allow: width 8 is an eighth of the paper's ResNet-18.",
)
