"""Which activations reach the frame?"""

from orthoframe.options import Scale
from orthoframe.studies._claims import OF, misses_frame, reaches_frame
from orthoframe.studies._networks import RISING, coordinate, network, trained
from orthoframe.studies._study import Cell, Panel, Study, way_to_frame

ORTHANT = ("relu", "abs", "square", "softplus")
SPHERE = ("gelu", "leaky-relu", "none")
_LONG = {"epochs": 300, "measure_every": 10}


def grid(scale: Scale) -> list[Cell]:
    """Every activation: at two ratios, and with a temperature that rises, which is faster."""
    cells = []
    for activation in (*ORTHANT, *SPHERE):
        for ratio, temperature in ((10, 0.1), (100, 0.1), (10, RISING)) if scale != "smoke" else ((10, 0.1),):
            where = {"activation": activation, "ratio": ratio, "temperature": coordinate(temperature)}
            settings = network(scale, desk=_LONG, activation=activation, ratio=ratio, temperature=temperature)
            cells.append(trained(where, settings))
    return cells


STUDY = Study(
    name="activations",
    question="Which activations of the features lead to the orthogonal frame?",
    claims=(
        reaches_frame("ReLU reaches the OF in these epochs", "paper", activation="relu"),
        reaches_frame(
            "So do abs and square at a temperature of 0.1",
            "our theory",
            activation=("abs", "square"),
            temperature=0.1,
        ),
        reaches_frame(
            "So do abs and square with a temperature that rises",
            "our theory",
            activation=("abs", "square"),
            temperature=coordinate(RISING),
        ),
        reaches_frame(
            "Softplus comes near it with a temperature that rises",
            "our theory",
            activation="softplus",
            temperature=coordinate(RISING),
        ),
        misses_frame("GELU and none do not reach it", "next check", activation=("gelu", "none")),
        misses_frame("LeakyReLU does not reach it", "next check", activation="leaky-relu"),
    ),
    grid=grid,
    columns=("delta_of", "beta_nc", "mean_cosine", "max_cosine", "epochs_to_of", "balanced_accuracy"),
    panels=(
        Panel("At the end", "delta_of", "activation", ("ratio", "temperature"), {}, OF, "y"),
        way_to_frame("On the way, R = 10", "activation", ratio=10, temperature=0.1),
    ),
    remark=(
        "Digits, STEP; the slope of LeakyReLU is that of torch, 0.01. An activation that does not reach the OF may "
        "never reach it, or 300 epochs may be too few: compare with what the activations of the orthant do in the "
        "same epochs."
    ),
)
