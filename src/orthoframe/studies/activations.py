"""Which activations reach the frame?"""

from orthoframe.options import Scale
from orthoframe.studies._claims import Claim
from orthoframe.studies._jobs import OF
from orthoframe.studies._networks import network, trained
from orthoframe.studies._study import Cell, Panel, Study

ORTHANT = ("relu", "abs", "square", "softplus")
SPHERE = ("gelu", "leaky-relu", "none")
_LONG = {"epochs": 300, "measure_every": 10}


def grid(scale: Scale) -> list[Cell]:
    """Every activation: at two ratios, and with a temperature that rises, which is faster."""
    cells = []
    for activation in (*ORTHANT, *SPHERE):
        for ratio, temperature in ((10, "0.1"), (100, "0.1"), (10, "0.1->0.5")) if scale != "smoke" else ((10, "0.1"),):
            where = {"activation": activation, "ratio": ratio, "temperature": temperature}
            settings = network(scale, desk=_LONG, activation=activation, ratio=ratio, temperature=temperature)
            cells.append(trained(where, settings))
    return cells


STUDY = Study(
    name="activations",
    question="Which activations of the features lead to the orthogonal frame?",
    claims=(
        Claim("ReLU reaches the OF in these epochs", "paper", "delta_of", {"activation": "relu"}, at_most=OF),
        Claim(
            "So do abs and square at a temperature of 0.1",
            "our theory",
            "delta_of",
            {"activation": ("abs", "square"), "temperature": "0.1"},
            at_most=OF,
        ),
        Claim(
            "So do abs and square with a temperature that rises",
            "our theory",
            "delta_of",
            {"activation": ("abs", "square"), "temperature": "0.1->0.5"},
            at_most=OF,
        ),
        Claim(
            "Softplus comes near it with a temperature that rises",
            "our theory",
            "delta_of",
            {"activation": "softplus", "temperature": "0.1->0.5"},
            at_most=OF,
        ),
        Claim("GELU and none do not reach it", "next check", "delta_of", {"activation": ("gelu", "none")}, at_least=OF),
        Claim("LeakyReLU does not reach it", "next check", "delta_of", {"activation": "leaky-relu"}, at_least=OF),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "mean_cosine", "max_cosine", "epochs_to_of", "balanced_accuracy"),
    panels=(
        Panel("At the end", "delta_of", "activation", ("ratio", "temperature"), {}, OF, "y"),
        Panel("On the way, R = 10", "delta_of", "epoch", ("activation",), {"ratio": 10, "temperature": "0.1"}, OF, "y"),
    ),
    remark=(
        "Digits, STEP; the slope of LeakyReLU is that of torch, 0.01. That an activation does not reach the OF may "
        "mean that it never would, or that 300 epochs are too few: what the orthant's activations do in the same "
        "epochs stands beside it."
    ),
)
