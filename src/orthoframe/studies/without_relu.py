"""Where do features end without ReLU, and is that what the convex programme predicts?"""

from orthoframe.studies._claims import Claim
from orthoframe.studies._jobs import Free
from orthoframe.studies._networks import network
from orthoframe.studies._study import Cell, Panel, Scale, Study, free, trained

_LONG = {"epochs": 800, "measure_every": 50}
_CLOSE = 0.1  # to the predicted Gram matrix


def grid(scale: Scale) -> list[Cell]:
    """Full batches, for which the prediction is made: a network, and free features."""
    cells = []
    large, small = (40, 10) if scale == "smoke" else (100, 20)
    for ratio in (1, 10, 100) if scale != "smoke" else (1, 10):
        for activation in ("none", "relu"):
            where = {"features": "network", "activation": activation, "ratio": ratio}
            settings = network(scale, ratio=ratio, activation=activation, scheme="full", binding="none", desk=_LONG)
            cells.append(trained(where, settings))
        counts = (large,) * 5 + (max(1, large // ratio),) * 5
        for temperature in (0.1, 1.0):
            where = {"features": f"free, tau {temperature:g}", "activation": "none", "ratio": ratio}
            cells.append(free(where, Free(counts, small, 0, temperature=temperature, nonnegative=False)))
    return cells


STUDY = Study(
    name="without-relu",
    question="Where does training end without ReLU, and is that what predict_gram says?",
    claims=(
        Claim("Without ReLU there is no OF", "paper", "delta_of", {"activation": "none"}, at_least=0.3),
        Claim(
            "Networks without ReLU end at the predicted geometry",
            "our theory",
            "delta_predicted",
            {"activation": "none", "features": "network"},
            at_most=_CLOSE,
        ),
        Claim(
            "Free features end at the predicted geometry",
            "our theory",
            "delta_predicted",
            {"features": ("free, tau 0.1", "free, tau 1")},
            at_most=1e-3,
        ),
        Claim(
            "Without ReLU the distance to the OF grows with the imbalance",
            "our theory",
            "delta_of",
            {"activation": "none", "features": "free, tau 0.1", "ratio": 100},
            versus={"ratio": 1},
            at_least=1.2,
        ),
    ),
    grid=grid,
    columns=("delta_of", "delta_etf", "delta_predicted", "beta_nc", "balanced_accuracy"),
    panels=(
        Panel("Distance to the frame", "delta_of", "ratio", ("features", "activation"), {}, None, "x"),
        Panel(
            "Distance to what is predicted",
            "delta_predicted",
            "ratio",
            ("features",),
            {"activation": "none"},
            _CLOSE,
            "x",
        ),
    ),
    remark="Digits, full batches without binding: the prediction is about the loss of all samples together.",
)
