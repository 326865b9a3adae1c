"""How the size and the kind of a network change the speed to the frame."""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim, faster
from orthoframe.studies._study import FEW_IMAGES, WIDE, Cell, Panel, Study, trained, way_to_frame

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


def grid(scale: Scale) -> list[Cell]:
    """Every width on the digits; networks of several kinds on few images of FashionMNIST."""
    cells = [trained(scale, {"data": "digits", "network": "mlp", "width": width}) for width in WIDTHS[scale]]
    for name, (model, narrow, wide) in KINDS.items():
        if scale == "paper" and model == "mlp":
            continue
        where, width = {"data": "fashion-mnist", "network": name}, {"width": wide} if scale == "paper" else {}
        cells.append(trained(scale, where, desk={**FEW_IMAGES, "width": narrow}, model=model, **width))
    return cells


def _epochs(text: str, source: str, network: str, versus: str, **threshold: Any) -> Claim:
    return Claim(text, source, "epochs_to_of", {"network": network}, versus={"network": versus}, **threshold)


STUDY = Study(
    name="complexity",
    question="How do width, depth and kind of a network change the speed to the orthogonal frame?",
    claims=(
        faster(
            "Wider MLPs are faster", "open question", {"data": WIDE, "width": (128, 256, 1024)}, versus={"width": 64}
        ),
        _epochs("DenseNet-40 is slower than ResNet-18", "paper", "densenet40", versus="resnet18", at_least=1.0),
        _epochs("A wider ResNet-18 is faster", "open question", "resnet18", versus="resnet18, narrow", at_most=1.0),
        _epochs("A deeper ResNet is faster", "open question", "resnet34", versus="resnet18", at_most=1.0),
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
