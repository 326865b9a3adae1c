"""Where do features end without ReLU, and is that what the convex programme predicts?"""

from typing import Any

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim
from orthoframe.studies._jobs import FreeFeatures
from orthoframe.studies._study import Cell, Panel, Study, free, trained

_LONG: dict[str, Any] = {"epochs": 1500, "measure_every": 50, "lr": 0.03}
_NETWORK: dict[str, Any] = {"activation": "none", "features": "network"}
_LINES = ("features", "temperature")
_CLOSE = 0.1  # to the predicted Gram matrix


def grid(scale: Scale) -> list[Cell]:
    """Full batches, for which the prediction is made: networks, and free features."""
    cells = []
    large = 40 if scale == "smoke" else 200  # four samples are left of it at R = 50
    for ratio in (1, 10, 50) if scale != "smoke" else (1, 10):
        for activation, temperature in (("none", 0.1), ("relu", 0.1), ("none", 0.5)):
            where = {"features": "network", "activation": activation, "temperature": temperature, "ratio": ratio}
            cells.append(trained(scale, where, desk=_LONG, scheme="full", binding="none"))
        counts = (large,) * 5 + (large // ratio,) * 5
        for tau in (0.1, 1.0):
            where = {"features": "free", "activation": "none", "temperature": tau, "ratio": ratio}
            cells.append(free(where, FreeFeatures(counts, 20, 0, temperature=tau, nonnegative=False)))
    return cells


def _predicted(text: str, at_most: float = _CLOSE, **where: Any) -> Claim:
    return Claim(text, "our theory", "delta_predicted", where, at_most=at_most)


STUDY = Study(
    name="without-relu",
    question="Where does training end without ReLU, and is that what predict_gram says?",
    claims=(
        Claim("Without ReLU there is no OF", "paper", "delta_of", {"activation": "none"}, at_least=0.3),
        _predicted(
            "Networks without ReLU end at the predicted geometry at a temperature of 0.1", **_NETWORK, temperature=0.1
        ),
        _predicted(
            "Networks without ReLU end at the predicted geometry at a temperature of 0.5", **_NETWORK, temperature=0.5
        ),
        _predicted("Free features end at the predicted geometry", 1e-3, features="free"),
        Claim(
            "Free features: without ReLU the distance to the OF grows with the imbalance",
            "our theory",
            "delta_of",
            {"activation": "none", "features": "free", "ratio": 50},
            versus={"ratio": 1},
            at_least=1.2,
        ),
    ),
    grid=grid,
    columns=("delta_of", "delta_etf", "delta_predicted", "beta_nc", "balanced_accuracy"),
    panels=(
        Panel("Distance to the frame", "delta_of", "ratio", ("features", "activation", "temperature"), {}, None, "x"),
        Panel("Distance to what is predicted", "delta_predicted", "ratio", _LINES, {"activation": "none"}, _CLOSE, "x"),
    ),
    remark=(
        "Digits, full batches without binding: the prediction is about the loss of all samples together, at its "
        "optimum. Under imbalance small classes have a small part in the loss, and their place is decided last."
    ),
)
