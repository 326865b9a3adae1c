"""Which activations reach the frame?"""

from orthoframe.studies._claims import Claim
from orthoframe.studies._jobs import OF
from orthoframe.studies._networks import network
from orthoframe.studies._study import Cell, Panel, Scale, Study, trained

ORTHANT = ("relu", "abs", "square", "softplus")
SPHERE = ("gelu", "leaky-relu", "none")


def grid(scale: Scale) -> list[Cell]:
    """Every activation at two ratios."""
    return [
        trained(
            {"activation": activation, "ratio": ratio},
            network(scale, desk={"epochs": 300, "measure_every": 10}, activation=activation, ratio=ratio),
        )
        for activation in (*ORTHANT, *SPHERE)
        for ratio in ((10, 100) if scale != "smoke" else (10,))
    ]


STUDY = Study(
    name="activations",
    question="Which activations of the features lead to the orthogonal frame?",
    claims=(
        Claim(
            "ReLU, abs and square reach the OF",
            "our theory",
            "delta_of",
            {"activation": ("relu", "abs", "square")},
            at_most=OF,
        ),
        Claim("Softplus comes near it", "our theory", "delta_of", {"activation": "softplus"}, at_most=OF),
        Claim(
            "GELU and none do not reach it",
            "next check",
            "delta_of",
            {"activation": ("gelu", "none")},
            at_least=OF,
        ),
        Claim("LeakyReLU does not reach it", "next check", "delta_of", {"activation": "leaky-relu"}, at_least=OF),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "mean_cosine", "max_cosine", "epochs_to_of", "balanced_accuracy"),
    panels=(
        Panel("At the end", "delta_of", "activation", ("ratio",), {}, OF),
        Panel("On the way, R = 10", "delta_of", "epoch", ("activation",), {"ratio": 10}, OF, "y"),
    ),
    remark="Digits, STEP; the slope of LeakyReLU is that of torch, 0.01.",
)
