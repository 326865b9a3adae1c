"""The frame at the paper's number of images, with a network that two cores can train."""

from itertools import product
from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim
from orthoframe.studies._study import RISING, Cell, Study, trained, way_to_frame

_LARGE: dict[str, Any] = {
    **{"majority": 5000, "width": 32, "batch_size": 128, "lr": 0.05, "clean_fraction": 0.0},
    **{"temperature": RISING, "precision": "bf16-mixed", "measure_every": 4, "test_images": 100},
}
_EPOCHS = {"cifar10": 20, "mnist": 10, "fashion-mnist": 20}


def grid(scale: Scale) -> list[Cell]:
    """Every data set with 5,000 images of a large class, at two ratios but for one; one seed each at desk scale."""
    model = "resnet18" if scale == "paper" else "conv6"
    points = list(product(_EPOCHS if scale != "smoke" else ["cifar10"], (10, 100)))
    if scale == "desk":
        points.remove(("fashion-mnist", 10))
    return [
        trained(scale, {"data": data, "ratio": ratio}, desk={**_LARGE, "epochs": _EPOCHS[data]}, model=model)
        for data, ratio in points
    ]


STUDY = Study(
    name="paper-size",
    question="Is the orthogonal frame reached with 5,000 images of a large class?",
    claims=(
        Claim(
            "OF with 5,000 images of a large class, whatever the data set and the imbalance",
            "paper",
            "live_delta_of",
            {"ratio": (10, 100)},
            at_most=0.1,
            proof="unmet",
            pooled=True,
        ),
    ),
    grid=grid,
    columns=("live_delta_of", "dead_rows", "merged_classes", "beta_nc", "epochs_to_of"),
    panels=(way_to_frame("5,000 images of a large class", "data", "ratio"),),
    remark=(
        "STEP. Six convolutions of width 32 in bfloat16 (mixed precision), bound batches of 128, images as they are, a "
        "temperature that rises from 0.1 to 0.5, 20 epochs (10 of MNIST); at paper scale a ResNet-18. One seed for "
        "each of the five cells at desk scale: the claim is about the five runs together."
    ),
    desk_seeds=1,
)
