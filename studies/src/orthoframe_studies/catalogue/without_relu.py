"""Where do features end without ReLU, and is that what the convex programme predicts?"""

from typing import Any

from orthoframe_studies._claims import Claim
from orthoframe_studies._free_jobs import FreeFeatures
from orthoframe_studies._grids import free, trained
from orthoframe_studies._study import Cell, Panel, Scale, Study

TEMPERATURES = (0.3, 0.5)
LONG: dict[str, Any] = {"epochs": 3000, "measure_every": 100}
"""Full batches, one step per epoch."""
BELOW = -1e-5
"""A gap that is clearly below the floor of non-negative features, in float32."""
CLOSE = 0.1
"""A distance to the predicted Gram matrix that counts as there."""
_LINES = ("features", "temperature")


def grid(scale: Scale) -> list[Cell]:
    """Full batches, for which the prediction is made: networks, and free features."""
    cells = []
    large = 40 if scale == "smoke" else 200  # four samples are left of it at R = 50
    for ratio in (1, 10, 50) if scale != "smoke" else (1, 10):
        for temperature in TEMPERATURES:
            where = {"features": "network", "activation": "none", "temperature": temperature, "ratio": ratio}
            cells.append(trained(scale, where, desk=LONG, seeds=7, scheme="full", binding="none"))
        counts = (large,) * 5 + (large // ratio,) * 5
        for tau in (0.1, *TEMPERATURES):
            where = {"features": "free", "activation": "none", "temperature": tau, "ratio": ratio}
            cells.append(free(where, FreeFeatures(counts, 20, 0, temperature=tau, nonnegative=False)))
    return cells


STUDY = Study(
    name="without-relu",
    question="Where does training end without ReLU, and is that what predict_gram says?",
    claims=(
        Claim(
            "Without ReLU the frame is not the end: the loss of networks falls below that of any frame",
            "paper",
            "gap",
            {"features": "network"},
            at_most=BELOW,
            proof="unmet",
        ),
        Claim(
            "Networks without ReLU end at the predicted geometry",
            "our theory",
            "delta_predicted",
            {"features": "network"},
            at_most=CLOSE,
            proof="unmet",
        ),
        Claim(
            "Free features end at the predicted geometry",
            "our theory",
            "delta_predicted",
            {"features": "free"},
            at_most=1e-3,
            proof="unmet",
        ),
        Claim(
            "Free features: without ReLU the distance to the OF grows with the imbalance",
            "our theory",
            "delta_of",
            {"features": "free", "ratio": 50},
            versus={"ratio": 1},
            at_least=1.2,
            proof="end",
        ),
    ),
    grid=grid,
    columns=("gap", "excess", "delta_predicted", "delta_of", "delta_etf", "beta_nc"),
    panels=(
        Panel("Distance to the frame", "delta_of", "ratio", _LINES, log="x"),
        Panel("Distance to what is predicted", "delta_predicted", "ratio", _LINES, level=CLOSE, log="xy"),
    ),
    remark=(
        "Digits, full batches without binding: the prediction is about the loss of all samples together, at its "
        "optimum. The gap is negative where the loss is below the floor of non-negative features; the excess is 0 at "
        "the optimum and 1 at that floor. Networks are not trained at 0.1, where 3000 steps are far too few."
    ),
)
