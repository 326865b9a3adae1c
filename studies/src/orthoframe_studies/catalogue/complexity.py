"""How the size and the kind of a network change the speed to the frame."""

from typing import Any

from orthoframe_studies._claims import Claim, faster
from orthoframe_studies._grids import RISING, WIDE, trained
from orthoframe_studies._study import Cell, Panel, Scale, Study, way_to_frame

# Of MLPs, and at paper scale of ResNets.
WIDTHS = {"smoke": (16, 64), "desk": (16, 64, 256, 1024), "paper": (16, 64, 128)}
# Networks by the name that the study gives them, with their model, and their width at desk and at paper scale.
KINDS = {
    "ResNet-18, half width": ("resnet18", 4, 32),
    "ResNet-18": ("resnet18", 8, None),
    "ResNet-34": ("resnet34", 8, None),
    "DenseNet-40": ("densenet40-half", 4, None),
}
_FEW: dict[str, Any] = {
    **{"majority": 50, "batch_size": 32, "lr": 0.03, "epochs": 100, "temperature": RISING},
    **{"measure_every": 2, "test_images": 20},
}


def grid(scale: Scale) -> list[Cell]:
    """Every width on the digits; networks of several kinds on few images of FashionMNIST."""
    digits = {"epochs": 150, "measure_every": 2, "temperature": RISING}
    cells = [
        trained(scale, {"data": "digits", "network": "MLP", "width": width}, desk=digits) for width in WIDTHS[scale]
    ]
    for name, (model, narrow, wide) in KINDS.items():
        where: dict[str, Any] = {"data": "fashion-mnist", "network": name}
        width: dict[str, Any] = {"width": wide} if scale == "paper" else {}
        model = "densenet40" if scale == "paper" and model == "densenet40-half" else model
        cells.append(trained(scale, where, desk={**_FEW, "width": narrow}, seeds=6, model=model, **width))
    return cells


def _epochs(text: str, source: str, network: str, versus: str, **threshold: Any) -> Claim:
    where, other = {"network": network}, {"network": versus}
    return Claim(text, source, "epochs_to_of", where, versus=other, proof="learnt", **threshold)


STUDY = Study(
    name="complexity",
    question="How do width, depth and kind of a network change the speed to the orthogonal frame?",
    claims=(
        faster(
            "Wider MLPs are faster", "open question", {"data": WIDE, "width": (128, 256, 1024)}, versus={"width": 64}
        ),
        _epochs(
            "DenseNet-40 is slower than ResNet-18, where both learn", "paper", "DenseNet-40", "ResNet-18", at_least=1
        ),
        _epochs("A wider ResNet-18 is faster", "open question", "ResNet-18", "ResNet-18, half width", at_most=1),
        _epochs("A deeper ResNet is faster", "open question", "ResNet-34", "ResNet-18", at_most=1),
    ),
    grid=grid,
    columns=("live_delta_of", "relative_gap", "epochs_to_of", "dead_rows", "seconds"),
    panels=(
        Panel("MLP on the digits, by width", "epochs_to_of", "width", (), where={"data": WIDE}, log="xy"),
        way_to_frame("Few images of FashionMNIST", "network", data="fashion-mnist"),
    ),
    remark=(
        "STEP, R = 10, a temperature that rises from 0.1 to 0.5. Narrow networks, as two cores allow: at desk scale "
        "the ResNets have width 8, an eighth of the paper's, or 4; the DenseNet-40 has growth 4 behind a stem that "
        "halves the image; 50 images of a large class. A network has learnt if its loss has come half of the way to "
        "the floor."
    ),
)
