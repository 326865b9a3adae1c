"""How the size and the kind of a network change the speed to the frame."""

from dataclasses import replace
from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim, faster
from orthoframe.studies._networks import WIDE, network, trained
from orthoframe.studies._study import Cell, Panel, Study, way_to_frame

# Of MLPs, and at paper scale of ResNets.
WIDTHS = {"smoke": (16, 64), "desk": (16, 64, 256, 1024), "paper": (16, 64, 128)}
# Networks by the name that the study gives them, with their model, and their width at desk and at paper scale.
KINDS = {
    "mlp": ("mlp", 256, None),
    "resnet18, narrow": ("resnet18", 4, 32),
    "resnet18": ("resnet18", 8, None),
    "resnet34": ("resnet34", 8, None),
    "densenet40": ("densenet40", 4, None),
}
# What convolutional networks are given at desk scale, for the MLP beside them.
_FEW: dict[str, Any] = {"majority": 20, "batch_size": 32, "lr": 0.01, "test_images": 20, "epochs": 120}


def grid(scale: Scale) -> list[Cell]:
    """Every width on the digits; networks of several kinds on few images of FashionMNIST."""
    cells = []
    for width in WIDTHS[scale]:
        cells.append(trained({"data": "digits", "network": "mlp", "width": width}, network(scale, width=width)))
    for name, (model, narrow, wide) in KINDS.items():
        if scale == "paper" and model == "mlp":
            continue
        where = {"data": "fashion-mnist", "network": name}
        settings = network(scale, "fashion-mnist", model, desk={**_FEW, "width": narrow})
        cells.append(trained(where, replace(settings, width=wide) if scale == "paper" else settings))
    return cells


STUDY = Study(
    name="complexity",
    question="How do width, depth and kind of a network change the speed to the orthogonal frame?",
    claims=(
        faster(
            "Wider MLPs are faster", "open question", {"data": WIDE, "width": (128, 256, 1024)}, versus={"width": 64}
        ),
        Claim(
            "DenseNet-40 is slower than ResNet-18",
            "paper",
            "epochs_to_of",
            {"network": "densenet40"},
            versus={"network": "resnet18"},
            at_least=1.0,
        ),
        faster(
            "A wider ResNet-18 is faster",
            "open question",
            {"network": "resnet18"},
            versus={"network": "resnet18, narrow"},
        ),
        faster("A deeper ResNet is faster", "open question", {"network": "resnet34"}, versus={"network": "resnet18"}),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "epochs_to_of", "balanced_accuracy", "seconds"),
    panels=(
        Panel("By width", "epochs_to_of", "width", (), {"data": WIDE}, None, "xy"),
        way_to_frame("Few images of FashionMNIST", "network", data="fashion-mnist"),
    ),
    remark=(
        "STEP, R = 10. Narrow networks, as two cores allow: width 8 is an eighth of the paper's ResNet-18, and at "
        "desk scale the DenseNet-40 has growth 4."
    ),
)
