"""The frame at the paper's number of images, with a network that two cores can train."""

from itertools import product
from typing import Any

from orthoframe.training import Ramp, TemperatureSchedule
from orthoframe_studies._claims import Claim
from orthoframe_studies._grids import trained
from orthoframe_studies._study import FRESH_SEED, Cell, Scale, Study, way_to_frame

# The contrastive loss on bound batches, with settings of the recipe `fast`. Two runs on CIFAR-10 with batches as they
# come, no margin and a rising temperature had not ended after 20 epochs.
_LARGE: dict[str, Any] = {
    **{"majority": 5000, "width": 32, "head_norm": "batch", "scheme": "balanced", "batch_size": 64, "lr": 0.05},
    **{"temperature": TemperatureSchedule(0.2, 0.2), "margin": Ramp(0.0, 0.5)},
    **{"precision": "bf16-mixed", "measure_every": 2, "test_images": 100},
}
_EPOCHS = {"cifar10": 12, "mnist": 8, "fashion-mnist": 12}


def grid(scale: Scale) -> list[Cell]:
    """Every data set with 5,000 images of a large class, at two ratios; one seed each at desk scale."""
    model = "resnet18" if scale == "paper" else "conv6"
    return [
        trained(
            scale,
            {"data": data, "ratio": ratio},
            desk={**_LARGE, "epochs": _EPOCHS[data]},
            first_seed=FRESH_SEED,
            model=model,
        )
        for data, ratio in product(_EPOCHS if scale != "smoke" else ["cifar10"], (10, 100))
    ]


STUDY = Study(
    name="paper-size",
    question="Is the orthogonal frame reached with 5,000 images of a large class?",
    claims=(
        Claim(
            "OF with 5,000 images of a large class, with balanced batches, a BatchNorm and a margin",
            "our theory",
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
        "STEP. Six convolutions of width 32 in bfloat16 (mixed precision), and a BatchNorm before the ReLU; batches of "
        "six rows of every class and a bound one, a temperature of 0.2, a margin that rises to 0.5, images as they "
        "are; 12 epochs (8 for MNIST), each of which shows every image of a large class once: 50,000 rows, besides the "
        "bound ones. At paper scale the paper's recipe with a ResNet-18. One seed for each of the six cells at desk "
        "scale: the claim is about the six runs together."
    ),
    desk_seeds=1,
)
